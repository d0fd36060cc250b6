import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { refusalFields } from '../../../../src/data/client/answers.ts';
import { insufficientScope, RATE_LIMITED } from '../../../../src/gates/rejection.ts';

describe('the header fields of a refusal', () => {
	it('are made once for a kind, whatever its reasons', () => {
		assert.equal(refusalFields(RATE_LIMITED.because('a')), refusalFields(RATE_LIMITED.because('b')));
	});

	it('are its own where refusals of one kind have different ones', () => {
		const challenges = ['a', 'b', 'a'].map((scope) => refusalFields(insufficientScope([scope])).list[1]);
		assert.deepEqual(challenges, [
			'Bearer error="insufficient_scope", scope="a"',
			'Bearer error="insufficient_scope", scope="b"',
			'Bearer error="insufficient_scope", scope="a"',
		]);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
	insufficientScope,
	NO_ROUTE,
	RATE_LIMITED,
	type Rejection,
} from '../../../../packages/gate/src/gates/rejection.ts';
import { refusalResponse } from '../../../../packages/proxy/src/data/client/responses.ts';

const answerTo = (refusal: Rejection) => refusalResponse(refusal, false);

describe('the answer to a refused request', () => {
	it('is made once for a kind, whatever its reasons', () => {
		assert.equal(answerTo(RATE_LIMITED.because('a')), answerTo(RATE_LIMITED.because('b')));
	});

	it('is its own where refusals of one kind have different ones', () => {
		const challenges = ['a', 'b', 'a'].map((scope) => answerTo(insufficientScope([scope])).fields.list[1]);
		assert.deepEqual(challenges, [
			'Bearer error="insufficient_scope", scope="a"',
			'Bearer error="insufficient_scope", scope="b"',
			'Bearer error="insufficient_scope", scope="a"',
		]);
	});

	it('is made once in each form, and the forms do not mix', () => {
		const [http, grpc] = [refusalResponse(NO_ROUTE, false), refusalResponse(NO_ROUTE, true)];
		assert.deepEqual([http.status, http.body], [404, 'no route']);
		assert.deepEqual([grpc.status, grpc.body], [200, '']);
		assert.equal(refusalResponse(NO_ROUTE.because('a'), true), grpc);
		assert.equal(refusalResponse(NO_ROUTE.because('a'), false), http);
	});
});

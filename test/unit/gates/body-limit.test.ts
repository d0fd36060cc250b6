import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PAYLOAD_TOO_LARGE } from '../../../packages/gate/src/gates/rejection.ts';
import { admitLength, parseContentLength, UNDECLARED } from '../../../packages/proxy/src/gates/body-limit.ts';

describe('the body limit', () => {
	const limit = 8 * 1024 * 1024;

	it('passes a body of exactly 8 MiB and refuses one byte more', () => {
		assert.equal(admitLength(limit, limit), undefined);
		assert.equal(admitLength(limit + 1, limit), PAYLOAD_TOO_LARGE);
	});

	it('passes no body and a body of undeclared length, which is counted while it is read', () => {
		assert.equal(admitLength(0, limit), undefined);
		assert.equal(admitLength(UNDECLARED, limit), undefined);
		assert.equal(admitLength(UNDECLARED, 0), undefined);
	});

	it('treats a limit of zero as zero', () => {
		assert.equal(admitLength(0, 0), undefined);
		assert.equal(admitLength(1, 0), PAYLOAD_TOO_LARGE);
	});
});

describe('Content-Length', () => {
	it('is read from digits only', () => {
		for (const [text, bytes] of [
			['0', 0],
			['00', 0],
			['7', 7],
			['0000000000000007', 7],
			['8388608', 8_388_608],
			['9007199254740991', Number.MAX_SAFE_INTEGER],
		] as const) {
			assert.equal(parseContentLength(text), bytes, text);
		}
	});

	it('is refused in every form that another reader could read differently', () => {
		const malformed = ['', ' ', '+1', '-1', '-0', '1, 1', '1,1', '0x1', '1e3', '1.0', '1 ', ' 1', '1\t', '1\n', '1_0'];
		for (const text of [...malformed, '١', 'NaN', 'Infinity', '1;', '"1"', 'chunked']) {
			assert.equal(parseContentLength(text), undefined, JSON.stringify(text));
		}
	});

	it('is refused if a double would no longer count it exactly, or a 64-bit integer would wrap', () => {
		for (const text of ['9007199254740992', '9007199254740993', '18446744073709551617', '9'.repeat(400)]) {
			assert.equal(parseContentLength(text), undefined, text);
		}
	});

	it('is exact or refused for any text', () => {
		const text = fc.oneof(
			fc.string(),
			fc.bigInt({ min: 0n, max: 2n ** 70n }).map(String),
			fc.stringMatching(/^[0-9 +-]*$/),
		);
		fc.assert(
			fc.property(text, (value) => {
				const read = parseContentLength(value);
				if (read === undefined) return;
				assert.match(value, /^\d+$/);
				assert.equal(BigInt(read), BigInt(value));
			}),
			{ numRuns: 1000 },
		);
	});
});

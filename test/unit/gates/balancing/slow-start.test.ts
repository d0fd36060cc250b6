import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { warmth } from '../../../../packages/proxy/src/gates/balancing/slow-start.ts';

describe('slow start', () => {
	test('gives a tenth at once, half after half the time, and all at its end', () => {
		assert.deepEqual(
			[0, 500, 1_000, 5_000, 9_999, 10_000, 1e12].map((age) => warmth(age, 10_000)),
			[0.1, 0.1, 0.1, 0.5, 0.9999, 1, 1],
		);
	});

	test('never goes back, and is over at once where there is none', () => {
		fc.assert(
			fc.property(fc.nat(100_000), fc.nat(100_000), fc.integer({ min: 1, max: 60_000 }), (a, b, ms) => {
				assert.ok(warmth(Math.min(a, b), ms) <= warmth(Math.max(a, b), ms));
				assert.equal(warmth(a, 0), 1);
			}),
		);
	});

	test('takes an address that came back after the look at the clock for a new one', () => {
		assert.equal(warmth(-3, 10_000), 0.1);
	});
});

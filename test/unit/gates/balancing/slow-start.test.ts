import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { warmth } from '../../../../packages/proxy/src/gates/balancing/slow-start.ts';

describe('slow start', () => {
	test('gives a tenth at first, half after half of the time, and all at the end', () => {
		assert.deepEqual(
			[0, 500, 1_000, 5_000, 9_999, 10_000, 1e12].map((age) => warmth(age, 10_000)),
			[0.1, 0.1, 0.1, 0.5, 0.9999, 1, 1],
		);
	});

	test('never decreases, and ends at once if it is off', () => {
		fc.assert(
			fc.property(fc.nat(100_000), fc.nat(100_000), fc.integer({ min: 1, max: 60_000 }), (a, b, ms) => {
				assert.ok(warmth(Math.min(a, b), ms) <= warmth(Math.max(a, b), ms));
				assert.equal(warmth(a, 0), 1);
			}),
		);
	});

	test('treats an address that recovered after the clock was read as new', () => {
		assert.equal(warmth(-3, 10_000), 0.1);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ResponsePace } from '../../../packages/proxy/src/gates/response-pace.ts';

describe('the pace at which a client takes its answer', () => {
	it('is checked only after enough waiting time', () => {
		const pace = new ResponsePace(1000, 10_000);
		assert.equal(pace.took(1, 9_999), true);
		assert.equal(pace.took(0, 1), false);
	});

	it('passes at exactly the minimum rate, and not one byte below it', () => {
		assert.equal(new ResponsePace(1000, 10_000).took(10_000, 10_000), true);
		assert.equal(new ResponsePace(1000, 10_000).took(9_999, 10_000), false);
	});

	it('is an average: later bytes make up for a pause', () => {
		const pace = new ResponsePace(1000, 10_000);
		assert.equal(pace.took(100, 9_000), true);
		assert.equal(pace.took(9_900, 1_000), true);
	});

	it('is checked in each window: a fast start gives no credit', () => {
		const pace = new ResponsePace(1000, 10_000);
		assert.equal(pace.took(100_000_000, 10_000), true);
		assert.equal(pace.took(5_000, 6_000), true);
		assert.equal(pace.took(4_000, 4_000), false);
	});

	it('is never too low without waiting time, or without a configured rate', () => {
		assert.equal(new ResponsePace(1000, 1).took(0, 0), true);
		assert.equal(new ResponsePace(0, 1).took(0, 1_000_000), true);
	});

	it('passes exactly the clients at or above the rate, whatever the pieces', () => {
		const pieces = fc.array(
			fc.record({ bytes: fc.integer({ min: 0, max: 100_000 }), ms: fc.integer({ min: 0, max: 20_000 }) }),
			{
				minLength: 1,
				maxLength: 50,
			},
		);
		fc.assert(
			fc.property(fc.integer({ min: 1, max: 10_000 }), pieces, (rate, all) => {
				const window = 10_000;
				const pace = new ResponsePace(rate, window);
				let open = { bytes: 0, ms: 0 };
				for (const { bytes, ms } of all) {
					open = { bytes: open.bytes + bytes, ms: open.ms + ms };
					const closes = open.ms >= window;
					assert.equal(pace.took(bytes, ms), !closes || open.bytes / (open.ms / 1000) >= rate - 1e-6);
					if (closes) open = { bytes: 0, ms: 0 };
				}
			}),
		);
	});
});

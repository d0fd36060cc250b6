import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BucketCounts, BucketTotal, bucketBytes } from '../../../packages/proxy/src/memory/bucket-counts.ts';

const LAYOUT = { bounds: [0.001, 0.01, 0.1], exemplars: true };
const CLOCK = { wallSeconds: () => 1_800_000_000 };
const TRACE = '0af7651916cd43dd8448eb211c80319c';

/** Two workers' parts of one histogram. */
function parts(layout = LAYOUT) {
	const memory = BucketCounts.allocate(layout, 2);
	return [BucketCounts.view(layout, memory, 0), BucketCounts.view(layout, memory, 1)] as const;
}

describe('a histogram of buckets', () => {
	it('counts a duration in the first bucket whose bound it does not exceed, exactly', () => {
		const [one] = parts();
		assert.deepEqual(
			[0, 1, 1.0001, 10, 100, 100.1, 1e9].map((ms) => one.record(ms)),
			[0, 0, 1, 1, 2, 3, 3],
		);
		assert.deepEqual([...BucketTotal.of(LAYOUT, [one]).counts], [2, 2, 1, 2]);
		// 0.0049 times 1000 is less than 4.9.
		const [odd] = parts({ bounds: [0.0049], exemplars: false });
		assert.equal(odd.record(4.9), 0);
	});

	it('of several workers is the one that a single worker would have written', () => {
		fc.assert(
			fc.property(fc.array(fc.tuple(fc.boolean(), fc.double({ min: 0, max: 1000, noNaN: true }))), (records) => {
				const [first, second] = parts();
				const [all] = parts();
				for (const [isFirst, ms] of records) {
					(isFirst ? first : second).record(ms);
					all.record(ms);
				}
				assert.deepEqual(BucketTotal.of(LAYOUT, [first, second]).counts, BucketTotal.of(LAYOUT, [all]).counts);
			}),
		);
	});

	it('never goes down when a worker is replaced', () => {
		const memory = BucketCounts.allocate(LAYOUT, 1);
		BucketCounts.view(LAYOUT, memory, 0).record(5);
		const successor = BucketCounts.view(LAYOUT, memory, 0);
		successor.record(5);
		const total = BucketTotal.of(LAYOUT, [successor]);
		assert.deepEqual([[...total.counts], total.sumMs], [[0, 2, 0, 0], 10]);
	});

	it('takes a few bytes for a bucket, so that a thousand upstreams can have one each', () => {
		const bounds = Array.from({ length: 14 }, (_, i) => i + 1);
		assert.ok(bucketBytes({ bounds, exemplars: false }) <= 128);
		assert.ok(bucketBytes({ bounds, exemplars: true }) <= 1024);
	});
});

describe('an exemplar', () => {
	it('is remembered for each bucket, and replaced after a second', () => {
		const [one] = parts();
		one.exemplify(one.record(5), 5, TRACE, 0, CLOCK);
		one.exemplify(one.record(6), 6, 'f'.repeat(32), 999, CLOCK);
		assert.deepEqual(BucketTotal.of(LAYOUT, [one]).exemplars[1], {
			traceId: TRACE,
			ms: 5,
			wallSeconds: 1_800_000_000,
		});
		one.exemplify(one.record(7), 7, 'f'.repeat(32), 1000, CLOCK);
		assert.equal(BucketTotal.of(LAYOUT, [one]).exemplars[1]!.ms, 7);
		assert.equal(BucketTotal.of(LAYOUT, [one]).exemplars[0], undefined);
	});

	it('of several workers is the newest one', () => {
		const [first, second] = parts();
		first.exemplify(first.record(5), 5, TRACE, 0, { wallSeconds: () => 2 });
		second.exemplify(second.record(6), 6, TRACE, 0, { wallSeconds: () => 1 });
		assert.equal(BucketTotal.of(LAYOUT, [first, second]).exemplars[1]!.ms, 5);
	});

	it('is never read half-written: one of a thread that died while writing is absent', () => {
		const memory = BucketCounts.allocate(LAYOUT, 1);
		const one = BucketCounts.view(LAYOUT, memory, 0);
		one.exemplify(one.record(0), 0, TRACE, 0, CLOCK);
		// Behind the sum and four counts.
		new Int32Array(memory, 5 * 8, 1)[0]! += 1;
		assert.equal(BucketTotal.of(LAYOUT, [one]).exemplars[0], undefined);
		const successor = BucketCounts.view(LAYOUT, memory, 0);
		successor.exemplify(successor.record(0), 0, TRACE, 0, CLOCK);
		assert.equal(BucketTotal.of(LAYOUT, [successor]).exemplars[0]!.traceId, TRACE);
	});

	it('costs no memory if requests have no trace', () => {
		const [one] = parts({ ...LAYOUT, exemplars: false });
		one.exemplify(one.record(5), 5, TRACE, 0, CLOCK);
		assert.equal(BucketTotal.of(LAYOUT, [one]).exemplars[1], undefined);
	});
});

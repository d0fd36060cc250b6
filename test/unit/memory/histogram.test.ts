import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { HISTOGRAM_BYTES, Histogram, Summary } from '../../../packages/proxy/src/memory/histogram.ts';

const QUANTILES = [0, 0.5, 0.9, 0.95, 0.99, 0.999, 1];

function summaryOf(histograms: readonly Histogram[], now: number): Summary {
	const summary = new Summary();
	for (const histogram of histograms) histogram.addTo(summary, now);
	return summary;
}

/** The value that the fraction `q` of all did not exceed. */
function exactQuantile(values: readonly number[], q: number): number {
	const sorted = [...values].sort((a, b) => a - b);
	return sorted[Math.max(1, Math.ceil(q * sorted.length)) - 1]!;
}

const create = () => new Histogram(new SharedArrayBuffer(HISTOGRAM_BYTES));
const inWindow = (summary: Summary) => summary.window.reduce((sum, n) => sum + n, 0);

/** Durations of all sizes alike, from 32 microseconds to 268 seconds, in milliseconds. */
const duration = fc.double({ min: Math.log2(0.032), max: Math.log2(268_000), noNaN: true }).map((log) => 2 ** log);

describe('the histogram', () => {
	it('gives quantiles that are off by at most 1.6 %', () => {
		fc.assert(
			fc.property(
				fc.array(duration, { minLength: 1, maxLength: 200, size: 'max' }),
				fc.constantFrom(...QUANTILES),
				(values, q) => {
					const histogram = create();
					for (const value of values) histogram.record(value, 0);
					const exact = exactQuantile(values, q);
					const error = Math.abs(summaryOf([histogram], 0).quantile(q) - exact) / exact;
					assert.ok(error <= 0.016, `${exact} ms is off by ${error}`);
				},
			),
			{ numRuns: 1000 },
		);
	});

	it('is off by at most 1.6 % at every bound of a bucket', () => {
		for (let us = 32; us < 2 ** 28; us += Math.max(1, us >> 8)) {
			const histogram = create();
			histogram.record(us / 1000, 0);
			const error = Math.abs(summaryOf([histogram], 0).quantile(1) * 1000 - us) / us;
			assert.ok(error <= 0.016, `${us} us is off by ${error}`);
		}
	});

	it('is off by at most a microsecond below 32 microseconds', () => {
		for (let us = 0; us < 32; us += 0.125) {
			const histogram = create();
			histogram.record(us / 1000, 0);
			assert.ok(Math.abs(summaryOf([histogram], 0).quantile(1) * 1000 - us) <= 1, `${us} us`);
		}
	});

	it('counts durations outside its range as the shortest or longest', () => {
		for (const [ms, least, most] of [
			[0, 0, 0.001],
			[-1, 0, 0.001],
			[0.0001, 0, 0.001],
			[300_000, 268_000, 275_000],
			[1e9, 268_000, 275_000],
			[1e300, 268_000, 275_000],
		] as const) {
			const histogram = create();
			histogram.record(ms, 0);
			const median = summaryOf([histogram], 0).quantile(0.5);
			assert.ok(least <= median && median <= most, `${ms} ms is ${median}`);
		}
	});

	it('has no quantile while the window is empty', () => {
		for (const q of QUANTILES) assert.ok(Number.isNaN(summaryOf([create()], 0).quantile(q)));
		assert.ok(Number.isNaN(summaryOf([], 0).quantile(0.5)));
	});

	it('shows a record for at least 50 seconds and at most 60', () => {
		for (const recorded of [0, 1, 9999, 10_000, 59_999, 123_456]) {
			for (const [age, visible] of [
				[0, 1],
				[49_999, 1],
				[60_000, 0],
				[1e9, 0],
			] as const) {
				const histogram = create();
				histogram.record(5, recorded);
				assert.equal(inWindow(summaryOf([histogram], recorded + age)), visible, `${recorded} ms, ${age} ms later`);
			}
		}
	});

	it('has the sum and count of all records, and the quantiles of those in the window, as a list of records has', () => {
		const step = fc.oneof(fc.nat(100), fc.nat(15_000), fc.nat(200_000));
		const events = fc.array(fc.record({ step, look: fc.boolean(), ms: fc.integer({ min: 1, max: 250_000 }) }));
		fc.assert(
			fc.property(fc.nat(1e9), events, (start, all) => {
				const histogram = create();
				const records: { ms: number; slice: number }[] = [];
				let now = start;
				for (const { step, look, ms } of all) {
					now += step;
					const slice = Math.floor(now / 10_000);
					if (!look) {
						histogram.record(ms, now);
						records.push({ ms, slice });
						continue;
					}
					const summary = summaryOf([histogram], now);
					const visible = records.filter((record) => slice - record.slice < 6).map((record) => record.ms);
					assert.equal(inWindow(summary), visible.length);
					assert.equal(summary.count, records.length);
					assert.equal(
						summary.sumMs,
						records.reduce((sum, record) => sum + record.ms, 0),
					);
					if (visible.length === 0) continue;
					const exact = exactQuantile(visible, 0.9);
					assert.ok(Math.abs(summary.quantile(0.9) - exact) / exact <= 0.016);
				}
			}),
			{ numRuns: 300 },
		);
	});

	it('has the last complete slice of ten seconds, if there is a record in it', () => {
		const histogram = create();
		const last = (now: number) => {
			const summary = new Summary();
			return [histogram.addLastSliceTo(summary, now), inWindow(summary)];
		};
		assert.deepEqual(last(5000), [false, 0]);
		histogram.record(1, 5000);
		histogram.record(1, 6000);
		histogram.record(1, 25_000);
		assert.deepEqual(
			[9999, 10_000, 19_999, 20_000, 30_000, 80_000].map((now) => last(now)),
			[
				[false, 0],
				[true, 2],
				[true, 2],
				[false, 0],
				[true, 1],
				[false, 0],
			],
		);
	});

	it('has the same summary of several regions as of one with all their records', () => {
		const record = fc.record({ ms: fc.nat(300_000), step: fc.nat(9000), region: fc.nat(3) });
		fc.assert(
			fc.property(fc.array(record, { maxLength: 60 }), (records) => {
				const whole = create();
				const parts = [create(), create(), create(), create()];
				let now = 0;
				for (const { ms, step, region } of records) {
					now += step;
					whole.record(ms, now);
					parts[region]!.record(ms, now);
				}
				const [one, many] = [summaryOf([whole], now), summaryOf(parts, now)];
				assert.deepEqual(many.window, one.window);
				assert.equal(many.count, one.count);
				assert.equal(many.sumMs, one.sumMs);
				for (const q of QUANTILES) assert.equal(many.quantile(q), one.quantile(q));
			}),
			{ numRuns: 300 },
		);
	});

	it('stays within its region', () => {
		const memory = new SharedArrayBuffer(3 * HISTOGRAM_BYTES);
		const bytes = new Uint8Array(memory).fill(0xa5);
		bytes.fill(0, HISTOGRAM_BYTES, 2 * HISTOGRAM_BYTES);
		const histogram = new Histogram(memory, HISTOGRAM_BYTES);
		for (const ms of [0, 0.001, 1, 1000, 268_435, 1e9]) {
			for (let slice = 0; slice < 8; slice++) histogram.record(ms, slice * 10_000);
		}
		for (const edge of [bytes.subarray(0, HISTOGRAM_BYTES), bytes.subarray(2 * HISTOGRAM_BYTES)]) {
			assert.ok(edge.every((byte) => byte === 0xa5));
		}
		assert.equal(HISTOGRAM_BYTES % 8, 0);
	});

	it('keeps the records of an earlier writer in its region', () => {
		const memory = new SharedArrayBuffer(HISTOGRAM_BYTES);
		new Histogram(memory).record(10, 1000);
		const successor = new Histogram(memory);
		successor.record(20, 2000);
		const summary = summaryOf([successor], 2000);
		assert.deepEqual([summary.count, summary.sumMs, inWindow(summary)], [2, 30, 2]);
	});

	it('has a whole window for a reader whose clock is behind', () => {
		const histogram = create();
		for (let slice = 0; slice < 7; slice++) histogram.record(5, slice * 10_000);
		// The writer has begun its seventh slice; the window of a reader in the sixth is still whole.
		assert.equal(inWindow(summaryOf([histogram], 59_999)), 6);
		assert.equal(inWindow(summaryOf([histogram], 60_000)), 6);
		histogram.record(5, 70_000);
		assert.equal(inWindow(summaryOf([histogram], 69_999)), 6);
	});
});

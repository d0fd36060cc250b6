import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { admitTenant, TICKS_PER_REQUEST, ticksAt } from '../../../src/gates/tenant-limit.ts';

/** Rates whose period is no whole number of milliseconds, or of anything else that a clock counts. */
const RATES = [1, 2, 3, 5, 7, 60, 997, 1000, 1023, 999_999];

/** One tenant's bucket over the two functions of the gate. */
class Bucket {
	readonly #rps: number;
	#fullAt = 0;

	constructor(rps: number) {
		this.#rps = rps;
	}

	admit(nowMs: number): boolean {
		const next = admitTenant(this.#fullAt, ticksAt(nowMs, this.#rps), this.#rps);
		if (next !== -1) this.#fullAt = next;
		return next !== -1;
	}

	/** Asks until it is refused. */
	drain(nowMs: number): number {
		let admitted = 0;
		while (this.admit(nowMs)) admitted++;
		return admitted;
	}
}

/**
 * The same limit in exact integers, and by its other definition: not one number that moves on, but every stretch of
 * time since any earlier admission holds at most the burst and one request a period. Times are in 1/128 ms, which
 * doubles hold exactly.
 *
 * @param slack by how many requests it may be missed, as a fraction of 1024.
 */
class ExactLimit {
	readonly #admitted: bigint[] = [];
	readonly #rps: bigint;

	constructor(rps: number) {
		this.#rps = BigInt(rps);
	}

	admits(now: bigint, slack = 0n): boolean {
		return this.#admitted.every((since, i) => {
			const requests = BigInt(this.#admitted.length - i) + 1n;
			return requests * UNIT <= this.#rps * UNIT + (now - since) * this.#rps * 1024n + slack * 128_000n;
		});
	}

	add(now: bigint): void {
		this.#admitted.push(now);
	}
}
/** One second in 1/128 ms, times 1024 to count fractions of requests in whole numbers. */
const UNIT = 128_000n * 1024n;

describe('the tenant limit', () => {
	it('lets a tenant_rps of 5 pass five requests at once and then one every 200 ms', () => {
		const bucket = new Bucket(5);
		assert.equal(bucket.drain(0), 5);
		for (let period = 1; period <= 50; period++) {
			assert.equal(bucket.drain(period * 200 - 1), 0, `before ${period * 200} ms`);
			assert.equal(bucket.drain(period * 200), 1, `at ${period * 200} ms`);
		}
	});

	it('passes exactly the rate at once, whenever that happens', () => {
		for (const rps of RATES) {
			for (const now of [0, 1, 0.1, 333.333, 1e6 / 3, 31_536_000_000]) assert.equal(new Bucket(rps).drain(now), rps);
		}
	});

	it('is full again after one second, and never fuller than full', () => {
		for (const rps of RATES) {
			const bucket = new Bucket(rps);
			for (const now of [1000, 2000, 3000, 100_000, 1e9])
				assert.equal(bucket.drain(now), rps, `${rps} rps at ${now} ms`);
		}
	});

	it('passes, of endless demand, the burst and one request a period: over a day nothing adds up', () => {
		for (const [rps, duration] of [
			[3, 86_400_000],
			[7, 86_400_000],
			[1000, 60_000],
			[999_999, 2000],
		] as const) {
			const bucket = new Bucket(rps);
			let admitted = bucket.drain(0);
			// Steps that no period divides, too short for the bucket to run over.
			for (let now = 333; now <= duration; now += now % 2 === 0 ? 333 : 641) {
				admitted += bucket.drain(now);
				assert.equal(admitted, rps + Math.floor((now * rps) / 1000), `${rps} rps at ${now} ms`);
			}
		}
	});

	it('passes the burst and floor(elapsed x rps) requests up to every millisecond', () => {
		for (const rps of [1, 3, 7, 997, 1000, 999_999]) {
			const bucket = new Bucket(rps);
			let admitted = 0;
			const end = rps > 1000 ? 1000 : 20_000;
			for (let now = 0; now <= end; now++) {
				admitted += bucket.drain(now);
				assert.equal(admitted, rps + Math.floor((now * rps) / 1000), `${rps} rps at ${now} ms`);
			}
		}
	});

	it('passes a client that keeps exactly to its period, always', () => {
		for (const rps of [1, 3, 7, 1000, 999_999]) {
			const bucket = new Bucket(rps);
			bucket.drain(0);
			// The double nearest to the n-th period may lie before it; a microsecond later is late enough.
			for (let n = 1; n <= 20_000; n++) assert.ok(bucket.admit((n * 1000) / rps + 0.001), `${rps} rps, request ${n}`);
		}
	});

	it('charges nothing for a request that it refuses', () => {
		const bucket = new Bucket(2);
		bucket.drain(0);
		for (let i = 0; i < 1000; i++) assert.equal(bucket.admit(499), false);
		assert.equal(bucket.drain(500), 1);
	});

	it('agrees with exact arithmetic at every time that falls on a tick, for any rate', () => {
		const gaps = fc.array(fc.oneof(fc.nat(3), fc.nat(400), fc.nat(3000)), { minLength: 1, maxLength: 60 });
		const rates = fc.oneof(fc.constantFrom(1, 2, 3, 5, 7, 11), fc.integer({ min: 1, max: 20 }));
		fc.assert(
			fc.property(rates, gaps, fc.nat(2 ** 30), (rps, steps, start) => {
				const bucket = new Bucket(rps);
				const exact = new ExactLimit(rps);
				// Multiples of 125/128 ms are whole numbers of ticks at every rate, and exact in a double.
				let grid = start;
				for (const step of steps) {
					grid += step;
					const wanted = exact.admits(BigInt(grid) * 125n);
					assert.equal(bucket.admit((grid * 125) / 128), wanted);
					if (wanted) exact.add(BigInt(grid) * 125n);
				}
			}),
			{ numRuns: 500 },
		);
	});

	it('is off by less than a tick, 1/1024 of a period, at all other times', () => {
		const gaps = fc.array(fc.oneof(fc.nat(50), fc.nat(64_000), fc.nat(256_000)), { minLength: 1, maxLength: 60 });
		fc.assert(
			fc.property(fc.constantFrom(1, 3, 7, 13, 100, 997), gaps, fc.nat(2 ** 34), (rps, steps, start) => {
				const bucket = new Bucket(rps);
				const exact = new ExactLimit(rps);
				let now = start;
				for (const step of steps) {
					now += step;
					const admitted = bucket.admit(now / 128);
					assert.ok(admitted ? exact.admits(BigInt(now), 1n) : !exact.admits(BigInt(now), -1n));
					if (admitted) exact.add(BigInt(now));
				}
			}),
			{ numRuns: 500 },
		);
	});

	it('holds the rate after a year without a restart', () => {
		const year = 365 * 86_400_000;
		for (const rps of [1, 7, 1000, 999_999]) {
			const bucket = new Bucket(rps);
			let admitted = bucket.drain(year);
			for (let ms = 1; ms <= 1000; ms++) admitted += bucket.drain(year + ms);
			assert.ok(Math.abs(admitted - 2 * rps) <= 1, `${rps} rps: ${admitted} in a burst and a second`);
		}
	});

	it('does not mind a clock of another thread that is a little behind', () => {
		const bucket = new Bucket(10);
		assert.equal(bucket.drain(1000), 10);
		assert.equal(bucket.drain(999.9), 0);
		assert.equal(bucket.drain(1100), 1);
	});
});

describe('ticks', () => {
	it('are whole, and 1024 of them make one period', () => {
		assert.equal(TICKS_PER_REQUEST, 1024);
		for (const rps of RATES) assert.equal(ticksAt(1000, rps), rps * 1024);
		for (const rps of RATES) assert.equal(ticksAt(3_600_000, rps), 3600 * rps * 1024);
	});

	it('never run backwards', () => {
		const time = fc.double({ min: 0, max: 1e12, noNaN: true });
		fc.assert(
			fc.property(time, time, fc.constantFrom(...RATES), (a, b, rps) => {
				assert.ok(ticksAt(Math.min(a, b), rps) <= ticksAt(Math.max(a, b), rps));
			}),
			{ numRuns: 1000 },
		);
	});

	it('are rounded down, and off by one at most where a double no longer holds the product', () => {
		fc.assert(
			fc.property(fc.integer({ min: 0, max: 2 ** 40 }), fc.constantFrom(...RATES), (time, rps) => {
				// The time is in 1/128 ms, so ticks are time x rps / 125.
				const exact = (BigInt(time) * BigInt(rps)) / 125n;
				const ticks = ticksAt(time / 128, rps);
				assert.ok(Number.isInteger(ticks));
				const error = BigInt(ticks) - exact;
				const bound = time * rps <= Number.MAX_SAFE_INTEGER ? 0n : 1n + BigInt(Math.floor(ticks / 2 ** 52));
				assert.ok(-bound <= error && error <= bound, `${error} ticks`);
			}),
			{ numRuns: 2000 },
		);
	});
});

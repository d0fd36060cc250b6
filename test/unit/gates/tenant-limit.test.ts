import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	END_OF_TIME,
	Bucket as Kept,
	MAX_BURST_SECONDS,
	MAX_RPS,
	Rate,
} from '../../../packages/gate/src/gates/tenant-limit.ts';

/** One tenant's bucket, with what is asked of it. */
class Bucket {
	readonly #rate: Rate;
	readonly #bucket = new Kept();

	constructor(rps: number, burst?: number) {
		this.#rate = new Rate(rps, burst);
	}

	admit(nowMs: number): boolean {
		return this.#bucket.admit(this.#rate, nowMs);
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

	it('passes a client that keeps exactly to its period, always', () => {
		for (const rps of [1, 3, 7, 1000, 999_999]) {
			const bucket = new Bucket(rps);
			bucket.drain(0);
			// The double nearest to the n-th period may lie before it; a microsecond later is late enough.
			for (let n = 1; n <= 20_000; n++) assert.ok(bucket.admit((n * 1000) / rps + 0.001), `${rps} rps, request ${n}`);
		}
	});

	it('agrees with exact arithmetic at every time that falls on a step, for any rate', () => {
		const gaps = fc.array(fc.oneof(fc.nat(3), fc.nat(400), fc.nat(3000)), { minLength: 1, maxLength: 60 });
		const rates = fc.oneof(fc.constantFrom(1, 2, 3, 5, 7, 11), fc.integer({ min: 1, max: 20 }));
		fc.assert(
			fc.property(rates, gaps, fc.nat(2 ** 30), (rps, steps, start) => {
				const bucket = new Bucket(rps);
				const exact = new ExactLimit(rps);
				// Multiples of 125/128 ms are whole numbers of steps at every rate up to two million, and exact in a double.
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

	it('is off by less than 1/1024 of a period at all other times', () => {
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

	it('tolerates a clock of another thread that is slightly behind', () => {
		const bucket = new Bucket(10);
		assert.equal(bucket.drain(1000), 10);
		assert.equal(bucket.drain(999.9), 0);
		assert.equal(bucket.drain(1100), 1);
	});
});

/** The same bucket in integers of any size: steps of the rate's grid since the beginning, which no double could hold. */
class ExactBucket {
	readonly #rate: Rate;
	#fullAt = 0n;

	constructor(rate: Rate) {
		this.#rate = rate;
	}

	/** @param now in 1/128 ms. */
	admit(now: bigint): boolean {
		const { stepsPerSecond, stepsPerRequest, depth } = this.#rate;
		const step = (now * BigInt(stepsPerSecond)) / 128_000n;
		const next = (this.#fullAt > step ? this.#fullAt : step) + BigInt(stepsPerRequest);
		if (next > step + BigInt(depth)) return false;
		this.#fullAt = next;
		return true;
	}
}

describe('the steps in which a bucket counts', () => {
	const rps = fc.oneof(fc.integer({ min: 1, max: MAX_RPS }), fc.integer({ min: 1, max: 5000 }), fc.constant(MAX_RPS));

	it('are at most a nanosecond long, and a period is a whole number of them', () => {
		fc.assert(
			fc.property(rps, (rps) => {
				const { stepsPerSecond, stepsPerRequest } = new Rate(rps);
				assert.equal(stepsPerSecond, rps * stepsPerRequest);
				assert.ok(stepsPerSecond > 2 ** 30 && stepsPerSecond <= 2 ** 31);
				assert.equal(Math.log2(stepsPerRequest) % 1, 0);
			}),
		);
	});

	it('agree with integers of any size for every rate, every burst, and after years of uptime', () => {
		const gaps = fc.array(fc.oneof(fc.constant(0), fc.nat(3), fc.nat(4000), fc.nat(256_000)), { maxLength: 80 });
		// In 1/128 ms: up to forty years.
		const starts = fc.oneof(
			fc.nat(1_000_000),
			fc.maxSafeNat().map((n) => n % 2 ** 47),
		);
		fc.assert(
			fc.property(rps, fc.integer({ min: 1, max: 50 }), gaps, starts, (rps, burst, steps, start) => {
				const rate = new Rate(rps, burst);
				const bucket = new Kept();
				const exact = new ExactBucket(rate);
				let now = start;
				for (const step of steps) {
					now += step;
					assert.equal(bucket.admit(rate, now / 128), exact.admit(BigInt(now)), `at ${now}`);
				}
			}),
			{ numRuns: 2000 },
		);
	});

	it('are stored without loss at any time', () => {
		fc.assert(
			fc.property(rps, fc.nat(2 ** 31), fc.nat(2 ** 31 - 1), (rps, seconds, step) => {
				const rate = new Rate(rps, 1);
				const bucket = new Kept();
				bucket.seconds = seconds;
				bucket.units = Math.round(((step % rate.stepsPerSecond) * 2 ** 32) / rate.stepsPerSecond);
				const kept = [bucket.seconds, bucket.units];
				// A whole number of seconds before: then what is lacking is the step itself.
				assert.equal(
					bucket.admit(rate, Math.max(0, seconds - 1) * 1000),
					seconds === 0 && step % rate.stepsPerSecond === 0,
				);
				if (seconds > 0) assert.equal(bucket.debt - rate.stepsPerSecond, step % rate.stepsPerSecond);
				if (seconds > 0) assert.deepEqual([bucket.seconds, bucket.units], kept);
			}),
			{ numRuns: 2000 },
		);
	});

	it('hold the longest burst, and time up to its end', () => {
		for (const rps of [1, 7, 10]) {
			const rate = new Rate(rps, rps * MAX_BURST_SECONDS);
			for (const now of [0, END_OF_TIME]) {
				const bucket = new Kept();
				for (let i = 0; i < 1000; i++) assert.ok(bucket.admit(rate, now));
				// All but the last request, at once.
				const left = rps * MAX_BURST_SECONDS - 1000;
				assert.equal(bucket.remaining(rate), left);
				bucket.seconds += Math.floor((left - 1) / rps);
				assert.equal(bucket.admit(rate, now), true);
			}
		}
	});
});

describe('a bucket whose rate changes', () => {
	const drain = (bucket: Kept, rate: Rate, nowMs: number) => {
		let admitted = 0;
		while (bucket.admit(rate, nowMs)) admitted++;
		return admitted;
	};
	const [slow, fast] = [new Rate(10), new Rate(1000)];

	it('keeps its level: a higher rate refills nothing, a lower one removes nothing', () => {
		for (const [before, after] of [
			[slow, fast],
			[fast, slow],
		] as const) {
			const empty = new Kept();
			assert.equal(drain(empty, before, 0), before.rps);
			assert.equal(drain(empty, after, 0), 0);
			assert.equal(drain(empty, after, 500), after.rps / 2);
			const half = new Kept();
			for (let i = 0; i < before.rps / 2; i++) half.admit(before, 0);
			assert.equal(drain(half, after, 0), after.rps / 2);
		}
	});

	it('gains the size of a larger burst at once, and keeps a debt beyond a smaller one', () => {
		const bucket = new Kept();
		assert.equal(drain(bucket, slow, 0), 10);
		assert.equal(drain(bucket, new Rate(10, 15), 0), 5);
		assert.equal(drain(bucket, new Rate(10, 1), 1400), 0);
		assert.equal(drain(bucket, new Rate(10, 1), 1500), 1);
	});

	it('gives a tenant no more than the fastest of its rates would: a second of time buys a second of periods', () => {
		const rates = [1, 3, 10, 997, 1000, 999_983, MAX_RPS].map((rps) => new Rate(rps));
		const steps = fc.array(fc.tuple(fc.nat(rates.length - 1), fc.oneof(fc.constant(0), fc.nat(2000))), {
			maxLength: 200,
		});
		fc.assert(
			fc.property(steps, fc.nat(2 ** 40), (requests, start) => {
				const bucket = new Kept();
				let now = start;
				let spent = 0;
				for (const [which, gap] of requests) {
					now += gap;
					if (bucket.admit(rates[which]!, now)) spent += 1 / rates[which]!.rps;
					// The doubles that are added up here are less exact than the bucket.
					assert.ok(spent <= 1 + (now - start) / 1000 + 1e-6);
				}
			}),
			{ numRuns: 500 },
		);
	});

	it('is rounded by less than a nanosecond for each change', () => {
		const rates = [1, 3, 7, 997, 1023, 999_983, MAX_RPS - 1].map((rps) => new Rate(rps));
		fc.assert(
			fc.property(fc.array(fc.nat(rates.length - 1), { minLength: 1, maxLength: 100 }), (order) => {
				const bucket = new Kept();
				// The exact sum of the periods, over one denominator.
				const denominator = rates.reduce((product, { rps }) => product * BigInt(rps), 1n);
				let numerator = 0n;
				for (const which of order) {
					const rate = rates[which]!;
					const deep = new Rate(rate.rps, Math.min(rate.rps * 1000, 2 ** 40));
					assert.ok(bucket.admit(deep, 0));
					numerator += denominator / BigInt(rate.rps);
				}
				const kept = (BigInt(bucket.seconds) << 32n) + BigInt(bucket.units);
				const error = Number(kept * denominator - (numerator << 32n)) / Number(denominator) / 2 ** 32;
				assert.ok(Math.abs(error) < order.length * 1e-9, `${error} s after ${order.length} changes`);
			}),
			{ numRuns: 500 },
		);
	});
});

describe('what a bucket reports', () => {
	it('is what is left, when it is full, and when to come again: never too early, never a whole second too late', () => {
		const rates = fc.tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 60 }));
		fc.assert(
			fc.property(rates, fc.nat(60), fc.nat(100_000), (numbers, requests, start) => {
				const rate = new Rate(...numbers);
				const bucket = new Kept();
				let admitted = 0;
				for (let i = 0; i < requests; i++) if (bucket.admit(rate, start)) admitted++;
				assert.equal(bucket.remaining(rate), rate.burst - admitted);
				const full = bucket.secondsToFull(rate);
				assert.equal(full, Math.max(1, Math.ceil(admitted / rate.rps)));
				if (admitted === requests) return;
				const wait = bucket.secondsToRoom(rate);
				// A period lasts a second at most.
				assert.equal(wait, 1);
				assert.equal(bucket.admit(rate, start + wait * 1000), true);
			}),
		);
	});

	it('counts the wait from the debt, which may be longer than a period once the burst has been lowered', () => {
		const bucket = new Kept();
		for (let i = 0; i < 100; i++) bucket.admit(new Rate(10, 100), 0);
		const rate = new Rate(10, 5);
		assert.equal(bucket.admit(rate, 0), false);
		assert.deepEqual([bucket.remaining(rate), bucket.secondsToRoom(rate), bucket.secondsToFull(rate)], [0, 10, 10]);
		assert.equal(bucket.admit(rate, 9500), false);
		assert.equal(bucket.secondsToRoom(rate), 1);
		assert.equal(bucket.admit(rate, 9600), true);
	});
});

/**
 * The generic cell rate algorithm. The state of a bucket is one moment: the time at which it is full again. A request moves that
 * moment by one period of its rate, 1 s / rps, and is refused if it would then lie more than `burst` periods ahead.
 *
 * The moment is stored in units of 2^-32 s, independent of the rate, so a bucket keeps its value when its rate changes: a tenant
 * that has spent half a second's worth has still spent half a second's worth. Arithmetic uses steps of the rate's own grid; a
 * period is a whole number of steps. Each step maps to a different unit, so converting to units and back is exact, and rounding
 * errors cannot add up to a request too many or too few. Only a change of rate rounds: by less than a nanosecond, once per change.
 */

/** A limit: requests per second, and the burst after a pause. */
export class Rate {
	readonly rps: number;
	readonly burst: number;
	/** Steps in a second: `rps` times a power of two, more than 2^30 and at most 2^31. A unit of time is never longer than half a step. */
	readonly stepsPerSecond: number;
	/** Steps that one request costs: one period, a power of two; times `replicas` if this rate is a part of a shared limit. */
	readonly stepsPerRequest: number;
	/** How many steps ahead the moment may lie: the cost of `burst` requests. */
	readonly depth: number;

	/**
	 * @param rps whole number, 1 to `MAX_RPS`.
	 * @param burst whole number of at least 1, at most the periods in `MAX_BURST_SECONDS`: beyond that, sums are inexact.
	 * @param replicas share the limit. A request costs as much as one at each replica, and the bucket has room for at least one.
	 */
	constructor(rps: number, burst: number = rps, replicas: number = 1) {
		this.rps = rps;
		this.burst = burst;
		let steps = 1;
		while (2 * steps * rps <= MAX_STEPS) steps *= 2;
		this.stepsPerRequest = replicas * steps;
		this.stepsPerSecond = rps * steps;
		this.depth = Math.max(burst, replicas) * steps;
	}

	/** Whole seconds, rounded up, at least 1. */
	seconds(steps: number): number {
		return Math.max(1, Math.ceil(steps / this.stepsPerSecond));
	}
}

/** At this rate a period still has 128 steps. */
export const MAX_RPS = 10_000_000;
/** The longest time until a bucket is full again, in seconds: twelve days. */
export const MAX_BURST_SECONDS = 2 ** 20;
const MAX_STEPS = 2 ** 31;
/** Units of time in a second. */
const UNITS = 2 ** 32;
/** Uptime in milliseconds after which no request is admitted, because a bucket's seconds have 32 bits: 136 years. */
export const END_OF_TIME = (2 ** 32 - 2 * MAX_BURST_SECONDS) * 1000;

/** A working copy of one bucket. One object is reused for all buckets, so that requests allocate nothing. */
export class Bucket {
	/** The moment at which it is full again: whole seconds, plus units of 2^-32 s. A bucket with a past moment is full. */
	seconds = 0;
	units = 0;
	/** How much was missing after the last `admit`, in steps of that call's rate. */
	debt = 0;

	/**
	 * Counts one request. A request over the limit leaves the bucket unchanged.
	 *
	 * @param nowMs monotonic milliseconds since the process's own epoch, the same in every thread; from 0 to `END_OF_TIME`. Rounded
	 *   down to a step: a request is never admitted before its time.
	 */
	admit(rate: Rate, nowMs: number): boolean {
		const { stepsPerSecond } = rate;
		const second = Math.floor(nowMs / 1000);
		// Exact: both are multiples of the last place of `nowMs`, and so is their difference.
		const now = Math.floor(((nowMs - second * 1000) * stepsPerSecond) / 1000);
		const fullAt = Math.round((this.units * stepsPerSecond) / UNITS);
		const debt = Math.max(0, (this.seconds - second) * stepsPerSecond + fullAt - now);
		const next = debt + rate.stepsPerRequest;
		this.debt = debt;
		if (next > rate.depth) return false;
		this.debt = next;
		const step = now + next;
		const seconds = Math.floor(step / stepsPerSecond);
		this.seconds = second + seconds;
		this.units = Math.round(((step - seconds * stepsPerSecond) * UNITS) / stepsPerSecond);
		return true;
	}

	/** Whether it equals a new bucket. */
	isFull(nowMs: number): boolean {
		const second = Math.floor(nowMs / 1000);
		return (this.seconds - second) * UNITS + this.units <= ((nowMs - second * 1000) * UNITS) / 1000;
	}

	/** After `admit`: how many requests it has room for now. */
	remaining(rate: Rate): number {
		return Math.max(0, Math.floor((rate.depth - this.debt) / rate.stepsPerRequest));
	}

	/** After `admit`: seconds until it is full, rounded up, at least 1. */
	secondsToFull(rate: Rate): number {
		return rate.seconds(this.debt);
	}

	/** After a refusal: seconds until it has room for a request, rounded up, at least 1. */
	secondsToRoom(rate: Rate): number {
		return rate.seconds(this.debt + rate.stepsPerRequest - rate.depth);
	}
}

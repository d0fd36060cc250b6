/**
 * The generic cell rate algorithm. A bucket is one moment: the one at which it is full
 * again. A request moves that moment by one period of its rate, 1 s / rps, and is refused if it would then lie more than `burst`
 * periods ahead.
 *
 * The moment is kept in units of 2^-32 s, whatever the rate, so a bucket stays what it is when its rate changes: who has spent half
 * a second's worth has still spent half a second's worth. Sums are made in steps of the rate's own grid, of which a period is a whole
 * number. Each step has its own unit, so going from one to the other and back loses nothing, and no rounding error can add up
 * to a request too many or too few. Only a bucket whose rate changes is rounded: by less than a nanosecond, once for each change.
 */

/** A limit: so many requests a second, and so many at once after a pause. */
export class Rate {
	readonly rps: number;
	readonly burst: number;
	/** Steps in a second: `rps` times a power of two, more than 2^30 and at most 2^31. A unit of time is never longer than half a step. */
	readonly stepsPerSecond: number;
	/** Steps that one request costs: one period, a power of two; so many as there are replicas, of a part. */
	readonly stepsPerRequest: number;
	/** Steps by which the moment may lie ahead: the cost of `burst` requests. */
	readonly depth: number;

	/**
	 * @param rps whole number, 1 to `MAX_RPS`.
	 * @param burst whole number of at least 1, at most `MAX_BURST_SECONDS` periods of a second: beyond it sums are not exact any more.
	 * @param replicas of which this one has its part: a request costs as much as one at each of them would, and there is room for one.
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

/** A period is still 128 steps then. */
export const MAX_RPS = 10_000_000;
/** A bucket is full again after this time at the latest, seconds: twelve days. */
export const MAX_BURST_SECONDS = 2 ** 20;
const MAX_STEPS = 2 ** 31;
/** Units of time in a second. */
const UNITS = 2 ** 32;
/** Uptime after which no request is admitted, milliseconds: a bucket's seconds fit 32 bits. 136 years. */
export const END_OF_TIME = (2 ** 32 - 2 * MAX_BURST_SECONDS) * 1000;

/** One bucket, taken out of the memory where it is kept. One object serves for all of them, so that a request makes none. */
export class Bucket {
	/** The moment at which it is full again: whole seconds, and units of 2^-32 s on top. The past is a full bucket. */
	seconds = 0;
	units = 0;
	/** What was lacking of it after the last `admit`, in steps of the rate that was asked for. */
	debt = 0;

	/**
	 * Counts one request, unless it is over the limit: then the bucket stays as it is.
	 *
	 * @param nowMs monotonic milliseconds since the process's own epoch, the same in every thread; from 0 to `END_OF_TIME`. Rounded
	 *   down to a step: a request is never admitted before its time.
	 */
	admit(rate: Rate, nowMs: number): boolean {
		const { stepsPerSecond } = rate;
		const second = Math.floor(nowMs / 1000);
		// Exact: both are multiples of the last place of `nowMs`, and so is the little that they differ by.
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

	/** Whether it says nothing that a new one would not. */
	isFull(nowMs: number): boolean {
		const second = Math.floor(nowMs / 1000);
		return (this.seconds - second) * UNITS + this.units <= ((nowMs - second * 1000) * UNITS) / 1000;
	}

	/** After `admit`: requests that it has room for now. */
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

import { performance } from 'node:perf_hooks';

/** The source of time. Decisions that depend on time take it as an argument. */
export interface Clock {
	/** Milliseconds, monotonic, since the process's own epoch: one scale for all its threads. */
	now(): number;
	/** Wall-clock time in seconds since 1970, for certificates and tokens. */
	wallSeconds(): number;
}

/**
 * @param epoch `process.hrtime.bigint()` of the moment that counts as zero. `performance.now()` starts anew in each
 *   thread, so each computes its offset from the common zero once.
 */
export function systemClock(epoch: bigint): Clock {
	let offset = Number.NEGATIVE_INFINITY;
	// A pause between the two readings makes the offset too small, never too large: of several, the largest is right. The
	// first ones are slow anyway, and threads that disagree would each count the limiter's time differently.
	for (let i = 0; i < 10; i++) {
		offset = Math.max(offset, Number(process.hrtime.bigint() - epoch) / 1e6 - performance.now());
	}
	return {
		now: () => performance.now() + offset,
		wallSeconds: () => Date.now() / 1000,
	};
}

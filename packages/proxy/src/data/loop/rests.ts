import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';

/**
 * Rests between turns of the loop that bring too little, as network cards delay their interrupts. A server that sends its responses one
 * by one wakes the worker for each of them, and waking costs more than the response. After a rest the next turn reads several
 * responses and writes them together, which saves work for clients and upstreams, too.
 *
 * A rest delays everything that arrives meanwhile. So a worker rests only if many requests are in flight: then each takes far longer than
 * a rest. A worker with a backlog never rests, because its turns are long.
 */
export class Rests {
	/** Requests in flight in this worker. */
	requests = 0;
	/** Time spent at rest, ms. */
	totalMs = 0;
	readonly #clock: Clock;
	readonly #sleep: (ms: number) => void;
	/** The end of the last turn with its rest, and the earliest time of the next rest; monotonic milliseconds. */
	#endedAt = 0;
	#notBefore = 0;
	/** Successive rests that were too long. */
	#longRests = 0;

	/** @param sleep stops the thread for so many milliseconds. */
	constructor(clock: Clock, sleep: (ms: number) => void) {
		this.#clock = clock;
		this.#sleep = sleep;
	}

	/** A turn has ended, and nothing waits for the next one. */
	onTurnEnd(): void {
		if (this.requests < MANY_REQUESTS) return;
		const now = this.#clock.now();
		const turnMs = now - this.#endedAt;
		this.#endedAt = now;
		if (turnMs <= SHORT_TURN_MS && now >= this.#notBefore) this.#rest(now);
	}

	#rest(now: number): void {
		this.#sleep(REST_MS);
		const end = this.#clock.now();
		this.totalMs += end - now;
		this.#endedAt = end;
		this.#longRests = end - now > LONG_REST_MS ? this.#longRests + 1 : 0;
		if (this.#longRests < LONG_RESTS) return;
		// The machine has coarse timers, or others want its processors.
		this.#longRests = 0;
		this.#notBefore = end + PAUSE_MS;
	}
}

export const MANY_REQUESTS = 48;
/** From the end of the last turn and its rest to the end of this one: the wait, and the work. */
export const SHORT_TURN_MS = 0.1;
/** Linux makes 0.06 of it (timer slack). */
export const REST_MS = 0.01;
/** So many rests of this length in a row are followed by a pause. */
export const LONG_REST_MS = 0.25;
export const LONG_RESTS = 8;
export const PAUSE_MS = 500;

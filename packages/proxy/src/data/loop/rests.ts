import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';

/**
 * Rests between turns of the loop that bring too little, as network cards delay their interrupts. A server that sends its responses one
 * by one wakes the worker for each of them, and waking costs more than the response. After a rest the next turn reads several
 * responses and writes them together, which saves work for clients and upstreams, too.
 *
 * A rest delays everything that arrives meanwhile. So a worker rests only if many young requests are in flight: then each takes far longer
 * than a rest. Long polls and WebSockets, which are old, say nothing about the others. A worker with a backlog never rests, because its
 * turns are long.
 */
export class Rests {
	/** Requests in flight that began in the current window, and those that began in the window before. */
	#current = 0;
	#previous = 0;
	/** The beginnings of these windows, monotonic milliseconds. */
	#currentFrom = 0;
	#previousFrom = 0;
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

	/** A request of this worker has begun (1) or is over (-1). @param startedAt monotonic milliseconds. */
	count(startedAt: number, change: 1 | -1): void {
		if (startedAt > this.#currentFrom) this.#current += change;
		else if (startedAt > this.#previousFrom) this.#previous += change;
	}

	/** A turn has ended, and nothing waits for the next one. */
	onTurnEnd(): void {
		if (!this.#isBusy()) return;
		const now = this.#clock.now();
		if (now - this.#currentFrom >= WINDOW_MS) this.#beginWindow(now);
		if (!this.#isBusy()) return;
		const turnMs = now - this.#endedAt;
		this.#endedAt = now;
		if (turnMs <= SHORT_TURN_MS && now >= this.#notBefore) this.#rest(now);
	}

	#isBusy(): boolean {
		return this.#current + this.#previous >= MANY_REQUESTS;
	}

	#beginWindow(now: number): void {
		// A window goes on while few requests are in flight, so it may have been a long one.
		const isRecent = now - this.#currentFrom < 2 * WINDOW_MS;
		this.#previous = isRecent ? this.#current : 0;
		this.#previousFrom = isRecent ? this.#currentFrom : now;
		this.#current = 0;
		this.#currentFrom = now;
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

/** In flight, and at most two windows old. */
export const MANY_REQUESTS = 48;
export const WINDOW_MS = 20;
/** From the end of the last turn and its rest to the end of this one: the wait, and the work. */
export const SHORT_TURN_MS = 0.1;
/** Linux makes 0.06 of it (timer slack). */
export const REST_MS = 0.01;
/** So many rests of this length in a row are followed by a pause. */
export const LONG_REST_MS = 0.25;
export const LONG_RESTS = 8;
export const PAUSE_MS = 500;

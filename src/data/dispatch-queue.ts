import type { Clock } from '../shared/clock.ts';

/**
 * How many requests go to their upstreams in a turn of the loop. Hundreds that go through each step together push each other
 * out of the processor's caches between two steps, and each takes an upstream connection of its own. 16 to 64 cost the same,
 * and more of them more (`bench/RESULTS.md`).
 */
const PER_TURN = 32;
/** Of very many that wait, this part goes in a turn: looking through all of them must not become the greater part of it. */
const PART = 1 / 32;

export interface Dispatched {
	/** The client has left: nobody waits for anything. */
	readonly isGone: boolean;
	/** @param now monotonic milliseconds. */
	dispatch(now: number): void;
}

/**
 * Requests that have passed all gates but the upstream's own, in their order. The first ones of a turn of the loop go at
 * once, the others at the end of this one or of a later one; what upstreams have answered meanwhile goes out in between.
 */
export class DispatchQueue {
	readonly #clock: Clock;
	#waiting: Dispatched[] = [];
	/** How many more may go before the end of the turn. */
	#room = PER_TURN;
	#scheduled = false;

	constructor(clock: Clock) {
		this.#clock = clock;
	}

	/** @param now monotonic milliseconds. */
	add(request: Dispatched, now: number): void {
		this.#schedule();
		if (this.#room === 0) return void this.#waiting.push(request);
		this.#room--;
		request.dispatch(now);
	}

	#schedule(): void {
		if (this.#scheduled) return;
		this.#scheduled = true;
		setImmediate(this.#endTurn);
	}

	readonly #endTurn = (): void => {
		this.#scheduled = false;
		this.#room = PER_TURN;
		if (this.#waiting.length === 0) return;
		this.#schedule();
		// All of them are looked at, so that those who are gone do not wait in memory behind those who are not.
		const next = this.#waiting.filter((request) => !request.isGone);
		const count = Math.max(PER_TURN, Math.ceil(next.length * PART));
		this.#waiting = next.splice(count);
		this.#room = count - next.length;
		const now = this.#clock.now();
		for (const request of next) request.dispatch(now);
	};
}

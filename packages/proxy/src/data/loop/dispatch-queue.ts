import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { FaultOwner } from './faults.ts';
import { STEP, type TurnEnd } from './turn-end.ts';

/**
 * How many requests go to their upstreams in a turn of the loop. Hundreds that go through each step together push each other
 * out of the processor's caches between two steps, and each takes an upstream connection of its own. 16 to 64 cost the same,
 * and more of them more (`bench/RESULTS.md`).
 */
const PER_TURN = 32;
/** Of very many that wait, this part goes in a turn: looking through all of them must not become the greater part of it. */
const PART = 1 / 32;

export interface Dispatched extends FaultOwner {
	/** It does not wait any more: its client has left, or has had its response. */
	readonly isGone: boolean;
	/** @param now monotonic milliseconds. */
	dispatch(now: number): void;
}

/**
 * Requests that have passed all gates but the upstream's own, in their order. The first ones go at the end of the turn of the
 * loop that has brought them, the others at the end of a later one; what upstreams have answered meanwhile goes out in between.
 */
export class DispatchQueue {
	readonly #clock: Clock;
	readonly #turnEnd: TurnEnd;
	#waiting: Dispatched[] = [];

	constructor(clock: Clock, turnEnd: TurnEnd) {
		this.#clock = clock;
		this.#turnEnd = turnEnd;
	}

	add(request: Dispatched): void {
		if (this.#waiting.length === 0) this.#turnEnd.add(STEP.dispatch, this.#endTurn);
		this.#waiting.push(request);
	}

	readonly #endTurn = (): void => {
		// All of them are looked at, so that those who are gone do not wait in memory behind those who are not.
		const next = this.#waiting.filter((request) => !request.isGone);
		this.#waiting = next.splice(Math.max(PER_TURN, Math.ceil(next.length * PART)));
		if (this.#waiting.length > 0) this.#turnEnd.add(STEP.dispatch, this.#endTurn);
		const now = this.#clock.now();
		for (const request of next) {
			try {
				if (!request.isGone) request.dispatch(now);
			} catch (error) {
				this.#turnEnd.onFault(request, error);
			}
		}
	};
}

import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { FaultOwner } from './faults.ts';
import { STEP, type TurnEnd } from './turn-end.ts';

/**
 * How many requests are sent to upstreams in one turn of the event loop. Hundreds at once would evict each other from the
 * processor's caches between two steps, and each would take an upstream connection of its own. 16 to 64 cost the same, larger
 * numbers more (`bench/DECISIONS.md`).
 */
const PER_TURN = 32;
/** If very many wait, this fraction is sent in a turn: the walk over all of them must not dominate the cost. */
const PART = 1 / 32;

export interface Dispatched extends FaultOwner {
	/** It no longer waits: its client has left, or has its response. */
	readonly isGone: boolean;
	/** @param now monotonic milliseconds. */
	dispatch(now: number): void;
}

/**
 * Requests that have passed all gates except the upstream's own, in order. The first ones are sent at the end of the turn in which
 * they arrived, the others in later turns. In between, answers that have arrived go out.
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
		// All are checked, so that requests that are gone do not stay in memory behind the others.
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

import type { LeaseCall, LeaseGrant } from './contract.ts';

/** Numbers the terms of all leases of a replica. A place that is given up and taken again must not go on in a term that the store knows. */
export class Terms {
	#last = 0;

	next(): number {
		return ++this.#last;
	}
}

/** Who leases something of a ledger: tokens (`lease.ts`) or slots (`slot-lease.ts`). `now` is monotonic milliseconds. */
export interface Lessee {
	readonly place: number;
	readonly isCalling: boolean;
	/** When to look again. */
	readonly lookAt: number;
	/** Of `Leasing`: the turn at which it will be looked at; `NO_TURN`: none. */
	turn: number;
	/** What is to be done. `later`: not before `lookAt`. `vacate`: nothing is held, nothing owed, and nobody asks. @param woken by a worker. */
	look(now: number, woken: boolean): 'call' | 'vacate' | 'later';
	/** @returns whether nobody has come meanwhile: then the place is given up. */
	vacate(): boolean;
	/** What the store is told and asked for. @param answerMs that answers take. */
	call(now: number, replicas: number, answerMs: number): LeaseCall;
	/** The last call: gives all back. */
	close(now: number, replicas: number): LeaseCall;
	answered(grant: LeaseGrant, sentAt: number, now: number): void;
	/** No answer, or none that can be believed. */
	failed(now: number): void;
	/** The store has gone away. */
	beginShare(now: number): void;
	/** In place of `look` while it is away. */
	share(now: number, replicas: number): 'vacate' | 'later';
}

export const NO_TURN = -1;

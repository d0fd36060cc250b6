import type { SlotCounts } from '../../shared/concurrency.ts';
import { leasedSlots } from '../../shared/fleet/allowance.ts';
import type { SlotLeases } from '../../shared/fleet/slot-leases.ts';
import { LEASE_MS, type LeaseCall, type LeaseGrant } from './contract.ts';
import { CALL_MS } from './lease.ts';
import { type Lessee, NO_TURN, type Terms } from './lessee.ts';

/** What is unchanged is said again so often, ms: the ledger forgets what it does not hear of. */
const RENEW_MS = 500;
/** As with tokens: so many calls more at once, made up for by waiting. */
const QUICK_CALLS = 4;
const IDLE_MS = 1_000;
/** After an outage all replicas have told the store within this time what is under way, ms. */
const RETURN_MS = 1_000;

/**
 * One tenant's slots of `concurrency` at one replica. What it has leased it may have under way; what is under way is always reported as
 * held, also beyond what was granted. So the sum of grants is at most the ledger's capacity, and each replica is ahead of it by the one
 * slot that needs no asking, at most.
 */
export class SlotLease implements Lessee {
	readonly place: number;
	readonly key: string;
	readonly #leases: SlotLeases;
	readonly #counts: SlotCounts;
	readonly #terms: Terms;
	#term: number;
	#known = false;
	#answeredAt: number;
	#heldAtCall = 0;
	#wantAtCall = 0;
	isCalling = false;
	#callsUntil: number;
	#starved = false;
	#seenRefused: number;
	#busyAt: number;
	#reported = 0;
	#wasAway = false;
	/** Wants nothing before this. */
	#modestUntil = 0;
	lookAt: number;
	turn = NO_TURN;

	constructor(leases: SlotLeases, counts: SlotCounts, place: number, terms: Terms, now: number) {
		this.#terms = terms;
		this.#term = terms.next();
		this.place = place;
		this.key = `s${counts.key(place)}`;
		this.#leases = leases;
		this.#counts = counts;
		this.#answeredAt = now;
		this.#callsUntil = now;
		this.#busyAt = now;
		this.#seenRefused = leases.refused(place) - 1;
		this.lookAt = now;
	}

	look(now: number, woken: boolean): 'call' | 'vacate' | 'later' {
		if (this.isCalling) return 'later';
		const taken = this.#counts.taken(this.place);
		const leased = this.#leases.leased(this.place);
		if (taken > 0) this.#busyAt = now;
		if (taken === 0 && leased === 0 && !this.#known) {
			if (now - this.#busyAt >= IDLE_MS) return 'vacate';
			if (!woken) return this.#later(now + CALL_MS);
		}
		const mayAt = this.#starved ? this.#callsUntil : this.#callsUntil - QUICK_CALLS * CALL_MS;
		const hasChanged = this.#reported !== Math.max(leased, taken) || this.#target(taken, 0) < leased;
		const renewAt = this.#answeredAt + RENEW_MS;
		if (woken && now >= mayAt) return 'call';
		if (now >= this.#callsUntil && (hasChanged || woken || now >= renewAt)) return 'call';
		return this.#later(woken ? mayAt : now + CALL_MS);
	}

	#later(at: number): 'later' {
		this.lookAt = at;
		return 'later';
	}

	vacate(): boolean {
		return this.#counts.taken(this.place) === 0;
	}

	/** A few more than are under way, or as many as have been asked for. */
	#target(taken: number, refused: number): number {
		if (taken === 0 && refused === 0) return 0;
		return Math.min(this.#leases.limit(this.place), Math.ceil(taken * 1.25) + 1 + refused);
	}

	call(now: number, replicas: number): LeaseCall {
		const { place } = this;
		if (now - this.#answeredAt > LEASE_MS) this.#lose(now);
		const refused = this.#leases.refused(place);
		const newly = (refused - this.#seenRefused) | 0;
		this.#seenRefused = refused;
		const taken = this.#counts.taken(place);
		const target = this.#target(taken, Math.max(0, Math.min(newly, Math.max(taken, 1))));
		let held = this.#leases.leased(place);
		if (held > target) {
			this.#leases.lease(place, target);
			held = target;
		}
		// Counted after it has been lowered: no thread takes one beyond it from here on.
		held = Math.max(held, this.#counts.taken(place));
		this.#leases.lease(place, held);
		this.isCalling = true;
		this.#heldAtCall = held;
		if (this.#wasAway) this.#modestUntil = now + RETURN_MS;
		this.#wasAway = false;
		this.#wantAtCall = now < this.#modestUntil ? 0 : Math.max(0, target - held);
		this.#callsUntil = Math.max(this.#callsUntil, now) + CALL_MS;
		this.lookAt = now + CALL_MS;
		const limit = this.#leases.limit(place);
		return {
			key: this.key,
			rps: 0,
			capacity: leasedSlots(limit, replicas),
			term: this.#term,
			known: this.#known,
			held,
			spent: 0,
			want: this.#wantAtCall,
		};
	}

	/** Nobody takes any more; what is still under way is all that is held. */
	close(now: number, replicas: number): LeaseCall {
		return { ...this.call(now, replicas), want: 0 };
	}

	answered({ granted }: LeaseGrant, sentAt: number, now: number): void {
		this.isCalling = false;
		this.#answeredAt = sentAt;
		this.#known = true;
		this.#starved = granted < this.#wantAtCall;
		this.#reported = this.#heldAtCall + granted;
		this.#leases.lease(this.place, this.#reported);
		if (this.#reported === 0 && this.#wantAtCall === 0) this.#beginTerm();
		this.lookAt = Math.min(this.#callsUntil, now + CALL_MS);
	}

	failed(now: number): void {
		this.isCalling = false;
		if (this.#heldAtCall === 0 && this.#wantAtCall === 0) this.#beginTerm();
		this.lookAt = now + CALL_MS;
	}

	/** Workers divide by themselves while the store is away. */
	share(now: number): 'vacate' | 'later' {
		this.#wasAway = true;
		if (now - this.#answeredAt > LEASE_MS) this.#lose(now);
		const isIdle = this.#counts.taken(this.place) === 0 && this.#leases.leased(this.place) === 0 && !this.#known;
		return isIdle ? 'vacate' : this.#later(now + CALL_MS);
	}

	beginShare(): void {
		this.#wasAway = true;
		this.isCalling = false;
	}

	#lose(now: number): void {
		this.#leases.lease(this.place, 0);
		this.#answeredAt = now;
		this.#beginTerm();
	}

	#beginTerm(): void {
		this.#term = this.#terms.next();
		this.#known = false;
	}
}

import { type ConcurrencyMemory, SlotCounts } from '../../shared/concurrency.ts';
import { type LeaseMemory, LeaseTable } from '../../shared/fleet/leases.ts';
import { SlotLeases } from '../../shared/fleet/slot-leases.ts';
import { type LeaseAnswer, type LeaseBatch, type LeaseCall, MAX_CALLS } from './contract.ts';
import { Lease } from './lease.ts';
import { type Lessee, NO_TURN, Terms } from './lessee.ts';
import { SlotLease } from './slot-lease.ts';
import { type OnStoreFailure, Standing } from './standing.ts';

/** `tick` is to be called so often, ms. */
export const TICK_MS = 10;
/** A sign of life comes so often at least, ms. */
const SIGN_MS = 1_000;
/** While the store is away it is asked so often, ms. */
const RETRY_MS = 250;
/** Batches under way. */
const MAX_BATCHES = 4;
/** Looks that can be put off, in ticks: a second. */
const TURNS = 128;

export interface LeasingOptions {
	readonly replica: string;
	readonly leases: LeaseMemory;
	/** With `leases` of its own. */
	readonly concurrency: ConcurrencyMemory | undefined;
	readonly onFailure: OnStoreFailure;
	/** Replicas there are, until the store has said so. */
	readonly expected: number;
	/** Monotonic milliseconds. */
	readonly now: number;
}

/**
 * What one replica says to the store, and what it makes of the answers: all leases, in batches. Without I/O and without a clock. A lease is
 * looked at when a worker has woken it or its time has come; one that nobody uses costs nothing and is gone after a second.
 */
export class Leasing {
	readonly standing: Standing;
	readonly #replica: string;
	readonly #table: LeaseTable;
	readonly #slotLeases: SlotLeases | undefined;
	readonly #slotCounts: SlotCounts | undefined;
	readonly #leases = new Map<number, Lessee>();
	readonly #slots = new Map<number, Lessee>();
	/** By tick, modulo `TURNS`: who is to be looked at then. */
	readonly #turns: Lessee[][] = Array.from({ length: TURNS }, () => []);
	#turn: number;
	/** Those whose time has come, while batches are full. */
	#ready = new Set<Lessee>();
	readonly #underWay = new Map<LeaseBatch, { readonly lessees: readonly Lessee[]; readonly sentAt: number }>();
	readonly #terms = new Terms();
	#seq = 0;
	#bornMs = 0;
	#signedAt = Number.NEGATIVE_INFINITY;
	#answerMs = 20;
	#wasAway = true;
	#hasLeft = false;

	constructor(options: LeasingOptions) {
		const { leases, concurrency, now } = options;
		this.#replica = options.replica;
		this.#table = new LeaseTable(leases);
		this.#slotLeases = concurrency?.leases && new SlotLeases(concurrency.leases);
		this.#slotCounts = concurrency && new SlotCounts(concurrency);
		this.standing = new Standing(options.onFailure, options.expected, now);
		this.#turn = Math.floor(now / TICK_MS);
		this.#tellWorkers(now);
	}

	/** Leases there are. */
	get size(): number {
		return this.#leases.size + this.#slots.size;
	}

	/** @returns batches to be sent: each is `answered` or `failed` later. */
	tick(now: number): LeaseBatch[] {
		this.standing.tick(now);
		this.#tellWorkers(now);
		this.#takeWoken(now);
		this.#takeTurns(now);
		if (this.#hasLeft) return [];
		if (this.standing.isAway) return this.#sign(now, RETRY_MS, 1);
		const batches: LeaseBatch[] = [];
		while (this.#ready.size > 0 && this.#underWay.size < MAX_BATCHES) batches.push(this.#batch(now));
		return batches.length > 0 ? batches : this.#sign(now, this.standing.isFailing ? RETRY_MS : SIGN_MS, MAX_BATCHES);
	}

	answered(batch: LeaseBatch, answer: LeaseAnswer, now: number): void {
		const sent = this.#underWay.get(batch);
		this.#underWay.delete(batch);
		if (sent === undefined) return;
		const isGood = this.standing.answered(batch, answer, now);
		if (isGood) {
			this.#bornMs = answer.bornMs;
			this.#answerMs += (now - sent.sentAt + TICK_MS - this.#answerMs) / 8;
		}
		this.#tellWorkers(now);
		for (const [i, lessee] of sent.lessees.entries()) {
			if (isGood) lessee.answered(answer.grants[i]!, sent.sentAt, now);
			else lessee.failed(now);
			this.#schedule(lessee, now);
		}
	}

	failed(batch: LeaseBatch, cause: string, now: number): void {
		const sent = this.#underWay.get(batch);
		this.#underWay.delete(batch);
		this.standing.failed(cause, now);
		this.#tellWorkers(now);
		for (const lessee of sent?.lessees ?? []) {
			lessee.failed(now);
			this.#schedule(lessee, now);
		}
	}

	/** The last batches: what is left over goes back, and the replica is forgotten. From here on there are no more. */
	leave(now: number): LeaseBatch[] {
		this.#hasLeft = true;
		const { replicas, isAway } = this.standing;
		if (isAway) return [];
		const calls = [...this.#all()].filter((lessee) => !lessee.isCalling).map((lessee) => lessee.close(now, replicas));
		const batches: LeaseBatch[] = [];
		for (let from = 0; from === 0 || from < calls.length; from += MAX_CALLS) {
			const leaving = from + MAX_CALLS >= calls.length;
			batches.push(this.#send(calls.slice(from, from + MAX_CALLS), [], now, leaving));
		}
		return batches;
	}

	/** A worker has died: nobody knows what it was about to say. */
	workerDied(now: number): void {
		for (const place of this.#table.survey()) this.#look(this.#leaseAt(place, now), now, true);
		for (const place of this.#slotLeases?.survey() ?? []) this.#look(this.#slotsAt(place, now), now, true);
	}

	#tellWorkers(now: number): void {
		const { standing } = this;
		if (standing.mode !== this.#table.standing.mode || standing.replicas !== this.#table.standing.replicas) {
			this.#table.standing.set(standing.mode, standing.replicas);
		}
		if (standing.isAway && !this.#wasAway) this.#goAway(now);
		this.#wasAway = standing.isAway;
	}

	#goAway(now: number): void {
		this.#underWay.clear();
		this.#ready.clear();
		for (const lessee of this.#all()) {
			lessee.beginShare(now);
			this.#schedule(lessee, now);
		}
	}

	*#all(): Generator<Lessee> {
		yield* this.#leases.values();
		yield* this.#slots.values();
	}

	#takeWoken(now: number): void {
		for (let place = this.#table.wake(); place !== -1; place = this.#table.wake()) {
			this.#look(this.#leaseAt(place, now), now, true);
		}
		if (this.#slotLeases === undefined) return;
		for (let place = this.#slotLeases.wake(); place !== -1; place = this.#slotLeases.wake()) {
			this.#look(this.#slotsAt(place, now), now, true);
		}
	}

	#leaseAt(place: number, now: number): Lessee {
		let lease = this.#leases.get(place);
		if (lease === undefined) {
			lease = new Lease(this.#table, place, this.#terms, now);
			this.#leases.set(place, lease);
		}
		return lease;
	}

	#slotsAt(place: number, now: number): Lessee {
		let lease = this.#slots.get(place);
		if (lease === undefined) {
			lease = new SlotLease(this.#slotLeases!, this.#slotCounts!, place, this.#terms, now);
			this.#slots.set(place, lease);
		}
		return lease;
	}

	#takeTurns(now: number): void {
		const last = Math.floor(now / TICK_MS);
		for (let turns = 0; this.#turn < last && turns < TURNS; turns++) {
			const due = this.#turns[++this.#turn % TURNS]!;
			for (const lessee of due.splice(0)) {
				// It may have been put on an earlier turn since, or be gone.
				if (lessee.turn !== this.#turn || !this.#isKept(lessee)) continue;
				lessee.turn = NO_TURN;
				this.#look(lessee, now, false);
			}
		}
		this.#turn = Math.max(this.#turn, last);
	}

	#isKept(lessee: Lessee): boolean {
		return this.#leases.get(lessee.place) === lessee || this.#slots.get(lessee.place) === lessee;
	}

	#look(lessee: Lessee, now: number, woken: boolean): void {
		if (this.#ready.has(lessee)) return;
		const verdict = this.standing.isAway ? lessee.share(now, this.standing.replicas) : lessee.look(now, woken);
		if (verdict === 'call') this.#ready.add(lessee);
		else if (verdict === 'vacate' && lessee.vacate()) this.#forget(lessee);
		else if (!lessee.isCalling) this.#schedule(lessee, now);
	}

	#forget(lessee: Lessee): void {
		const leases = this.#leases.get(lessee.place) === lessee ? this.#leases : this.#slots;
		leases.delete(lessee.place);
	}

	#schedule(lessee: Lessee, now: number): void {
		const ticks = Math.ceil(lessee.lookAt / TICK_MS) - Math.floor(now / TICK_MS);
		const turn = this.#turn + Math.max(1, Math.min(TURNS - 1, ticks));
		if (lessee.turn !== NO_TURN && lessee.turn <= turn) return;
		lessee.turn = turn;
		this.#turns[turn % TURNS]!.push(lessee);
	}

	#batch(now: number): LeaseBatch {
		const lessees: Lessee[] = [];
		const calls: LeaseCall[] = [];
		for (const lessee of this.#ready) {
			this.#ready.delete(lessee);
			lessees.push(lessee);
			calls.push(lessee.call(now, this.standing.replicas, this.#answerMs));
			if (calls.length === MAX_CALLS) break;
		}
		return this.#send(calls, lessees, now);
	}

	#sign(now: number, everyMs: number, atOnce: number): LeaseBatch[] {
		if (now - this.#signedAt < everyMs || this.#underWay.size >= atOnce) return [];
		return [this.#send([], [], now)];
	}

	#send(calls: readonly LeaseCall[], lessees: readonly Lessee[], sentAt: number, leaving = false): LeaseBatch {
		const batch = { replica: this.#replica, seq: ++this.#seq, leaving, bornMs: this.#bornMs, calls };
		this.#signedAt = sentAt;
		this.#underWay.set(batch, { lessees, sentAt });
		return batch;
	}
}

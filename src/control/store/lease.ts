import { divideRate } from '../../shared/fleet/allowance.ts';
import type { LeaseTable } from '../../shared/fleet/leases.ts';
import { LEASE_MS, type LeaseCall, type LeaseGrant, MAX_CAPACITY } from './contract.ts';
import { type Lessee, NO_TURN, type Terms } from './lessee.ts';

/** A steady tenant's calls are so far apart, ms: 5 a second. */
export const CALL_MS = 200;
/** A steady lease's calls are at multiples of this, ms. */
const MEETING_MS = 50;
/** A tenant whose demand has just begun, moved or ended may call so often more at once, and makes up for it by waiting. */
const QUICK_CALLS = 4;
/** The first portion is for so long, ms; each next one for twice as long, up to a call's interval and what its answer takes. */
const FIRST_PORTION_MS = 60;
/** A portion is so much more than what is expected to be spent of it. */
const MARGIN = 1.2;
/** What an answer takes, with the tick before it, ms; before one has been measured. */
const ANSWER_MS = 40;
/** With so many requests expected and none come, demand has ended. */
const MISSED = 4;
/** Looks at a lease are never closer than this, ms. */
const LOOK_MS = 40;
/** Before a ledger that had too little is asked again, ms: at least, and at most. */
const STARVED_MS = 40;
const MAX_WAIT_MS = 1_000;
/** All replicas are back within this time of the first one, ms; what is shared meanwhile the store has to be told. */
const RETURN_MS = 1_000;
/** After so long without a request a tenant is idle, ms. */
const IDLE_MS = 1_000;

/**
 * One key's lease at one replica: what the store is told of it and asked for it. Time is an argument; tokens lie in `LeaseTable`, where
 * workers spend them meanwhile.
 *
 * Of the tokens that are there the first `allowance` are this replica's own (see `allowance.ts`), the others are held for the store; where
 * there are fewer, it is in debt, and asks for the rest before anything else. What has been spent in a term is `#put - tokens`. So a
 * replica never has more than its allowance and what the ledger has set aside for it.
 */
export class Lease implements Lessee {
	readonly place: number;
	readonly key: string;
	readonly #table: LeaseTable;
	#allowance: number;
	/** Tokens put in during this term, less those taken out, and what was there at its beginning. */
	#put: number;
	readonly #terms: Terms;
	#term: number;
	#known = false;
	/** When the last call that has been answered was sent. */
	#answeredAt: number;
	/** Tokens there were when the call under way was made. */
	#tokensAtCall = 0;
	#wantAtCall = 0;
	isCalling = false;
	#isClosed = false;
	/** Theoretical arrival time of the calls' own rate limit. */
	#callsUntil: number;
	/** The ledger had too little: a call before this would be in vain. */
	#notBefore = 0;
	/** Requests a second that are expected. */
	#demand = 0;
	#portionMs = FIRST_PORTION_MS;
	#seenAt: number;
	#seenSpent = 0;
	#seenRefused: number;
	#isNew = true;
	/** When it was last seen that there had been a request. */
	#askedAt: number;
	/** While the store is away: until when the share is counted, and the part of a token there is of it. */
	#sharedAt: number;
	/** Tokens of the share in this period of `RETURN_MS`, and in the one before. */
	#sharedOf: [number, number] = [0, 0];
	#sharedPeriod = 0;
	#accrued = 0;
	/** When to look again. */
	lookAt: number;
	turn = NO_TURN;

	constructor(table: LeaseTable, place: number, terms: Terms, now: number) {
		this.#table = table;
		this.#terms = terms;
		this.#term = terms.next();
		this.place = place;
		this.key = table.key(place);
		this.#allowance = table.allowance(place);
		this.#put = this.#allowance;
		this.#answeredAt = now;
		this.#callsUntil = now;
		this.#seenAt = now;
		this.#askedAt = now;
		this.#sharedAt = now;
		this.#seenRefused = table.refused(place);
		this.lookAt = now;
	}

	/** What is to be done. `later`: not before `lookAt`. `vacate`: nothing is held, nothing is owed, and nobody asks. @param woken by a worker. */
	look(now: number, woken: boolean): 'call' | 'vacate' | 'later' {
		if (this.isCalling) return 'later';
		const tokens = this.#table.tokens(this.place);
		const isEven = tokens === this.#allowance && !this.#known;
		if (isEven && !this.#hasRefused()) {
			if (now - this.#askedAt >= IDLE_MS) return 'vacate';
			this.lookAt = now + CALL_MS;
			return 'later';
		}
		const mayAt = Math.max(this.#notBefore, this.#callsUntil - QUICK_CALLS * CALL_MS);
		// A worker does not wake twice: the last token may have been spent while a call was under way.
		const isUrgent = woken || tokens === 0 || this.#hasEnded(now, tokens);
		if (now >= Math.max(this.#callsUntil, this.#notBefore) || (isUrgent && now >= mayAt)) return 'call';
		this.lookAt = isUrgent ? mayAt : Math.min(this.#callsUntil, now + this.#patience());
		return 'later';
	}

	#hasRefused(): boolean {
		return this.#table.refused(this.place) !== this.#seenRefused;
	}

	/** @returns whether nobody has come meanwhile. */
	vacate(): boolean {
		return this.#table.vacate(this.place, this.#allowance);
	}

	/** So many were expected by now, and none has come. */
	#hasEnded(now: number, tokens: number): boolean {
		return this.#demand * (now - this.#seenAt) >= MISSED * 1000 && this.#spent(tokens) === this.#seenSpent;
	}

	#patience(): number {
		return this.#demand > 0 ? Math.max(LOOK_MS, (MISSED * 1000) / this.#demand) : CALL_MS;
	}

	/** @param replicas as last seen. @param answerMs that answers take. */
	call(now: number, replicas: number, answerMs = ANSWER_MS): LeaseCall {
		const { place } = this;
		const rps = this.#table.rps(place);
		const burst = this.#table.burst(place);
		const { allowance, capacity } = divideRate(rps, burst, replicas);
		if (now - this.#answeredAt > LEASE_MS) this.#beginTerm(now);
		this.#allowance = allowance;
		this.#estimate(now, rps, burst);
		const portion = this.#portion(answerMs);
		const surplus = this.#table.tokens(place) - allowance - portion;
		if (surplus > portion / 4) this.#change(-surplus);
		const before = this.#table.tokens(place);
		const held = before - allowance;
		this.isCalling = true;
		this.#tokensAtCall = before;
		this.#wantAtCall = Math.max(0, portion - held);
		// Steady leases meet at the same moments, and share their batches.
		const from = now < this.#callsUntil ? this.#callsUntil : Math.floor(now / MEETING_MS) * MEETING_MS;
		this.#callsUntil = from + CALL_MS;
		this.lookAt = now + CALL_MS;
		return {
			key: this.key,
			rps,
			capacity: Math.min(capacity, MAX_CAPACITY),
			term: this.#term,
			known: this.#known,
			held,
			spent: this.#spent(before),
			want: this.#wantAtCall,
		};
	}

	close(now: number, replicas: number): LeaseCall {
		this.#isClosed = true;
		return this.call(now, replicas);
	}

	answered({ granted, left }: LeaseGrant, sentAt: number, now: number): void {
		this.isCalling = false;
		this.#known = true;
		this.#answeredAt = sentAt;
		// All is even: what has been spent since is the beginning of a new term, and nobody need be told that this one is over.
		if (this.#tokensAtCall + granted === this.#allowance) this.#begin(this.#tokensAtCall, this.#tokensAtCall);
		this.#change(granted);
		// What others give back comes within milliseconds; what comes by itself takes its time.
		if (granted < this.#wantAtCall) this.#notBefore = now + Math.max(STARVED_MS, this.#msFor(-left));
		const tokens = this.#table.tokens(this.place);
		this.lookAt = tokens === 0 ? now : Math.min(this.#callsUntil, now + this.#patience());
		this.#table.tell(this.place, this.#mark(tokens), left);
	}

	/** A call that holds nothing, owes nothing and wants nothing. */
	get #isClosing(): boolean {
		return this.#wantAtCall === 0 && this.#tokensAtCall === this.#allowance;
	}

	/** At most the longest that is waited. */
	#msFor(tokens: number): number {
		return Math.min(MAX_WAIT_MS, (tokens * 1000) / this.#table.rps(this.place));
	}

	/** No answer, or none that can be believed. */
	failed(now: number): void {
		this.isCalling = false;
		// Whether the ledger still has its record nobody knows.
		if (this.#isClosing) this.#beginTerm(now);
		this.lookAt = now + CALL_MS;
	}

	/** The store is away: fills the allowance up by this replica's share. What is held is spent before that, as long as it may be. */
	share(now: number, replicas: number): 'vacate' | 'later' {
		if (now - this.#answeredAt > LEASE_MS) this.#beginTerm(now);
		const lacking = this.#allowance - this.#table.tokens(this.place);
		if (lacking > 0) this.#askedAt = now;
		else this.#accrued = 0;
		this.#accrued += (this.#table.rps(this.place) / replicas) * ((now - this.#sharedAt) / 1000);
		this.#sharedAt = now;
		const whole = Math.max(0, Math.min(lacking, Math.floor(this.#accrued)));
		this.#accrued = Math.min(1, this.#accrued - whole);
		this.#change(whole);
		this.#countShare(whole, now);
		// The store knows nothing of this term. It has to be told what is lacking, and what may have been shared after others were back.
		if (!this.#known)
			this.#begin(this.#allowance + this.#sharedOf[0] + this.#sharedOf[1], this.#table.tokens(this.place));
		this.lookAt = now + LOOK_MS;
		return lacking === 0 && !this.#known && now - this.#askedAt >= IDLE_MS ? 'vacate' : 'later';
	}

	#countShare(tokens: number, now: number): void {
		const period = Math.floor(now / RETURN_MS);
		if (period !== this.#sharedPeriod) {
			this.#sharedOf = [0, period === this.#sharedPeriod + 1 ? this.#sharedOf[0] : 0];
			this.#sharedPeriod = period;
		}
		this.#sharedOf[0] += tokens;
	}

	/** Its share is counted from here on. */
	beginShare(now: number): void {
		this.#sharedAt = now;
		this.#accrued = 0;
		this.isCalling = false;
	}

	/** The ledger has charged what was out; tokens that are still here are worth nothing. */
	#beginTerm(now: number): void {
		const held = this.#table.tokens(this.place) - this.#allowance;
		if (held > 0) this.#table.put(this.place, -held);
		this.#begin(this.#allowance, this.#table.tokens(this.place));
		this.#answeredAt = now;
	}

	/** @param tokens that were there when nothing of the term had been spent, but for the debt that makes up the difference to `put`. */
	#begin(put: number, tokens: number): void {
		this.#term = this.#terms.next();
		this.#known = false;
		this.#put = put;
		this.#seenSpent = Math.max(0, put - tokens);
	}

	#change(tokens: number): number {
		if (tokens === 0) return 0;
		const { change } = this.#table.put(this.place, tokens);
		this.#put += change;
		return change;
	}

	#spent(tokens: number): number {
		return Math.max(0, this.#put - tokens);
	}

	/** What has come since the last look says what will come. */
	#estimate(now: number, rps: number, burst: number): void {
		const spent = this.#spent(this.#table.tokens(this.place));
		const refused = this.#table.refused(this.place);
		const isRefused = refused !== this.#seenRefused;
		const count = spent - this.#seenSpent + ((refused - this.#seenRefused) >>> 0);
		const ms = now - this.#seenAt;
		this.#seenSpent = spent;
		this.#seenRefused = refused;
		this.#seenAt = now;
		if (count > 0) this.#askedAt = now;
		// One request says nothing of a rate; two say how far apart they are.
		const rate = this.#isNew ? (Math.max(0, count - 1) * 1000) / Math.max(ms, 10) : (count * 1000) / Math.max(ms, 1);
		if (count <= 0 && this.#demand * ms >= MISSED * 1000) this.#demand = 0;
		else if (rate > this.#demand) this.#demand += (rate - this.#demand) * (isRefused ? 1 : Math.min(1, ms / 50));
		else this.#demand += (rate - this.#demand) * Math.min(1, ms / (2 * CALL_MS));
		this.#demand = Math.min(this.#demand, rps + burst);
		this.#isNew = false;
	}

	#portion(answerMs: number): number {
		if (this.#demand < 0.1 || this.#isClosed) {
			this.#portionMs = FIRST_PORTION_MS;
			return 0;
		}
		const portion = Math.floor((this.#demand * this.#portionMs * MARGIN) / 1000 + 0.5);
		this.#portionMs = Math.min(this.#portionMs * 2, CALL_MS + answerMs);
		return portion;
	}

	/** Early enough for an answer to come before the last token is spent. */
	#mark(tokens: number): number {
		if (tokens === 0) return -1;
		const soon = Math.ceil((this.#demand * ANSWER_MS) / 1000);
		return Math.min(tokens - 1, Math.max(this.#allowance - 1, soon));
	}
}

import { createHmac, randomFillSync } from 'node:crypto';
import {
	type Admission,
	type BreakerState,
	type Circuit,
	CLOSED,
	closed,
	type FailureReason,
	HALF_OPEN,
	INITIAL,
	MAX_TENANTS,
	NO_STREAK,
	NORMAL,
	OPEN,
	type OpeningRule,
	onAbandoned,
	onFailure,
	onHealth,
	onRequest,
	onSuccess,
	REFUSED,
	type Streak,
} from '../gates/breaker.ts';

/** A change of the circuit. It also is one if a new probe replaces one without a result. */
export interface Transition {
	readonly from: Circuit;
	readonly to: Circuit;
	/** `probe`: the change lets the probe of a half-open circuit through, or follows from its result. */
	readonly reason: TransitionReason;
	/** In words, for operators. */
	readonly cause: string;
}
export type TransitionReason = FailureReason | 'health' | 'probe';

/** Called for each transition, only in the thread that made it. */
export type TransitionObserver = (transition: Transition) => void;

/** A failed request. */
export interface Failure {
	readonly reason: FailureReason;
	/** In words, for operators. */
	readonly cause: string;
	/** The tenant of the request. */
	readonly tenant: string;
}

/** The position of a breaker's state. States of endpoints that were added together are adjacent, for readers of many. */
interface CircuitPlace {
	/** From `BreakerCell.allocateStates`; the same memory in every thread. */
	readonly states: SharedArrayBuffer;
	readonly at: number;
}

/**
 * The breaker of one endpoint, in memory that all threads share. The whole state is one 64-bit word, so each transition is one
 * compare-and-swap, and no thread sees a partial one:
 *
 *   bits 0-1 circuit | bits 2-21 probe number | open, half-open: bits 22-63 `since`, milliseconds, signed
 *                                             | closed: 22-28 failures | 29-35 connects | 36-40 tenants | 41-63 streak number
 *
 * Slots next to the word hold the tenants that have failed in a streak, each as the streak's number and a keyed hash. The first
 * `tenants` slots belong to the streak whose number is in the word. A thread with the failure of a new tenant first claims the next
 * slot, then counts the tenant in the word. If it finds a claim that is not yet counted, another thread made it, which may be slow
 * or dead: the finder counts that tenant itself, so no thread waits. A slot with another number belongs to a streak that is over.
 */
export class BreakerCell {
	/** Everything except the state. */
	readonly #words: BigInt64Array;
	/** The region of states; this breaker's is the word at `#at`. */
	readonly #states: BigInt64Array;
	readonly #at: number;
	/**
	 * The same region as 32-bit words. The low half has circuit and failures: nearly every request needs only these, and reads them
	 * without a BigInt.
	 */
	readonly #halves: Int32Array;
	readonly #low: number;
	readonly #observe: TransitionObserver;

	/** @param place `undefined`: the state is in the breaker's own memory. */
	constructor(memory: SharedArrayBuffer, observe: TransitionObserver = () => {}, place?: CircuitPlace) {
		const { states, at } = place ?? { states: memory, at: OWN_STATE };
		const views = viewsOf(states);
		this.#words = new BigInt64Array(memory);
		this.#states = views.states;
		this.#at = at;
		this.#halves = views.halves;
		this.#low = 2 * at + LOW_HALF;
		this.#observe = observe;
	}

	/** Memory for the states of this many breakers. */
	static allocateStates(breakers: number): SharedArrayBuffer {
		return new SharedArrayBuffer(breakers * 8);
	}

	/**
	 * @param now monotonic milliseconds; the cooldown of a new, open breaker begins then.
	 * @param circuit `CLOSED` if there are no health probes.
	 * @param place as for the constructor.
	 */
	static allocate(now: number, circuit: typeof OPEN | typeof CLOSED = OPEN, place?: CircuitPlace): SharedArrayBuffer {
		const memory = new SharedArrayBuffer(KEY * 8 + KEY_BYTES);
		const words = new BigInt64Array(memory);
		words[STREAKS] = 1n;
		const { states, at } = place ?? { states: memory, at: OWN_STATE };
		viewsOf(states).states[at] = encode(circuit === CLOSED ? closed(INITIAL, 1) : { ...INITIAL, since: now });
		// With a secret key, nobody can construct two tenants with the same hash.
		randomFillSync(new Uint8Array(memory, KEY * 8));
		return memory;
	}

	get circuit(): Circuit {
		return (Atomics.load(this.#halves, this.#low) & CIRCUIT_BITS) as Circuit;
	}

	/**
	 * Asks to send one request. The result of every admitted request must be reported.
	 *
	 * @param now monotonic milliseconds.
	 * @returns an admission for `report` or `fail`, or `REFUSED`.
	 */
	admit(now: number, cooldownMs: number): Admission {
		if (this.#isClosed()) return NORMAL;
		const state = this.#change('probe', 'the cooldown is over', (current) => onRequest(current, now, cooldownMs));
		if (state !== undefined) return state.probe;
		// No change: it is open and cooling down, or another thread has just closed it.
		return this.#isClosed() ? NORMAL : REFUSED;
	}

	/**
	 * Whether `admit` would admit a request, without a change. Other threads may change the state at any time, so a plain load is
	 * enough, at a tenth of the cost of an atomic one.
	 */
	admits(now: number, cooldownMs: number): boolean {
		return (
			(this.#halves[this.#low]! & CIRCUIT_BITS) === CLOSED ||
			onRequest(decode(this.#state()), now, cooldownMs) !== undefined
		);
	}

	#state(): bigint {
		return Atomics.load(this.#states, this.#at);
	}

	#isClosed(): boolean {
		return this.circuit === CLOSED;
	}

	/** An admitted request has ended without a failure. */
	report(admission: Admission, outcome: 'success' | 'abandoned'): void {
		if (outcome === 'abandoned') {
			// Only the probe changes the state without a verdict.
			if (admission === NORMAL) return;
			this.#change('probe', 'the probe ended without a verdict', (current) => onAbandoned(current, admission));
			return;
		}
		// The success of an ordinary request can only end a streak. Nearly always there is none, and the report costs one load.
		if (admission === NORMAL && !this.#hasStreak()) return;
		const streak = this.#newStreak();
		this.#change('probe', 'the probe succeeded', (current) => onSuccess(current, admission, streak));
	}

	#hasStreak(): boolean {
		const low = Atomics.load(this.#halves, this.#low);
		return (low & CIRCUIT_BITS) === CLOSED && (low & FAILURE_BITS) !== 0;
	}

	/**
	 * An admitted request has failed.
	 *
	 * @param now monotonic milliseconds.
	 */
	fail(admission: Admission, failure: Failure, rule: OpeningRule, now: number): void {
		let tag: bigint | undefined;
		for (;;) {
			const word = this.#state();
			const state = decode(word);
			const { streak } = state;
			let counts: Parameters<typeof onFailure>[2] = 'connect';
			if (failure.reason !== 'connect') {
				tag ??= this.#tagOf(failure.tenant);
				counts = this.#isCounted(streak, tag) ? 'known tenant' : 'new tenant';
			}
			const next = onFailure(state, admission, counts, rule, now);
			if (next === undefined) return;
			if (next.streak.tenants > streak.tenants && !this.#claim(word, state, entryOf(streak, tag!))) continue;
			if (this.#swap(word, state, next, failure.reason, failure.cause)) return;
		}
	}

	/** The verdict of a health probe. @param cause in words, for operators. */
	health(healthy: boolean, now: number, cause = ''): void {
		if (healthy && this.#isClosed()) return;
		const streak = healthy ? this.#newStreak() : 0;
		this.#change('health', cause, (current) => onHealth(current, healthy, now, streak));
	}

	/** @returns the new state, or `undefined` if nothing had to change. */
	#change(
		reason: TransitionReason,
		cause: string,
		decide: (current: BreakerState) => BreakerState | undefined,
	): BreakerState | undefined {
		for (;;) {
			const word = this.#state();
			const state = decode(word);
			const next = decide(state);
			if (next === undefined) return undefined;
			if (this.#swap(word, state, next, reason, cause)) return next;
		}
	}

	/** Replaces `word` with the next state. @returns `false`: another thread was faster. */
	#swap(word: bigint, state: BreakerState, next: BreakerState, reason: TransitionReason, cause: string): boolean {
		if (Atomics.compareExchange(this.#states, this.#at, word, encode(next)) !== word) return false;
		if (next.streak.number !== state.streak.number) this.#forgetTenants(state.streak);
		const isTransition = state.circuit !== next.circuit || next.probe !== state.probe;
		if (isTransition) this.#observe({ from: state.circuit, to: next.circuit, reason, cause });
		return true;
	}

	#newStreak(): number {
		return (Number(BigInt.asUintN(32, Atomics.add(this.#words, STREAKS, 1n))) % MAX_STREAK) + 1;
	}

	// --- The tenants of a streak. ---

	#tagOf(tenant: string): bigint {
		// A copy, since some calls into OpenSSL refuse shared memory.
		const key = Uint8Array.from(new Uint8Array(this.#words.buffer, KEY * 8));
		return createHmac('sha256', key).update(tenant).digest().readBigUInt64LE();
	}

	/** The result may be wrong for a streak that is over. That has no effect: the swap after it fails. */
	#isCounted(streak: Streak, tag: bigint): boolean {
		const entry = entryOf(streak, tag);
		for (let i = 0; i < streak.tenants; i++) if (Atomics.load(this.#words, SLOTS + i) === entry) return true;
		return false;
	}

	/**
	 * Claims the slot after those of the counted tenants.
	 *
	 * @returns whether the slot holds `entry` now; otherwise the state may have changed, so the caller reads it again.
	 */
	#claim(word: bigint, state: BreakerState, entry: bigint): boolean {
		const { streak } = state;
		const slot = SLOTS + streak.tenants;
		const found = Atomics.load(this.#words, slot);
		// Another thread has claimed it for the same tenant.
		if (found === entry) return true;
		if (isOf(found, streak)) {
			const counted = { ...state, streak: { ...streak, tenants: streak.tenants + 1 } };
			Atomics.compareExchange(this.#states, this.#at, word, encode(counted));
			return false;
		}
		// While the word is unchanged, the slot's content belongs to a streak that is over.
		if (this.#state() !== word) return false;
		return Atomics.compareExchange(this.#words, slot, found, entry) === found;
	}

	/** Clears the slots of a streak that is over: numbers repeat after millions of streaks. */
	#forgetTenants(streak: Streak): void {
		for (let i = 0; i <= streak.tenants && i < MAX_TENANTS; i++) {
			const found = Atomics.load(this.#words, SLOTS + i);
			if (isOf(found, streak)) Atomics.compareExchange(this.#words, SLOTS + i, found, 0n);
		}
	}
}

export { CLOSED, HALF_OPEN, NORMAL, OPEN, REFUSED };

/** Words of the memory: the state (unless it is elsewhere), the number of streaks so far, the slots, and the key of the tenants' hashes. */
const OWN_STATE = 0;
const STREAKS = 1;
const SLOTS = 2;
const KEY = SLOTS + MAX_TENANTS;
const KEY_BYTES = 32;

const LOW_HALF = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 0 : 1;
/** One thread's views of regions of states: many breakers share a few views. */
const VIEWS = new WeakMap<SharedArrayBuffer, { readonly states: BigInt64Array; readonly halves: Int32Array }>();

function viewsOf(memory: SharedArrayBuffer) {
	let views = VIEWS.get(memory);
	if (views === undefined) {
		views = { states: new BigInt64Array(memory), halves: new Int32Array(memory) };
		VIEWS.set(memory, views);
	}
	return views;
}

const CIRCUIT_BITS = 3;
const FAILURE_BITS = 0x7f << 22;

/** Numbers of streaks have 23 bits and are never 0, so an empty slot belongs to no streak. */
const MAX_STREAK = 2 ** 23 - 1;
const TAG_BITS = 41n;

function encode(state: BreakerState): bigint {
	const low = BigInt((state.probe << 2) | state.circuit);
	// Rounded up: otherwise the cooldown could end up to a millisecond early.
	if (state.circuit !== CLOSED) return (BigInt(Math.ceil(state.since)) << 22n) | low;
	const { number, failures, connects, tenants } = state.streak;
	// Multiplication instead of shifts: the number has more than 32 bits.
	const counts = failures + connects * 2 ** 7 + tenants * 2 ** 14 + number * 2 ** 19;
	return BigInt.asIntN(64, (BigInt(counts) << 22n) | low);
}

function decode(word: bigint): BreakerState {
	const low = Number(BigInt.asUintN(22, word));
	const circuit = (low & CIRCUIT_BITS) as Circuit;
	const probe = low >>> 2;
	if (circuit !== CLOSED) return { circuit, probe, since: Number(word >> 22n), streak: NO_STREAK };
	const counts = Number(BigInt.asUintN(42, word >> 22n));
	const streak = {
		number: Math.floor(counts / 2 ** 19),
		failures: counts % 2 ** 7,
		connects: Math.floor(counts / 2 ** 7) % 2 ** 7,
		tenants: Math.floor(counts / 2 ** 14) % 2 ** 5,
	};
	return { circuit, probe, since: 0, streak };
}

function entryOf({ number }: Streak, tag: bigint): bigint {
	return BigInt.asIntN(64, (BigInt(number) << TAG_BITS) | BigInt.asUintN(Number(TAG_BITS), tag));
}

function isOf(entry: bigint, { number }: Streak): boolean {
	return BigInt.asUintN(64, entry) >> TAG_BITS === BigInt(number);
}

import type { Rate } from '../../gates/tenant-limit.ts';
import { allowanceOf } from './allowance.ts';
import { createStandingMemory, type StandingMemory, StandingWord } from './standing-word.ts';
import { createWakeMemory, WakeList, type WakeMemory } from './wake-list.ts';

/**
 * What this process may spend of the limits that it shares with others: tokens for each key of the limiter, in memory that all threads
 * share. Workers spend, the main thread puts tokens in and takes them out.
 *
 * An open-addressing table. The tokens of a place are one word, on which threads agree by compare-and-swap; what has been spent is what
 * was put in less what is there, so there is no second word that could disagree. A place whose word is `VACANT` belongs to nobody.
 * Only the main thread vacates; a worker occupies, under a lock, which is rare. A word carries the number of its occupation (modulo
 * 127), so a thread that was asleep between looking at the key and its swap spends nothing of whoever has the place by then.
 */
export interface LeaseMemory {
	readonly cells: SharedArrayBuffer;
	/** 0, or 1 + the index of the worker that is occupying a place. */
	readonly lock: SharedArrayBuffer;
	readonly wake: WakeMemory;
	readonly standing: StandingMemory;
}

/** Keys that may be active at the same moment, a power of two: a tenant is one, and one more for each route with a limit. 8 MiB. */
export const LEASE_PLACES = 1 << 17;
/** A line of the processor's cache: two tenants do not slow each other down. */
const STRIDE = 16;
/** Places that a key may lie in. */
const WINDOW = 64;

const KEY_LOW = 0;
const KEY_HIGH = 1;
/** Number of the occupation, tokens. */
const TOKENS = 2;
/** Requests refused for want of a token, modulo 2^32. */
const REFUSED = 3;
/** The limit, as the last request that found another one there has said. */
const RPS = 4;
const BURST = 5;
/** When a spender leaves so many tokens, the main thread is to look. */
const MARK = 6;
/** What the ledger had left when it was asked last. */
const LEFT = 7;
/** Allowance that the place was occupied with. */
const ALLOWANCE = 8;
/** Number of the last occupation. */
const OCCUPATION = 9;

const VACANT = -1;
const TOKEN_BITS = 24;
/** Tokens that a place holds at most. */
export const MAX_TOKENS = 2 ** TOKEN_BITS - 1;

export function createLeaseMemory(places: number = LEASE_PLACES): LeaseMemory {
	const memory = {
		cells: new SharedArrayBuffer(places * STRIDE * Int32Array.BYTES_PER_ELEMENT),
		lock: new SharedArrayBuffer(4),
		wake: createWakeMemory(places),
		standing: createStandingMemory(),
	};
	const cells = new Int32Array(memory.cells);
	for (let at = TOKENS; at < cells.length; at += STRIDE) cells[at] = VACANT;
	return memory;
}

/** Frees the lock of a worker that died with it in its hand. */
export function releaseLeaseLock(memory: LeaseMemory, worker: number): void {
	Atomics.compareExchange(new Int32Array(memory.lock), 0, worker + 1, 0);
}

/** One worker's view. */
export class LeaseSpender {
	readonly #cells: Int32Array;
	readonly #lock: Int32Array;
	readonly #wake: WakeList;
	readonly #places: number;
	readonly #worker: number;
	readonly #standing: StandingWord;
	/** Where a key is taken apart. */
	readonly #key = new DataView(new ArrayBuffer(8));
	#low = 0;
	#high = 0;
	/** Where the tokens are that were asked for last; -1: nowhere. */
	#at = -1;
	/** Of that place, when the last token was spent. */
	#occupation = 0;

	/** @param worker index of this thread, unique in the process. */
	constructor(memory: LeaseMemory, worker: number) {
		this.#cells = new Int32Array(memory.cells);
		this.#lock = new Int32Array(memory.lock);
		this.#wake = new WakeList(memory.wake);
		this.#standing = new StandingWord(memory.standing);
		this.#places = this.#cells.length / STRIDE;
		this.#worker = worker;
	}

	/** How limits are to be kept at the moment. */
	get standing(): StandingWord {
		return this.#standing;
	}

	/**
	 * Spends one token.
	 *
	 * @returns whether there was one. There is none, too, where all places that the key may have are taken: who is not counted is refused.
	 */
	spend(key: bigint, rate: Rate): boolean {
		this.#key.setBigInt64(0, key);
		this.#low = this.#key.getInt32(4);
		this.#high = this.#key.getInt32(0);
		for (;;) {
			const place = this.#find();
			const verdict = place === -1 ? this.#occupy(rate) : this.#spendAt(place, rate);
			if (verdict !== undefined) return verdict;
		}
	}

	/** Right after `spend` has succeeded: the request is refused for another reason. */
	unspend(): void {
		const at = this.#at + TOKENS;
		for (;;) {
			const word = Atomics.load(this.#cells, at);
			// The main thread may have made good what was spent, and given the place to somebody else.
			if (word === VACANT || word >> TOKEN_BITS !== this.#occupation) return;
			if (Atomics.compareExchange(this.#cells, at, word, word + 1) === word) return;
		}
	}

	/** Right after `spend`: tokens that the tenant has left, here and in the ledger, as far as is known. */
	get left(): number {
		if (this.#at === -1) return 0;
		const tokens = tokensOf(Atomics.load(this.#cells, this.#at + TOKENS));
		return Math.max(0, tokens) + Math.max(0, Atomics.load(this.#cells, this.#at + LEFT));
	}

	/** `undefined`: somebody was faster, look again. */
	#spendAt(place: number, rate: Rate): boolean | undefined {
		const cells = this.#cells;
		const at = place * STRIDE;
		this.#at = at;
		const word = Atomics.load(cells, at + TOKENS);
		if (word === VACANT) return this.#occupy(rate);
		// The key is read again after the word: only then do the two belong together.
		if (Atomics.load(cells, at + KEY_LOW) !== this.#low || Atomics.load(cells, at + KEY_HIGH) !== this.#high) {
			return undefined;
		}
		if (Atomics.load(cells, at + RPS) !== rate.rps || Atomics.load(cells, at + BURST) !== burstWord(rate)) {
			Atomics.store(cells, at + RPS, rate.rps);
			Atomics.store(cells, at + BURST, burstWord(rate));
		}
		const tokens = tokensOf(word);
		if (tokens === 0) {
			Atomics.add(cells, at + REFUSED, 1);
			this.#wake.add(place);
			return false;
		}
		if (Atomics.compareExchange(cells, at + TOKENS, word, word - 1) !== word) return undefined;
		this.#occupation = word >> TOKEN_BITS;
		if (tokens - 1 === Atomics.load(cells, at + MARK)) this.#wake.add(place);
		return true;
	}

	/** The key's place, or -1. */
	#find(): number {
		const cells = this.#cells;
		let place = this.#home();
		for (let i = 0; i < WINDOW; i++) {
			const at = place * STRIDE;
			const low = Atomics.load(cells, at + KEY_LOW);
			const high = Atomics.load(cells, at + KEY_HIGH);
			if (low === this.#low && high === this.#high) return place;
			// Windows are filled from the front and keys never removed, so a virgin place ends the search.
			if (low === 0 && high === 0) return -1;
			place = (place + 1) & (this.#places - 1);
		}
		return -1;
	}

	/** Begins with the allowance, and spends one of it. */
	#occupy(rate: Rate): boolean | undefined {
		const cells = this.#cells;
		while (Atomics.compareExchange(this.#lock, 0, 0, this.#worker + 1) !== 0);
		try {
			const present = this.#find();
			if (present !== -1 && Atomics.load(cells, present * STRIDE + TOKENS) !== VACANT) return undefined;
			const place = present === -1 ? this.#vacancy() : present;
			this.#at = place === -1 ? -1 : place * STRIDE;
			if (place === -1) return false;
			const at = this.#at;
			// Virgin for others until its second half is there.
			Atomics.store(cells, at + KEY_LOW, this.#low);
			Atomics.store(cells, at + KEY_HIGH, this.#high);
			Atomics.store(cells, at + RPS, rate.rps);
			Atomics.store(cells, at + BURST, burstWord(rate));
			const allowance = allowanceOf(rate.rps, rate.burst, this.#standing.replicas);
			Atomics.store(cells, at + ALLOWANCE, allowance);
			Atomics.store(cells, at + LEFT, 0);
			Atomics.store(cells, at + MARK, 0);
			const occupation = (Atomics.load(cells, at + OCCUPATION) + 1) % 127;
			Atomics.store(cells, at + OCCUPATION, occupation);
			this.#occupation = occupation;
			Atomics.store(cells, at + TOKENS, (occupation << TOKEN_BITS) | (allowance - 1));
			this.#wake.add(place);
			return true;
		} finally {
			Atomics.store(this.#lock, 0, 0);
		}
	}

	#vacancy(): number {
		let place = this.#home();
		for (let i = 0; i < WINDOW; i++) {
			if (Atomics.load(this.#cells, place * STRIDE + TOKENS) === VACANT) return place;
			place = (place + 1) & (this.#places - 1);
		}
		return -1;
	}

	#home(): number {
		return this.#low & (this.#places - 1);
	}
}

/** The main thread's view. Places come from `wake`. */
export class LeaseTable {
	readonly #cells: Int32Array;
	readonly #wake: WakeList;
	readonly #standing: StandingWord;
	readonly places: number;

	constructor(memory: LeaseMemory) {
		this.#cells = new Int32Array(memory.cells);
		this.#wake = new WakeList(memory.wake);
		this.#standing = new StandingWord(memory.standing);
		this.places = this.#cells.length / STRIDE;
	}

	get standing(): StandingWord {
		return this.#standing;
	}

	/** A place to look at, or -1: it has been occupied, has come to its mark, or had no token for a request. */
	wake(): number {
		for (;;) {
			const place = this.#wake.take();
			// It may have been given up since it was added. Who occupies it from here on adds it again.
			if (place === -1 || this.tokens(place) !== -1) return place;
		}
	}

	/** After a worker has died, perhaps before it could wake the main thread. @returns places that are occupied. */
	*survey(): Generator<number> {
		this.#wake.forget();
		for (let place = 0; place < this.places; place++) if (this.tokens(place) !== -1) yield place;
	}

	/** As the store knows it: 16 hexadecimal digits. */
	key(place: number): string {
		const at = place * STRIDE;
		return hex(this.#cells[at + KEY_HIGH]!) + hex(this.#cells[at + KEY_LOW]!);
	}

	/** Tokens that are there; -1 for a vacant place. */
	tokens(place: number): number {
		return tokensOf(Atomics.load(this.#cells, place * STRIDE + TOKENS));
	}

	/** Requests refused so far, modulo 2^32. */
	refused(place: number): number {
		return Atomics.load(this.#cells, place * STRIDE + REFUSED) >>> 0;
	}

	rps(place: number): number {
		return Atomics.load(this.#cells, place * STRIDE + RPS);
	}

	burst(place: number): number {
		return Atomics.load(this.#cells, place * STRIDE + BURST);
	}

	/** With how many tokens it was occupied. */
	allowance(place: number): number {
		return Atomics.load(this.#cells, place * STRIDE + ALLOWANCE);
	}

	/** Adds tokens, or takes away those that are not spent meanwhile; of a vacant place nothing. @returns what there was before, and how it has changed. */
	put(place: number, tokens: number): { readonly before: number; readonly change: number } {
		const at = place * STRIDE + TOKENS;
		for (;;) {
			const word = Atomics.load(this.#cells, at);
			if (word === VACANT) return { before: 0, change: 0 };
			const before = tokensOf(word);
			const change = Math.min(MAX_TOKENS, Math.max(0, before + tokens)) - before;
			if (change === 0 || Atomics.compareExchange(this.#cells, at, word, word + change) === word) {
				return { before, change };
			}
		}
	}

	/** @param mark below which tokens the place is to be looked at again, and `left` in the ledger. */
	tell(place: number, mark: number, left: number): void {
		const at = place * STRIDE;
		Atomics.store(this.#cells, at + MARK, mark);
		Atomics.store(this.#cells, at + LEFT, Math.max(-1, Math.min(left, 2 ** 30)));
		if (this.tokens(place) <= mark) this.#wake.add(place);
	}

	/** Gives the place up, if there are exactly so many tokens. @returns whether that was so. */
	vacate(place: number, tokens: number): boolean {
		const at = place * STRIDE + TOKENS;
		const word = Atomics.load(this.#cells, at);
		return tokensOf(word) === tokens && Atomics.compareExchange(this.#cells, at, word, VACANT) === word;
	}
}

function tokensOf(word: number): number {
	return word === VACANT ? -1 : word & MAX_TOKENS;
}

function burstWord({ burst }: Rate): number {
	return Math.min(burst, 2 ** 31 - 1);
}

function hex(word: number): string {
	return (word >>> 0).toString(16).padStart(8, '0');
}

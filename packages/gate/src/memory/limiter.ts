import { Bucket, END_OF_TIME, type Rate } from '../gates/tenant-limit.ts';
import { tenantKey } from './tenant-key.ts';

/**
 * The tenants' buckets in memory that all threads share, so that a limit holds for the whole process.
 *
 * An open-addressing table of (key, full-at) pairs. `full-at` is the moment at which the bucket is full again (`Bucket`): seconds in
 * the upper half, their fraction in the lower one. Threads update this word by compare-and-swap. It does not depend on the rate,
 * which each request brings with it. A full bucket equals an absent one, so its slot may go to another tenant; nothing else is
 * ever forgotten. Taking a slot is rare, and only one thread does it at a time. It first claims the word, so that a thread that
 * counts for the old tenant fails its swap and looks again.
 */
export interface LimiterMemory {
	readonly cells: SharedArrayBuffer;
	/** One word: 0, or 1 + the index of the worker that is taking a slot. */
	readonly lock: SharedArrayBuffer;
	/** Secret of this process, so that nobody outside can construct two tenants with the same key. */
	readonly secret: Uint8Array;
}

/** A million tenants in debt at the same moment, in 16 MiB. */
export const LIMITER_SLOTS = 1 << 20;
/** How many slots are searched for a key. */
const WINDOW = 128;
/** `full-at` of a slot that is being taken. */
const CLAIMED = -1n;
/** The state of a bucket before its first request. */
const FULL = 0n;

export function limiterSlotCount({ cells }: LimiterMemory): number {
	return cells.byteLength / 16;
}

/**
 * Counts the slots of tenants in debt, which no other tenant can take. It reads the whole table, in steps of about a millisecond.
 *
 * @param nowMs monotonic milliseconds.
 */
export function* countSlotsInUse({ cells }: LimiterMemory, nowMs: number): Generator<void, number> {
	// Halves of the words, so that no BigInt is made for a million slots.
	const halves = new Uint32Array(cells);
	let inUse = 0;
	for (let from = 0; from < halves.length; from += STEP) {
		inUse += inDebt(halves, from, Math.min(from + STEP, halves.length), nowMs);
		yield;
	}
	return inUse;
}

/** A slot that is being taken counts. */
function inDebt(halves: Uint32Array, from: number, to: number, nowMs: number): number {
	const seconds = Math.floor(nowMs / 1000);
	const units = ((nowMs - seconds * 1000) * 2 ** 32) / 1000;
	let inDebt = 0;
	for (let pair = from; pair < to; pair += 4) {
		const fullAt = halves[pair + UPPER_HALF]!;
		if (fullAt > seconds || (fullAt === seconds && halves[pair + LOWER_HALF]! > units)) inDebt++;
	}
	return inDebt;
}

/** 65,536 slots, in halves of words. */
const STEP = 4 * 65_536;

/** The positions of the halves of `full-at` in a pair of 64-bit words. */
const UPPER_HALF = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 3 : 2;
const LOWER_HALF = 5 - UPPER_HALF;

export class TenantLimiter {
	readonly #cells: BigInt64Array;
	readonly #lock: Int32Array;
	readonly #secret: Uint8Array;
	readonly #slots: number;
	readonly #worker: number;
	/** The bucket of the last `admit`, valid until the next one. */
	readonly bucket = new Bucket();
	/** The slot of the request that was admitted last. */
	protected slot = -1;
	/** Splits and joins the halves of a word. */
	readonly #word = new DataView(new ArrayBuffer(8));

	static allocate(secret: Uint8Array, slots: number = LIMITER_SLOTS): LimiterMemory {
		return { cells: new SharedArrayBuffer(slots * 16), lock: new SharedArrayBuffer(4), secret };
	}

	/** Frees the lock if a dead worker held it. */
	static reclaim(memory: LimiterMemory, worker: number): void {
		Atomics.compareExchange(new Int32Array(memory.lock), 0, worker + 1, 0);
	}

	/** @param worker index of this thread, unique in the process. */
	constructor(memory: LimiterMemory, worker: number) {
		this.#cells = new BigInt64Array(memory.cells);
		this.#lock = new Int32Array(memory.lock);
		this.#secret = memory.secret;
		this.#slots = this.#cells.length / 2;
		this.#worker = worker;
	}

	/** The key under which a tenant's bucket is found. */
	keyOf(tenant: string): bigint {
		return tenantKey(this.#secret, tenant);
	}

	/**
	 * Counts one request.
	 *
	 * @param nowMs monotonic milliseconds, the same scale in all threads; negative values count as 0.
	 * @returns whether the tenant is within its limit; without a finite time no tenant is.
	 */
	admit(key: bigint, nowMs: number, rate: Rate): boolean {
		// Reported if there is no bucket: nothing is left.
		this.bucket.debt = rate.depth;
		if (!Number.isFinite(nowMs) || nowMs > END_OF_TIME) return false;
		const now = Math.max(0, nowMs);
		for (;;) {
			const slot = this.#find(key);
			const verdict = slot === -1 ? this.#take(key, now, rate) : this.#count(slot, key, now, rate);
			if (verdict !== undefined) return verdict;
		}
	}

	/** Whether a slot with a full bucket may be given to another tenant. */
	protected isFree(_slot: number): boolean {
		return true;
	}

	/** One swap on a slot that held the key a moment ago; `undefined`: somebody was faster, look again. */
	#count(slot: number, key: bigint, now: number, rate: Rate): boolean | undefined {
		const fullAt = Atomics.load(this.#cells, slot + 1);
		// Being taken for another tenant: our bucket was full, so a new one replaces it after the other thread is done.
		if (fullAt === CLAIMED) return this.#take(key, now, rate);
		// The key is read again after the word: only then do the two belong together (see `#take`).
		if (Atomics.load(this.#cells, slot) !== key) return undefined;
		this.#unpack(fullAt);
		if (!this.bucket.admit(rate, now)) return false;
		this.slot = slot >> 1;
		return Atomics.compareExchange(this.#cells, slot + 1, fullAt, this.#pack()) === fullAt ? true : undefined;
	}

	#unpack(fullAt: bigint): void {
		const word = this.#word;
		word.setBigInt64(0, fullAt);
		this.bucket.seconds = word.getUint32(0);
		this.bucket.units = word.getUint32(4);
	}

	#pack(): bigint {
		const word = this.#word;
		word.setUint32(0, this.bucket.seconds);
		word.setUint32(4, this.bucket.units);
		return word.getBigInt64(0);
	}

	/** Index of the key's pair, or -1. */
	#find(key: bigint): number {
		let slot = this.#home(key);
		for (let i = 0; i < WINDOW; i++) {
			const found = Atomics.load(this.#cells, slot);
			if (found === key) return slot;
			// Slots are filled from the front of a window and never emptied, so an unused slot ends the search.
			if (found === 0n) return -1;
			slot = this.#after(slot);
		}
		return -1;
	}

	/**
	 * Takes a slot for a tenant that has none. Under the lock no other thread adds keys, so a second look decides.
	 *
	 * @returns `true`: admitted; `false`: every slot of the window belongs to a tenant in debt, and forgetting one of
	 *   them would refill it, so this one has to wait; `undefined`: the key has appeared, count on it.
	 */
	#take(key: bigint, now: number, rate: Rate): boolean | undefined {
		const owner = this.#worker + 1;
		while (Atomics.compareExchange(this.#lock, 0, 0, owner) !== 0);
		try {
			const present = this.#find(key);
			if (present !== -1 && Atomics.load(this.#cells, present + 1) !== CLAIMED) return undefined;
			let slot = this.#home(key);
			for (let i = 0; i < WINDOW; i++) {
				if (this.#claim(slot, now)) {
					Atomics.store(this.#cells, slot, key);
					this.#unpack(FULL);
					this.bucket.admit(rate, now);
					Atomics.store(this.#cells, slot + 1, this.#pack());
					this.slot = slot >> 1;
					return true;
				}
				slot = this.#after(slot);
			}
			this.bucket.debt = rate.depth;
			return false;
		} finally {
			Atomics.store(this.#lock, 0, 0);
		}
	}

	/** We hold the lock, so an existing claim is from a thread that died; this thread completes it. */
	#claim(slot: number, now: number): boolean {
		const fullAt = Atomics.load(this.#cells, slot + 1);
		if (fullAt === CLAIMED) return true;
		this.#unpack(fullAt);
		if (!this.bucket.isFull(now) || !this.isFree(slot >> 1)) return false;
		return Atomics.compareExchange(this.#cells, slot + 1, fullAt, CLAIMED) === fullAt;
	}

	#home(key: bigint): number {
		return (Number(BigInt.asUintN(32, key)) % this.#slots) * 2;
	}

	#after(slot: number): number {
		return slot + 2 === this.#cells.length ? 0 : slot + 2;
	}
}

/** The main thread's view of the slots, for adding what other replicas have admitted. */
export class LimiterSlots {
	readonly #cells: BigInt64Array;

	constructor({ cells }: LimiterMemory) {
		this.#cells = new BigInt64Array(cells);
	}

	key(slot: number): bigint {
		return Atomics.load(this.#cells, 2 * slot);
	}

	/** When the bucket is full again, monotonic milliseconds. */
	fullAtMs(slot: number): number {
		return msOf(Atomics.load(this.#cells, 2 * slot + 1));
	}

	/** Ensures that the bucket is not full before `ms`. Does nothing if another tenant has the slot by now. */
	raise(slot: number, key: bigint, ms: number): void {
		for (;;) {
			const fullAt = Atomics.load(this.#cells, 2 * slot + 1);
			if (fullAt === CLAIMED || this.key(slot) !== key || msOf(fullAt) >= ms) return;
			const seconds = Math.floor(ms / 1000);
			const raised = (BigInt(seconds) << 32n) | BigInt(Math.floor(((ms - seconds * 1000) * 2 ** 32) / 1000));
			if (Atomics.compareExchange(this.#cells, 2 * slot + 1, fullAt, raised) === fullAt) return;
		}
	}
}

function msOf(fullAt: bigint): number {
	return Number(fullAt >> 32n) * 1000 + (Number(fullAt & 0xffff_ffffn) * 1000) / 2 ** 32;
}

import { type LimiterMemory, LimiterSlots, limiterSlotCount } from '@mtls-edge-proxy/gate/memory/limiter.ts';

/**
 * Requests that this process has admitted and not yet settled with the store: a count for each slot of the limiter, with the rate
 * of the requests. Workers add, the main thread takes. Blocks of slots with new counts are marked, so that an idle table costs
 * nothing.
 */
export interface SpendingMemory {
	/** Requests, by slot. */
	readonly spent: SharedArrayBuffer;
	/** Requests a second and burst, by slot. */
	readonly rates: SharedArrayBuffer;
	/** 1 if a slot of the block has requests. */
	readonly blocks: SharedArrayBuffer;
}

/** Slots of a block: 2^BLOCK_BITS. */
const BLOCK_BITS = 8;
const MAX_WORD = 2 ** 31 - 1;

/** A worker's view. */
export class SpendingCounts {
	readonly #spent: Int32Array;
	readonly #rates: Int32Array;
	readonly #blocks: Uint8Array;

	/** 12 MiB of address space for the usual table; untouched memory is free, and a slot in use takes 12 bytes. */
	static allocate(limiter: LimiterMemory): SpendingMemory {
		const slots = limiterSlotCount(limiter);
		return {
			spent: new SharedArrayBuffer(slots * 4),
			rates: new SharedArrayBuffer(slots * 8),
			blocks: new SharedArrayBuffer(Math.ceil(slots / 2 ** BLOCK_BITS)),
		};
	}

	constructor({ spent, rates, blocks }: SpendingMemory) {
		this.#spent = new Int32Array(spent);
		this.#rates = new Int32Array(rates);
		this.#blocks = new Uint8Array(blocks);
	}

	isEmpty(slot: number): boolean {
		return Atomics.load(this.#spent, slot) === 0;
	}

	/** The mark is written after the count, so the thread that clears the mark sees the count. */
	add(slot: number, rps: number, burst: number): void {
		const rates = this.#rates;
		if (rates[2 * slot] !== rps) rates[2 * slot] = rps;
		if (rates[2 * slot + 1] !== burst) rates[2 * slot + 1] = Math.min(burst, MAX_WORD);
		Atomics.add(this.#spent, slot, 1);
		if (Atomics.load(this.#blocks, slot >> BLOCK_BITS) === 0) Atomics.store(this.#blocks, slot >> BLOCK_BITS, 1);
	}
}

/** Requests of one tenant that were admitted since its last settlement. */
export interface Spent {
	readonly slot: number;
	readonly key: bigint;
	readonly requests: number;
	readonly rps: number;
	readonly burst: number;
	/** When the tenant's bucket in this process is full again, monotonic milliseconds. */
	readonly fullAtMs: number;
}

/** The main thread's view. */
export class SpendingTable {
	readonly slots: LimiterSlots;
	readonly #spent: Int32Array;
	readonly #rates: Int32Array;
	readonly #blocks: Uint8Array;
	/** Block at which the next scan begins: no tenant is always the last one. */
	#next = 0;

	constructor({ spent, rates, blocks }: SpendingMemory, limiter: LimiterMemory) {
		this.slots = new LimiterSlots(limiter);
		this.#spent = new Int32Array(spent);
		this.#rates = new Int32Array(rates);
		this.#blocks = new Uint8Array(blocks);
	}

	/**
	 * Takes the counts of all tenants that `wants` accepts; the others stay for the next call.
	 *
	 * @param take gets each count.
	 */
	collect(wants: (key: bigint) => boolean, take: (spent: Spent) => void): void {
		const blocks = this.#blocks;
		for (let i = 0; i < blocks.length; i++) {
			const block = (this.#next + i) % blocks.length;
			if (Atomics.load(blocks, block) === 0) continue;
			Atomics.store(blocks, block, 0);
			if (!this.#collectBlock(block, wants, take)) Atomics.store(blocks, block, 1);
		}
		this.#next = (this.#next + 61) % blocks.length;
	}

	/** @returns whether the block is empty now. */
	#collectBlock(block: number, wants: (key: bigint) => boolean, take: (spent: Spent) => void): boolean {
		let isEmpty = true;
		const end = Math.min(this.#spent.length, (block + 1) << BLOCK_BITS);
		for (let slot = block << BLOCK_BITS; slot < end; slot++) {
			if (Atomics.load(this.#spent, slot) === 0) continue;
			const key = this.slots.key(slot);
			if (!wants(key)) {
				isEmpty = false;
				continue;
			}
			// The bucket is read after the count, so it includes all counted requests, and perhaps more.
			const requests = Atomics.exchange(this.#spent, slot, 0);
			const fullAtMs = this.slots.fullAtMs(slot);
			take({ slot, key, requests, fullAtMs, rps: this.#rates[2 * slot]!, burst: this.#rates[2 * slot + 1]! });
		}
		return isEmpty;
	}

	/** Milliseconds of the tenant's rate: the cost of the requests in the count. */
	costMs(slot: number): number {
		const requests = Atomics.load(this.#spent, slot);
		return requests === 0 ? 0 : (requests * 1000) / this.#rates[2 * slot]!;
	}

	/** Puts a count back that could not be settled. */
	putBack({ slot, key, requests }: Spent): void {
		if (this.slots.key(slot) !== key) return;
		Atomics.add(this.#spent, slot, requests);
		Atomics.store(this.#blocks, slot >> BLOCK_BITS, 1);
	}
}

import { shareOf } from './allowance.ts';
import { LOCAL, REFUSING, SHARED, type StandingMemory, StandingWord } from './standing-word.ts';
import { createWakeMemory, WakeList, type WakeMemory } from './wake-list.ts';

/**
 * How many requests of each tenant this process may have under way, of a `concurrency` that it shares with others. By place of
 * `ConcurrencyMemory`; the main thread writes, workers read.
 */
export interface SlotLeasesMemory {
	readonly leased: SharedArrayBuffer;
	/** The tenant's limit, as the workers know it. */
	readonly limits: SharedArrayBuffer;
	/** Requests refused so far, modulo 2^32. */
	readonly refused: SharedArrayBuffer;
	readonly wake: WakeMemory;
	readonly standing: StandingMemory;
}

/** @param places a power of two. */
export function createSlotLeasesMemory(places: number, standing: StandingMemory): SlotLeasesMemory {
	const words = () => new SharedArrayBuffer(places * Int32Array.BYTES_PER_ELEMENT);
	return { leased: words(), limits: words(), refused: words(), wake: createWakeMemory(places), standing };
}

export class SlotLeases {
	readonly #leased: Int32Array;
	readonly #limits: Int32Array;
	readonly #refused: Int32Array;
	readonly #wake: WakeList;
	readonly #standing: StandingWord;

	constructor(memory: SlotLeasesMemory) {
		this.#leased = new Int32Array(memory.leased);
		this.#limits = new Int32Array(memory.limits);
		this.#refused = new Int32Array(memory.refused);
		this.#wake = new WakeList(memory.wake);
		this.#standing = new StandingWord(memory.standing);
	}

	// --- Workers. ---

	tellLimit(place: number, limit: number): void {
		Atomics.store(this.#limits, place, limit);
	}

	/** One is there without asking: the first request of a tenant is never refused. */
	usable(place: number, limit: number): number {
		const leased = Atomics.load(this.#leased, place);
		const { mode } = this.#standing;
		if (mode === SHARED) return Math.max(leased, shareOf(limit, this.#standing.replicas));
		if (mode === LOCAL) return limit;
		return mode === REFUSING ? 0 : Math.max(leased, 1);
	}

	/** @param underWay with it, if it was granted. */
	taken(place: number, granted: boolean, underWay: number): void {
		if (!granted) Atomics.add(this.#refused, place, 1);
		if (!granted || underWay >= Atomics.load(this.#leased, place)) this.#wake.add(place);
	}

	// --- The main thread. ---

	/** A place to look at, or -1. */
	wake(): number {
		return this.#wake.take();
	}

	/** After a worker has died. @returns places of tenants with a limit. */
	*survey(): Generator<number> {
		this.#wake.forget();
		for (let place = 0; place < this.#limits.length; place++) if (this.limit(place) > 0) yield place;
	}

	limit(place: number): number {
		return Atomics.load(this.#limits, place);
	}

	refused(place: number): number {
		return Atomics.load(this.#refused, place) >>> 0;
	}

	leased(place: number): number {
		return Atomics.load(this.#leased, place);
	}

	lease(place: number, slots: number): void {
		Atomics.store(this.#leased, place, slots);
	}
}

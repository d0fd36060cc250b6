import { DIVIDED, LOCAL, SHARED, StoreHealth, type StoreHealthMemory } from './store-health.ts';

/** Requests in flight at other replicas of tenants with a `concurrency`, by place of `ConcurrencyMemory`. */
export interface SharedSlotsMemory {
	/** The sum last reported. The main thread writes it. */
	readonly others: SharedArrayBuffer;
	/** 1 if a worker has asked for it. */
	readonly asked: SharedArrayBuffer;
	readonly storeHealth: StoreHealthMemory;
}

export class SharedSlots {
	readonly #others: Int32Array;
	readonly #asked: Uint8Array;
	readonly #storeHealth: StoreHealth;

	static allocate(places: number, storeHealth: StoreHealthMemory): SharedSlotsMemory {
		return { others: new SharedArrayBuffer(places * 4), asked: new SharedArrayBuffer(places), storeHealth };
	}

	constructor({ others, asked, storeHealth }: SharedSlotsMemory) {
		this.#others = new Int32Array(others);
		this.#asked = new Uint8Array(asked);
		this.#storeHealth = new StoreHealth(storeHealth);
	}

	/** How many requests this replica may have in flight. @param cell the cell of the tenant's key. */
	usable(place: number, cell: number, limit: number): number {
		if (Atomics.load(this.#asked, place) === 0) Atomics.store(this.#asked, place, 1);
		const mode = this.#storeHealth.mode(cell);
		if (mode === SHARED) return limit - Atomics.load(this.#others, place);
		if (mode === DIVIDED) return Math.max(1, Math.floor(limit / this.#storeHealth.replicas));
		return mode === LOCAL ? limit : 0;
	}

	// --- The main thread. ---

	/** Calls `found` with each place that has been asked for since the last time. */
	takeAsked(found: (place: number) => void): void {
		const asked = this.#asked;
		for (let place = 0; place < asked.length; place++) {
			if (Atomics.load(asked, place) === 0) continue;
			Atomics.store(asked, place, 0);
			found(place);
		}
	}

	tell(place: number, others: number): void {
		Atomics.store(this.#others, place, others);
	}
}

/**
 * The limiting mode for workers, which the main thread sets for each cell. Each key has one of 65,536 cells. The store may be
 * unavailable for only some keys: those of one shard, or a single one. Keys that share a cell share its mode.
 */
export interface StoreHealthMemory {
	/** A byte for each cell. */
	readonly modes: SharedArrayBuffer;
	/** One word: the number of replicas, at least 1. */
	readonly replicas: SharedArrayBuffer;
}

/** The store is available: each replica admits by the usage of all. */
export const SHARED = 0;
/** The store is away: each replica has its part of the limit. */
export const DIVIDED = 1;
/** The store is away: each replica has the whole limit. */
export const LOCAL = 2;
/** The store is away: no tenant with a limit is admitted. */
export const REFUSED = 3;

export type Mode = typeof SHARED | typeof DIVIDED | typeof LOCAL | typeof REFUSED;

const CELLS = 1 << 16;

export function cellOf(key: bigint): number {
	return Number(BigInt.asUintN(16, key));
}

export class StoreHealth {
	readonly #modes: Uint8Array;
	readonly #replicas: Int32Array;

	static allocate(): StoreHealthMemory {
		const memory = { modes: new SharedArrayBuffer(CELLS), replicas: new SharedArrayBuffer(4) };
		new Int32Array(memory.replicas)[0] = 1;
		return memory;
	}

	constructor({ modes, replicas }: StoreHealthMemory) {
		this.#modes = new Uint8Array(modes);
		this.#replicas = new Int32Array(replicas);
	}

	mode(cell: number): Mode {
		return Atomics.load(this.#modes, cell) as Mode;
	}

	get replicas(): number {
		return Atomics.load(this.#replicas, 0);
	}

	// --- The main thread. ---

	set replicas(count: number) {
		Atomics.store(this.#replicas, 0, Math.max(1, count));
	}

	set(cell: number, mode: Mode): void {
		Atomics.store(this.#modes, cell, mode);
	}

	/** Sets the cells `first`, `first + every`, `first + 2 * every` and so on. */
	setAll(first: number, every: number, mode: Mode): void {
		for (let cell = first; cell < CELLS; cell += every) this.set(cell, mode);
	}
}

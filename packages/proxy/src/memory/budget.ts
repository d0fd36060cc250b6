/**
 * An amount that all threads draw from: bytes of buffered bodies, client connections. The part of each thread is kept next to the
 * total, so that the part of a dead thread can be released.
 *
 * Amounts are counted in whole units, rounded up, to fit a 32-bit word: 1 for connections, 1024 for bytes.
 */
export class Budget {
	readonly #cells: Int32Array;
	readonly #own: number;
	readonly #limit: number;
	readonly #unit: number;

	static allocate(limit: number, unit: number, workers: number): BudgetMemory {
		return { cells: new SharedArrayBuffer((workers + 1) * 4), limit, unit };
	}

	/** Releases everything that a dead worker held. */
	static reclaim(memory: BudgetMemory, worker: number): void {
		const cells = new Int32Array(memory.cells);
		Atomics.sub(cells, 0, Atomics.exchange(cells, worker + 1, 0));
	}

	/** @param worker index of the thread that draws. */
	constructor(memory: BudgetMemory, worker: number) {
		this.#cells = new Int32Array(memory.cells);
		this.#own = worker + 1;
		this.#unit = memory.unit;
		this.#limit = Math.floor(memory.limit / memory.unit);
	}

	/** @returns whether the amount was granted; if so, release exactly the same amount. */
	tryClaim(amount: number): boolean {
		const units = Math.ceil(amount / this.#unit);
		if (Atomics.add(this.#cells, 0, units) + units > this.#limit) {
			Atomics.sub(this.#cells, 0, units);
			return false;
		}
		Atomics.add(this.#cells, this.#own, units);
		return true;
	}

	release(amount: number): void {
		const units = Math.ceil(amount / this.#unit);
		Atomics.sub(this.#cells, this.#own, units);
		Atomics.sub(this.#cells, 0, units);
	}
}

export interface BudgetMemory {
	readonly cells: SharedArrayBuffer;
	readonly limit: number;
	readonly unit: number;
}

/** The amount in use, for scrapes and tests. */
export function budgetInUse(memory: BudgetMemory): number {
	return Atomics.load(new Int32Array(memory.cells), 0) * memory.unit;
}

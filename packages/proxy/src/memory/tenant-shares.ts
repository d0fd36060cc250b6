/**
 * Each tenant's part of a budget, counted across all threads, so that none holds more than its share.
 *
 * The counters are a count-min sketch: each tenant is counted in one cell of each of two rows, and holds at most the lower of the
 * two counts. So there are no keys to find or evict, no locks, and the memory does not grow with the number of tenants. No tenant
 * is ever granted more than its share. Other tenants cause a refusal only if heavy ones share both of its cells. If all tenants
 * together hold at most four shares, at most four cells of a row are full.
 *
 * As in `Budget`, the part of each thread is kept next to the counters, so that the part of a dead thread can be released.
 */
export class TenantShares {
	readonly #cells: Int32Array;
	readonly #own: Int32Array;
	readonly #limit: number;
	readonly #unit: number;

	static allocate(limit: number, unit: number, workers: number): TenantSharesMemory {
		const rows = () => new SharedArrayBuffer(2 * ROW * Int32Array.BYTES_PER_ELEMENT);
		return { cells: rows(), workers: Array.from({ length: workers }, rows), limit, unit };
	}

	/** Releases everything that a dead worker held. */
	static reclaim(memory: TenantSharesMemory, worker: number): void {
		const cells = new Int32Array(memory.cells);
		const own = new Int32Array(memory.workers[worker]!);
		for (const [cell, units] of own.entries()) if (units !== 0) Atomics.sub(cells, cell, units);
		own.fill(0);
	}

	/** @param worker index of the thread that draws. */
	constructor(memory: TenantSharesMemory, worker: number) {
		this.#cells = new Int32Array(memory.cells);
		this.#own = new Int32Array(memory.workers[worker]!);
		this.#unit = memory.unit;
		this.#limit = Math.floor(memory.limit / memory.unit);
	}

	/**
	 * @param tenant its key (`tenantKey`).
	 * @returns whether the amount is within the tenant's share; if so, release exactly the same amount.
	 */
	tryClaim(tenant: bigint, amount: number): boolean {
		const units = Math.ceil(amount / this.#unit);
		const [one, other] = cellsOf(tenant);
		Atomics.add(this.#cells, one, units);
		Atomics.add(this.#cells, other, units);
		// Both cells are read after both additions: of several simultaneous grants, the last one sees all others in both cells. If it
		// used the results of the additions, two threads could each see a different cell as the smaller one.
		if (Math.min(Atomics.load(this.#cells, one), Atomics.load(this.#cells, other)) > this.#limit) {
			Atomics.sub(this.#cells, one, units);
			Atomics.sub(this.#cells, other, units);
			return false;
		}
		this.#own[one]! += units;
		this.#own[other]! += units;
		return true;
	}

	release(tenant: bigint, amount: number): void {
		const units = Math.ceil(amount / this.#unit);
		for (const cell of cellsOf(tenant)) {
			this.#own[cell]! -= units;
			Atomics.sub(this.#cells, cell, units);
		}
	}
}

export interface TenantSharesMemory {
	/** Units held, row by row. */
	readonly cells: SharedArrayBuffer;
	/** Cells of the same layout, one set for each worker. */
	readonly workers: readonly SharedArrayBuffer[];
	/** The share of one tenant, in the same measure as amounts. */
	readonly limit: number;
	readonly unit: number;
}

/** Upper bound of what a tenant holds, in the same measure as amounts: for tests and diagnostics. */
export function tenantHolds(memory: TenantSharesMemory, tenant: bigint): number {
	const cells = new Int32Array(memory.cells);
	return Math.min(...cellsOf(tenant).map((cell) => Atomics.load(cells, cell))) * memory.unit;
}

/** Cells in a row: 128 KiB for both, and as much again for each worker. A power of two. */
const ROW = 1 << 14;

/** The tenant's cell in each row, by independent bits of the key. */
function cellsOf(tenant: bigint): [number, number] {
	const bits = Number(BigInt.asUintN(28, tenant));
	return [bits % ROW, ROW + Math.floor(bits / ROW)];
}

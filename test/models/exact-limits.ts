/**
 * The limit in exact arithmetic, one bucket a tenant and nothing forgotten. Moments are whole multiples of 125/128 ms,
 * which fall on a tick at every rate; so time counts in ticks here, too, but as integers of any size.
 */
export class ExactLimits {
	readonly #rps: bigint;
	readonly #fullAt = new Map<bigint, bigint>();

	constructor(rps: number) {
		this.#rps = BigInt(rps);
	}

	/** Requests that the tenant may make at this moment of the grid. */
	room(key: bigint, grid: number): number {
		const now = BigInt(grid) * this.#rps;
		const debt = (this.#fullAt.get(key) ?? now) - now;
		return Number((this.#rps * 1024n - (debt > 0n ? debt : 0n)) / 1024n);
	}

	add(key: bigint, grid: number, requests: number): void {
		const now = BigInt(grid) * this.#rps;
		const fullAt = this.#fullAt.get(key) ?? now;
		if (requests > 0) this.#fullAt.set(key, (fullAt > now ? fullAt : now) + 1024n * BigInt(requests));
	}

	inDebt(grid: number): number {
		const now = BigInt(grid) * this.#rps;
		return [...this.#fullAt.values()].filter((fullAt) => fullAt > now).length;
	}
}

/** Milliseconds of a moment of the grid. */
export const ms = (grid: number) => (grid * 125) / 128;

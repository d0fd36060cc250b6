/** Repeatable random numbers: the same seed gives the same numbers on every machine. */
export class Random {
	#state: number;

	/** @param seeds whole numbers; lists that differ anywhere give unrelated sequences. */
	constructor(...seeds: readonly number[]) {
		this.#state = 0x9e3779b9;
		for (const seed of seeds) this.#state = mix(this.#state ^ mix(seed >>> 0));
	}

	/** From 0 up to, but not including, 1. */
	next(): number {
		this.#state = (this.#state + 0x9e3779b9) >>> 0;
		return mix(this.#state) / 2 ** 32;
	}

	/** A whole number from `least` to `most`, both included. */
	between(least: number, most: number): number {
		return least + Math.floor(this.next() * (most - least + 1));
	}

	chance(probability: number): boolean {
		return this.next() < probability;
	}

	pick<T>(from: readonly T[]): T {
		return from[this.between(0, from.length - 1)]!;
	}

	/** One of `from`, in proportion to its weight. */
	weighted<T extends { readonly weight: number }>(from: readonly T[]): T {
		let left = this.next() * from.reduce((sum, { weight }) => sum + weight, 0);
		for (const one of from) {
			left -= one.weight;
			if (left < 0) return one;
		}
		return from.at(-1)!;
	}
}

/** Every input bit affects every output bit (the finaliser of MurmurHash3). */
function mix(value: number): number {
	let hash = value;
	hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
	hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
	return (hash ^ (hash >>> 16)) >>> 0;
}

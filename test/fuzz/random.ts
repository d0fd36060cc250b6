/**
 * Repeatable random numbers: the same seed makes the same choices on every machine. The generator is sfc32 (Chris
 * Doty-Humphrey, PractRand), seeded through splitmix32, so that neighbouring seeds are unrelated.
 */
export class Random {
	#a: number;
	#b: number;
	#c: number;
	#counter = 1;

	/** @param words whole numbers; together they are the seed. */
	constructor(...words: readonly number[]) {
		let state = 0x9e3779b9;
		const mixed = () => {
			state = (state + 0x9e3779b9) | 0;
			let word = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
			word = Math.imul(word ^ (word >>> 15), 0x735a2d97);
			return word ^ (word >>> 15);
		};
		for (const word of words) {
			state ^= word | 0;
			mixed();
			state ^= Math.floor(word / 2 ** 32) | 0;
			mixed();
		}
		this.#a = mixed();
		this.#b = mixed();
		this.#c = mixed();
		for (let i = 0; i < 12; i++) this.word();
	}

	/** 32 bits, signed. */
	word(): number {
		const word = (this.#a + this.#b + this.#counter) | 0;
		this.#counter = (this.#counter + 1) | 0;
		this.#a = this.#b ^ (this.#b >>> 9);
		this.#b = (this.#c + (this.#c << 3)) | 0;
		this.#c = ((this.#c << 21) | (this.#c >>> 11)) + word;
		return word;
	}

	/** A whole number from 0 to `bound - 1`; 0 for a bound below 2. */
	below(bound: number): number {
		return bound < 2 ? 0 : Math.floor(((this.word() >>> 0) / 2 ** 32) * bound);
	}

	/** A whole number, both ends included. */
	between(least: number, most: number): number {
		return least + this.below(most - least + 1);
	}

	/** @param probability 0 to 1. */
	chance(probability: number): boolean {
		return (this.word() >>> 0) / 2 ** 32 < probability;
	}

	pick<T>(choices: readonly T[]): T {
		return choices[this.below(choices.length)]!;
	}

	/** One of the keys, in proportion to its weight. */
	weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
		const entries = Object.entries(weights) as [T, number][];
		let at = this.below(entries.reduce((sum, [, weight]) => sum + weight, 0));
		for (const [choice, weight] of entries) {
			at -= weight;
			if (at < 0) return choice;
		}
		return entries[0]![0];
	}

	/** `length` items, each made by `make`. */
	list<T>(length: number, make: (index: number) => T): T[] {
		return Array.from({ length }, (_, index) => make(index));
	}

	/** Any bytes, as latin1 text. */
	bytes(length: number): string {
		let text = '';
		for (let i = 0; i < length; i++) text += String.fromCharCode(this.below(256));
		return text;
	}

	/** Characters of `alphabet`. */
	text(length: number, alphabet: string): string {
		let text = '';
		for (let i = 0; i < length; i++) text += alphabet[this.below(alphabet.length)];
		return text;
	}

	/** Each letter in upper or lower case. */
	anyCase(text: string): string {
		return text.replace(/[A-Za-z]/g, (letter) => (this.chance(0.5) ? letter.toUpperCase() : letter.toLowerCase()));
	}

	/** Mostly small lengths, sometimes one near `most`. */
	length(most: number): number {
		return this.chance(0.05) ? this.between(0, most) : this.below(Math.min(most, 24) + 1);
	}

	/** `text` in pieces, cut at up to `most` places; no piece is empty. */
	cut(text: string, most: number): string[] {
		const places = this.list(this.below(most + 1), () => this.below(text.length + 1));
		const edges = [...new Set([0, ...places, text.length])].sort((a, b) => a - b);
		return edges.slice(1).map((end, i) => text.slice(edges[i], end));
	}
}

/** A random seed that can be typed again. */
export function freshSeed(): number {
	return Math.floor(Math.random() * 2 ** 32);
}

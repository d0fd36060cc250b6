/**
 * Remembers the results of a function of texts. Clients may choose any number of different texts, so the memory is bounded in characters
 * and starts anew beyond that.
 */
export class TextMemo {
	readonly #workOut: (text: string) => string;
	readonly #maxCharacters: number;
	#known = new Map<string, string>();
	#characters = 0;

	/** @param maxCharacters of all texts and their results. */
	constructor(workOut: (text: string) => string, maxCharacters: number) {
		this.#workOut = workOut;
		this.#maxCharacters = maxCharacters;
	}

	/** Total of remembered characters. */
	get characters(): number {
		return this.#characters;
	}

	get(text: string): string {
		const known = this.#known.get(text);
		if (known !== undefined) return known;
		const result = this.#workOut(text);
		const characters = text.length + result.length;
		if (this.#characters + characters > this.#maxCharacters) this.clear();
		if (characters <= this.#maxCharacters) {
			this.#known.set(text, result);
			this.#characters += characters;
		}
		return result;
	}

	clear(): void {
		this.#known = new Map();
		this.#characters = 0;
	}
}

/**
 * What texts become, worked out once for those that come again. Strangers choose some of them, and any number of different ones: so what
 * is remembered has a bound in characters, and beyond it begins anew.
 */
export class TextMemo {
	readonly #workOut: (text: string) => string;
	readonly #maxCharacters: number;
	#known = new Map<string, string>();
	#characters = 0;

	/** @param maxCharacters of all texts, and of what they have become. */
	constructor(workOut: (text: string) => string, maxCharacters: number) {
		this.#workOut = workOut;
		this.#maxCharacters = maxCharacters;
	}

	/** Of all that is remembered. */
	get characters(): number {
		return this.#characters;
	}

	get(text: string): string {
		const known = this.#known.get(text);
		if (known !== undefined) return known;
		const result = this.#workOut(text);
		const characters = text.length + result.length;
		if (this.#characters + characters > this.#maxCharacters) {
			this.#known = new Map();
			this.#characters = 0;
		}
		if (characters <= this.#maxCharacters) {
			this.#known.set(text, result);
			this.#characters += characters;
		}
		return result;
	}
}

/**
 * What one read brings of a body, put together. An upstream may cut its answer into as many chunks as it likes; passed on
 * one by one, each byte of a read could cost its client's connection a kilobyte of bookkeeping.
 */
export class Pieces {
	/** The only piece so far: where none follows, which is the normal case, nothing is copied. */
	#first: Buffer | undefined;
	#length = 0;
	readonly #bytes: Buffer;

	/** @param capacity bytes that one read can bring at most. */
	constructor(capacity: number) {
		this.#bytes = Buffer.allocUnsafeSlow(capacity);
	}

	/** @param piece a view that is valid until `take`. */
	add(piece: Buffer): void {
		if (this.#length === 0) this.#first = piece;
		else this.#append(piece);
		this.#length += piece.length;
	}

	#append(piece: Buffer): void {
		if (this.#first !== undefined) this.#bytes.set(this.#first, 0);
		this.#first = undefined;
		this.#bytes.set(piece, this.#length);
	}

	/** All of them in one view, valid until the next `add`; `undefined` when there are none. */
	take(): Buffer | undefined {
		if (this.#length === 0) return undefined;
		const all = this.#first ?? this.#bytes.subarray(0, this.#length);
		this.#first = undefined;
		this.#length = 0;
		return all;
	}
}

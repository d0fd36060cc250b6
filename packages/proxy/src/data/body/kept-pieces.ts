/**
 * The part of a body that has arrived but has not been taken yet. A client may cut a body into one-byte frames, and an object for
 * each would cost hundreds of times its size, so small pieces are joined.
 */
export class KeptPieces {
	/** Bytes. */
	length = 0;
	readonly #pieces: Buffer[] = [];
	#gathered = NOTHING;
	#gatheredLength = 0;

	/** @param piece is copied. */
	add(piece: Buffer): void {
		this.length += piece.length;
		const small = piece.length < SMALL_PIECE;
		if (!small || this.#gatheredLength + piece.length > GATHERED) this.#seal();
		if (!small) return void this.#pieces.push(Buffer.from(piece));
		const end = this.#gatheredLength + piece.length;
		if (end > this.#gathered.length) this.#grow(end);
		this.#gathered.set(piece, this.#gatheredLength);
		this.#gatheredLength = end;
	}

	/** The next bytes, in order of arrival, or `undefined` if there are none. */
	shift(): Buffer | undefined {
		if (this.#pieces.length === 0) this.#seal();
		const piece = this.#pieces.shift();
		if (piece !== undefined) this.length -= piece.length;
		return piece;
	}

	/** Grows by doubling: many requests may wait on one connection, each with a few bytes. */
	#grow(needed: number): void {
		const grown = room(Math.min(GATHERED, Math.max(needed, 2 * this.#gathered.length, FIRST_ROOM)));
		grown.set(this.#gathered.subarray(0, this.#gatheredLength));
		this.#gathered = grown;
	}

	#seal(): void {
		if (this.#gatheredLength === 0) return;
		this.#pieces.push(this.#gathered.subarray(0, this.#gatheredLength));
		this.#gathered = NOTHING;
		this.#gatheredLength = 0;
	}
}

/**
 * Small rooms share blocks: a separate `ArrayBuffer` for each small body costs more than the rest of the body's way. A body that waits
 * holds its whole block, which is no more than the rest of its request takes.
 */
function room(bytes: number): Buffer<ArrayBuffer> {
	if (bytes > SHARED) return Buffer.allocUnsafeSlow(bytes);
	if (blockUsed + bytes > BLOCK) {
		block = Buffer.allocUnsafeSlow(BLOCK);
		blockUsed = 0;
	}
	const from = blockUsed;
	blockUsed += bytes;
	return block.subarray(from, blockUsed);
}

const BLOCK = 4096;
/** Largest room in a block, bytes. */
const SHARED = 512;
let block: Buffer<ArrayBuffer>;
let blockUsed = BLOCK;

/** Pieces from this size on stay pieces of their own, bytes. */
const SMALL_PIECE = 4096;
const GATHERED = 16_384;
const FIRST_ROOM = 64;
const NOTHING = Buffer.alloc(0);

/**
 * The part of a body that has arrived but has not been taken yet. A client may cut a body into one-byte frames, and an object for
 * each would cost hundreds of times its size, so small pieces are joined.
 */
export class KeptPieces {
	/** Bytes. */
	length = 0;
	/** In front of the gathered bytes. Most bodies are small and need no list. */
	#pieces: Buffer[] | undefined = undefined;
	/** Small pieces are gathered in `#room` bytes of `#memory`, from `#from` on. A view is made only when they are taken. */
	#memory: Buffer = NOTHING;
	#from = 0;
	#room = 0;
	#gathered = 0;

	/** @param piece is copied. */
	add(piece: Buffer): void {
		this.length += piece.length;
		const small = piece.length < SMALL_PIECE;
		if (!small || this.#gathered + piece.length > GATHERED) this.#seal();
		if (!small) return this.#append(Buffer.from(piece));
		const end = this.#gathered + piece.length;
		if (end > this.#room) this.#grow(end);
		this.#memory.set(piece, this.#from + this.#gathered);
		this.#gathered = end;
	}

	/** The next bytes, in order of arrival, or `undefined` if there are none. */
	shift(): Buffer | undefined {
		const piece = this.#pieces?.shift() ?? this.#take();
		if (piece !== undefined) this.length -= piece.length;
		return piece;
	}

	/**
	 * Grows by doubling: many requests may wait on one connection, each with a few bytes. Small rooms share blocks: a separate
	 * `ArrayBuffer` for each small body costs more than the rest of the body's way. A body that waits holds its whole block, which is no
	 * more than the rest of its request takes.
	 */
	#grow(needed: number): void {
		const bytes = Math.min(GATHERED, Math.max(needed, 2 * this.#room, FIRST_ROOM));
		const before = this.#memory;
		const beforeFrom = this.#from;
		if (bytes > SHARED) {
			this.#memory = Buffer.allocUnsafeSlow(bytes);
			this.#from = 0;
		} else {
			if (blockUsed + bytes > BLOCK) {
				block = Buffer.allocUnsafeSlow(BLOCK);
				blockUsed = 0;
			}
			this.#memory = block;
			this.#from = blockUsed;
			blockUsed += bytes;
		}
		this.#room = bytes;
		if (this.#gathered > 0) before.copy(this.#memory, this.#from, beforeFrom, beforeFrom + this.#gathered);
	}

	/** The gathered bytes; what follows is gathered elsewhere. */
	#take(): Buffer | undefined {
		if (this.#gathered === 0) return undefined;
		const piece = this.#memory.subarray(this.#from, this.#from + this.#gathered);
		this.#memory = NOTHING;
		this.#room = 0;
		this.#gathered = 0;
		return piece;
	}

	#seal(): void {
		const piece = this.#take();
		if (piece !== undefined) this.#append(piece);
	}

	#append(piece: Buffer): void {
		this.#pieces ??= [];
		this.#pieces.push(piece);
	}
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

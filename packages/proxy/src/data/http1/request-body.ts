import { UNDECLARED } from '../../gates/body-limit.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { ChunkDecoder } from './chunk-decoder.ts';

/** One request's body by its framing (RFC 9112 section 6): a number of bytes, or chunks. Pure: bytes in, content out. */
export class RequestBody {
	/** Content of the last `read`; a part of its bytes. */
	piece: Buffer = NOTHING;
	/** Bytes still to come, if their number is declared. */
	#left: number;
	readonly #chunks: ChunkDecoder | undefined;

	/**
	 * @param length bytes, or `UNDECLARED` for chunks.
	 * @param maxTrailers longest trailers, bytes.
	 */
	constructor(length: number, maxTrailers: number) {
		this.#left = length;
		this.#chunks = length === UNDECLARED ? new ChunkDecoder(maxTrailers) : undefined;
	}

	get isComplete(): boolean {
		return this.#chunks === undefined ? this.#left === 0 : this.#chunks.isComplete;
	}

	/** In words, why the bytes are not a body; its end is then unknown. `undefined`: no problem so far. */
	get problem(): string | undefined {
		return this.#chunks?.problem;
	}

	/** As for `ChunkDecoder`. */
	get cost(): number {
		return this.#chunks?.cost ?? 0;
	}

	/** As they were sent, once the body is complete. */
	get trailers(): Trailers | undefined {
		return this.#chunks?.trailers;
	}

	/**
	 * Extracts the content; the bytes may be overwritten.
	 *
	 * @returns the offset for the next call, or for what follows the body, as for `ChunkDecoder`.
	 */
	read(bytes: Buffer, from: number): number {
		const chunks = this.#chunks;
		if (chunks !== undefined) {
			const at = chunks.read(bytes, from);
			this.piece = chunks.piece;
			return at;
		}
		const end = Math.min(bytes.length, from + this.#left);
		this.piece = bytes.subarray(from, end);
		this.#left -= end - from;
		return end;
	}
}

const NOTHING = Buffer.alloc(0);

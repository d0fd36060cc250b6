import { UNDECLARED } from '../../gates/body-limit.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { ChunkDecoder } from './chunk-decoder.ts';

/** One request's body as its framing tells it (RFC 9112 section 6): so many bytes, or chunks. Pure: bytes in, content out. */
export class RequestBody {
	/** Content of the last `read`; a part of its bytes. */
	piece: Buffer = NOTHING;
	/** Bytes still to come, where their number is declared. */
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

	/** In words, why the bytes are no body; where it ends cannot be known. `undefined`: nothing so far. */
	get problem(): string | undefined {
		return this.#chunks?.problem;
	}

	/** As they were sent, once the body is complete. */
	get trailers(): Trailers | undefined {
		return this.#chunks?.trailers;
	}

	/**
	 * Takes content out of the bytes, which may be overwritten.
	 *
	 * @returns where the next call, or what follows the body, has to begin; less than all as for `ChunkDecoder`.
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

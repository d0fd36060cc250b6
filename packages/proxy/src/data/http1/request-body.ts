import { UNDECLARED } from '../../gates/body-limit.ts';
import { ChunkDecoder } from './chunk-decoder.ts';

export type RequestBody = Pick<ChunkDecoder, 'piece' | 'cost' | 'problem' | 'trailers' | 'isComplete' | 'read'>;

/**
 * One request's body by its framing (RFC 9112 section 6).
 *
 * @param length bytes, or `UNDECLARED` for chunks.
 * @param maxTrailers longest trailers, bytes.
 */
export function requestBody(length: number, maxTrailers: number): RequestBody {
	return length === UNDECLARED ? new ChunkDecoder(maxTrailers) : new SizedBody(length);
}

/** A number of bytes. */
class SizedBody implements RequestBody {
	piece: Buffer = NOTHING;
	readonly cost = 0;
	readonly problem = undefined;
	readonly trailers = undefined;
	/** Bytes still to come. */
	#left: number;

	constructor(length: number) {
		this.#left = length;
	}

	get isComplete(): boolean {
		return this.#left === 0;
	}

	read(bytes: Buffer, from: number): number {
		const end = Math.min(bytes.length, from + this.#left);
		this.piece = bytes.subarray(from, end);
		this.#left -= end - from;
		return end;
	}
}

const NOTHING = Buffer.alloc(0);

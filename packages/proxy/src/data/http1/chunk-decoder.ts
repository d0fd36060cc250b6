import { QUOTED_STRING_SOURCE, TOKEN_SOURCE } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { FieldScanner, isFraming, splitFields } from './field-scanner.ts';

/**
 * A chunked body (RFC 9112 section 7.1), of a request or of a response. Pure: bytes in, content and trailers out. The
 * content of one read comes out as one piece, however it was cut: one-byte chunks cost little more than others.
 */
export class ChunkDecoder {
	/** Content of the last `read`; a part of its bytes. */
	piece: Buffer = NOTHING;
	/** Price of what the last `read` has brought and bodies do not need, in tokens (`ConnectionShare`). */
	cost = 0;
	/** In words, why the bytes are not a body; its end is then unknown. `undefined`: no problem so far. */
	problem: string | undefined = undefined;
	/** As they were sent, once the body is complete. */
	trailers: Trailers | undefined = undefined;
	#state = CHUNK_SIZE;
	/** Chunks of less than `SMALL_CHUNK` bytes that this `read` has begun. */
	#smallChunks = 0;
	/** Bytes of the chunk still to come. */
	#left = 0;
	/** Bytes that extensions may still take. */
	#extensions = MAX_EXCESS;
	#fields: FieldScanner | undefined = undefined;
	/** Bytes of the trailers scanned so far. */
	#scanned = 0;
	readonly #maxTrailers: number;

	/** @param maxTrailers longest trailers with their empty line, bytes. */
	constructor(maxTrailers: number) {
		this.#maxTrailers = maxTrailers;
	}

	get isComplete(): boolean {
		return this.#state === DONE;
	}

	/**
	 * Extracts the content. Chunks are joined in place, so the bytes are overwritten.
	 *
	 * @returns the offset for the next call, or for what follows the body. If it is not the end and the body is incomplete, a line has
	 *   not arrived completely: pass it again with the following bytes.
	 */
	read(bytes: Buffer, from: number): number {
		this.#smallChunks = 0;
		this.cost = 0;
		let at = from;
		let start = -1;
		let end = -1;
		while (at < bytes.length && this.#state !== DONE && this.problem === undefined) {
			let next: number;
			if (this.#state === CHUNK_DATA) {
				next = Math.min(bytes.length, at + this.#left);
				if (start === -1) {
					start = at;
					end = next;
				} else {
					moveTo(bytes, end, at, next);
					end += next - at;
				}
				this.#left -= next - at;
				if (this.#left === 0) {
					const isWhole = bytes[next] === CR && bytes[next + 1] === LF;
					this.#state = isWhole ? CHUNK_SIZE : CHUNK_END;
					if (isWhole) next += 2;
				}
			} else {
				next = this.#framing(bytes, at);
			}
			if (next === -1) break;
			at = next;
		}
		if (this.#smallChunks > FREE_CHUNKS) this.cost += this.#smallChunks * COSTS.smallChunk;
		this.piece = start === -1 ? NOTHING : bytes.subarray(start, end);
		return at;
	}

	/** Reads one line of the framing; returns its end, or -1 if it is incomplete or malformed. */
	#framing(bytes: Buffer, at: number): number {
		switch (this.#state) {
			case CHUNK_SIZE:
				return this.#chunkSize(bytes, at);
			case CHUNK_END:
				if (bytes[at] !== CR || (bytes.length > at + 1 && bytes[at + 1] !== LF)) {
					return this.#fail('chunk without its end');
				}
				if (bytes.length === at + 1) return -1;
				this.#state = CHUNK_SIZE;
				return at + 2;
			default:
				return this.#readTrailers(bytes, at);
		}
	}

	#chunkSize(bytes: Buffer, at: number): number {
		let end = at;
		let size = 0;
		for (let digit = hexDigit(bytes[end]); digit !== -1; digit = hexDigit(bytes[++end])) size = size * 16 + digit;
		const digits = end - at;
		if (digits > MAX_SIZE_DIGITS || (digits === 0 && end < bytes.length)) return this.#fail(BAD_SIZE);
		// Extensions are rare and ignored, but must be well-formed.
		if (end < bytes.length && bytes[end] !== CR) {
			const cr = bytes.indexOf(CR, end);
			const text = bytes.toString('latin1', end, cr === -1 ? bytes.length : cr);
			if (text.length > MAX_EXTENSIONS) return this.#fail(TOO_LONG);
			if (text.includes('\n')) return this.#fail(BAD_SIZE);
			if (cr === -1 || cr + 1 === bytes.length) return -1;
			if (!EXTENSIONS.test(text)) return this.#fail(BAD_SIZE);
			this.#extensions -= text.length;
			if (this.#extensions < 0) return this.#fail(TOO_LONG);
			end = cr;
		}
		if (end + 1 >= bytes.length) return -1;
		if (bytes[end + 1] !== LF) return this.#fail(BAD_SIZE);
		this.#left = size;
		this.#extensions += size;
		if (size < SMALL_CHUNK) this.#smallChunks++;
		this.#state = size === 0 ? TRAILERS : CHUNK_DATA;
		return end + 2;
	}

	#readTrailers(bytes: Buffer, at: number): number {
		// Nearly all bodies have no trailers.
		if (this.#scanned === 0 && bytes[at] === CR && bytes[at + 1] === LF) {
			this.#state = DONE;
			return at + 2;
		}
		this.#fields ??= new FieldScanner();
		const end = this.#fields.scan(bytes, at + this.#scanned);
		this.#scanned = bytes.length - at;
		const length = end === -1 ? this.#scanned : end - at;
		if (this.#fields.problem !== undefined) return this.#fail(`${this.#fields.problem} in the trailers`);
		if (length > this.#maxTrailers) return this.#fail('trailers too long');
		if (end === -1) return -1;
		const fields = splitFields(bytes.toString('latin1', at, end));
		for (let i = 0; i < fields.length; i += 2) {
			// RFC 9110 section 6.5.1: a reader that merged it into the head would find a different end of the message.
			if (isFraming(fields[i]!)) return this.#fail('framing in a trailer');
			fields[i] = fields[i]!.toLowerCase();
		}
		if (fields.length > 0) this.trailers = fields;
		this.cost += Math.max(0, fields.length / 2 - FREE_TRAILERS) * COSTS.trailer;
		this.cost += Math.max(0, length - FREE_BYTES) * COSTS.byte;
		this.#state = DONE;
		return end;
	}

	#fail(problem: string): -1 {
		this.problem = problem;
		return -1;
	}
}

const CHUNK_SIZE = 0;
const CHUNK_DATA = 1;
const CHUNK_END = 2;
const TRAILERS = 3;
const DONE = 4;

const BAD_SIZE = 'malformed chunk size';
const TOO_LONG = 'chunk extensions too long';

const NOTHING = Buffer.alloc(0);
const CR = 0x0d;
const LF = 0x0a;

/** Tokens. A trailer costs as much as a new field of a head. Long ones leave several times their size to the garbage collector. */
const COSTS = { smallChunk: 1 / 16, trailer: 2, byte: 1 / 64 } as const;
/** Small chunks of a read; trailers of a body and their bytes. Few bodies have more. */
const FREE_CHUNKS = 8;
const FREE_TRAILERS = 8;
const FREE_BYTES = 1024;

/** Bytes. */
const SMALL_CHUNK = 256;
/** Bytes. */
const SHORT_MOVE = 64;
/** Up to 2^52: counted exactly. */
const MAX_SIZE_DIGITS = 13;
/** Longest extensions of a chunk, bytes. */
const MAX_EXTENSIONS = 1024;
/**
 * Bytes by which the extensions of all chunks may exceed the content: with one-byte chunks they would be nearly all that is read,
 * and no other limit counts them (CVE-2023-39326).
 */
const MAX_EXCESS = 16_384;

/**
 * `;name`, `;name=token` or `;name="text"` (RFC 9112 section 7.1.1), without the blanks that a recipient may tolerate around
 * them: some readers treat a blank as the end of the line.
 */
const EXTENSIONS = new RegExp(`^(?:;${TOKEN_SOURCE}(?:=(?:${TOKEN_SOURCE}|${QUOTED_STRING_SOURCE}))?)*$`);

/** Moves bytes to the front. For a few of them the call into the engine costs more than the move. */
function moveTo(bytes: Buffer, to: number, from: number, end: number): void {
	if (end - from > SHORT_MOVE) return void bytes.copyWithin(to, from, end);
	for (let i = 0; i < end - from; i++) bytes[to + i] = bytes[from + i]!;
}

function hexDigit(byte: number | undefined): number {
	if (byte === undefined) return -1;
	if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
	const lower = byte | 0x20;
	return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

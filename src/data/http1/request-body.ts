import { UNDECLARED } from '../../gates/body-limit.ts';
import { QUOTED_STRING_SOURCE, TOKEN_SOURCE } from '../../gates/grammar.ts';
import { FieldScanner, isFraming, splitFields } from './field-scanner.ts';

/**
 * One request's body as its framing tells it (RFC 9112 sections 6 and 7): so many bytes, or chunks. Pure: bytes in, content
 * out. What one read brings of the content comes out as one piece, whatever it was cut into: a client that sends chunks of a
 * byte costs little more than others.
 */
export class RequestBody {
	/** Content of the last `read`; a part of its bytes. */
	piece: Buffer = NOTHING;
	/** In words, why the bytes are no body; where it ends cannot be known. `undefined`: nothing so far. */
	problem: string | undefined = undefined;
	#state: number;
	/** Bytes of the body or chunk still to come. */
	#left: number;
	/** Bytes of all chunks' extensions so far. */
	#extensions = 0;
	#trailers: FieldScanner | undefined = undefined;
	/** Bytes of the trailers that have been looked at. */
	#scanned = 0;
	readonly #maxTrailers: number;

	/**
	 * @param length bytes, or `UNDECLARED` for chunks.
	 * @param maxTrailers longest trailers, bytes.
	 */
	constructor(length: number, maxTrailers: number) {
		this.#state = length === UNDECLARED ? CHUNK_SIZE : length === 0 ? DONE : FIXED;
		this.#left = length;
		this.#maxTrailers = maxTrailers;
	}

	get isComplete(): boolean {
		return this.#state === DONE;
	}

	/**
	 * Takes content out of the bytes. Chunks are put together where they lie: the bytes are overwritten.
	 *
	 * @returns where the next call, or what follows the body, has to begin. Less than all although the body is not complete: a
	 *   line has not come whole, and is to be given again with what follows it.
	 */
	read(bytes: Buffer, from: number): number {
		this.piece = NOTHING;
		if (this.#state === FIXED) {
			const end = Math.min(bytes.length, from + this.#left);
			this.piece = bytes.subarray(from, end);
			this.#left -= end - from;
			if (this.#left === 0) this.#state = DONE;
			return end;
		}
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
					bytes.copyWithin(end, at, next);
					end += next - at;
				}
				this.#left -= next - at;
				if (this.#left === 0) this.#state = CHUNK_END;
			} else {
				next = this.#framing(bytes, at);
			}
			if (next === -1) break;
			at = next;
		}
		if (start !== -1) this.piece = bytes.subarray(start, end);
		return at;
	}

	/** One line of the framing; returns where it ends, or -1 when it has not come whole or is none. */
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
		// Extensions are rare, mean nothing to us, and must be well-formed all the same.
		if (end < bytes.length && bytes[end] !== CR) {
			const cr = bytes.indexOf(CR, end);
			const text = bytes.toString('latin1', end, cr === -1 ? bytes.length : cr);
			if (text.length > MAX_EXTENSIONS) return this.#fail('chunk extensions too long');
			if (text.includes('\n')) return this.#fail(BAD_SIZE);
			if (cr === -1 || cr + 1 === bytes.length) return -1;
			if (!EXTENSIONS.test(text)) return this.#fail(BAD_SIZE);
			this.#extensions += text.length;
			if (this.#extensions > MAX_ALL_EXTENSIONS) return this.#fail('chunk extensions too long');
			end = cr;
		}
		if (end + 1 >= bytes.length) return -1;
		if (bytes[end + 1] !== LF) return this.#fail(BAD_SIZE);
		this.#left = size;
		this.#state = size === 0 ? TRAILERS : CHUNK_DATA;
		return end + 2;
	}

	/** Trailers are read, so that a malformed one is noticed, and dropped. */
	#readTrailers(bytes: Buffer, at: number): number {
		this.#trailers ??= new FieldScanner();
		const end = this.#trailers.scan(bytes, at + this.#scanned);
		this.#scanned = bytes.length - at;
		const length = end === -1 ? this.#scanned : end - at;
		if (this.#trailers.problem !== undefined) return this.#fail(`${this.#trailers.problem} in the trailers`);
		if (length > this.#maxTrailers) return this.#fail('trailers too long');
		if (end === -1) return -1;
		const fields = splitFields(bytes.toString('latin1', at, end));
		// RFC 9110 section 6.5.1: a reader that merged it into the head would find another end of the message.
		if (fields.some((name, i) => i % 2 === 0 && isFraming(name))) return this.#fail('framing in a trailer');
		this.#state = DONE;
		return end;
	}

	#fail(problem: string): -1 {
		this.problem = problem;
		return -1;
	}
}

const FIXED = 0;
const CHUNK_SIZE = 1;
const CHUNK_DATA = 2;
const CHUNK_END = 3;
const TRAILERS = 4;
const DONE = 5;

const BAD_SIZE = 'malformed chunk size';

const NOTHING = Buffer.alloc(0);
const CR = 0x0d;
const LF = 0x0a;

/** Up to 2^52: counted exactly. */
const MAX_SIZE_DIGITS = 13;
/** Of a chunk's extensions, bytes. */
const MAX_EXTENSIONS = 1024;
/** Of those of all chunks: beside chunks of a byte they would be nearly all that is read, and no limit would count them (CVE-2023-39326). */
const MAX_ALL_EXTENSIONS = 16_384;

/**
 * `;name`, `;name=token` or `;name="text"` (RFC 9112 section 7.1.1), without the blanks that a recipient may tolerate around
 * them: some readers take a blank for the end of the line.
 */
const EXTENSIONS = new RegExp(`^(?:;${TOKEN_SOURCE}(?:=(?:${TOKEN_SOURCE}|${QUOTED_STRING_SOURCE}))?)*$`);

function hexDigit(byte: number | undefined): number {
	if (byte === undefined) return -1;
	if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
	const lower = byte | 0x20;
	return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

import { ConnectionError, protocolError, sizeError } from './errors.ts';
import { CODE, FLAG, MAX_FRAME_SIZE } from './frame-format.ts';
import { endWithoutPadding, uint31At } from './frame-reader.ts';

/**
 * How many CONTINUATION frames may follow one HEADERS frame (CVE-2024-27316): as many full frames as a head of `max_header_bytes`
 * needs, and seven more, so that a slightly larger head still gets its 431. By default that is 8, nghttp2's limit.
 */
function maxContinuations(maxHeaderBytes: number): number {
	return 7 + Math.ceil(maxHeaderBytes / MAX_FRAME_SIZE);
}

/** Reads HEADERS and CONTINUATION frames, and joins a header block that comes in several of them (RFC 9113 section 4.3). */
export class HeaderBlockReader {
	/** A block has begun and not ended. */
	isOpen = false;
	/** Facts of the block that began last. */
	endStream = false;
	dependsOnItself = false;
	/** The last complete block: `bytes` from `from` to `to`. */
	bytes: Buffer = NOTHING;
	from = 0;
	to = 0;
	#streamId = 0;
	#continuations = 0;
	#gathered: Buffer = NOTHING;
	#length = 0;
	readonly #maxContinuations: number;

	constructor(maxHeaderBytes: number) {
		this.#maxContinuations = maxContinuations(maxHeaderBytes);
	}

	/**
	 * A HEADERS frame (section 6.2).
	 *
	 * @returns whether the block is complete: `bytes` from `from` to `to`, until the next call. @throws ConnectionError
	 */
	begin(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
		let begin = from;
		let end = to;
		if ((flags & FLAG.PADDED) !== 0) {
			end = endWithoutPadding(bytes, from, to);
			begin++;
		}
		this.dependsOnItself = false;
		if ((flags & FLAG.PRIORITY) !== 0) {
			if (end - begin < PRIORITY_LENGTH) {
				throw sizeError('HEADERS too short for its priority');
			}
			this.dependsOnItself = uint31At(bytes, begin) === streamId;
			begin += PRIORITY_LENGTH;
		}
		this.endStream = (flags & FLAG.END_STREAM) !== 0;
		if ((flags & FLAG.END_HEADERS) !== 0) return this.#complete(bytes, begin, end);
		this.isOpen = true;
		this.#streamId = streamId;
		this.#continuations = 0;
		this.#append(bytes, begin, end);
		return false;
	}

	/** A CONTINUATION frame (section 6.10). @returns as `begin`. @throws ConnectionError */
	goOn(flags: number, streamId: number, bytes: Buffer, from: number, to: number): boolean {
		if (!this.isOpen || streamId !== this.#streamId) {
			throw protocolError('CONTINUATION without HEADERS');
		}
		if (++this.#continuations > this.#maxContinuations) {
			throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'continuation-flood', 'a head in too many frames');
		}
		this.#append(bytes, from, to);
		if ((flags & FLAG.END_HEADERS) === 0) return false;
		this.isOpen = false;
		return this.#complete(this.#gathered, 0, this.#length);
	}

	#complete(bytes: Buffer, from: number, to: number): true {
		this.bytes = bytes;
		this.from = from;
		this.to = to;
		return true;
	}

	/** Call it when the block has been read: it releases the bytes. */
	forget(): void {
		this.bytes = NOTHING;
		giveBack(this.#gathered);
		this.#gathered = NOTHING;
		this.#length = 0;
	}

	#append(bytes: Buffer, from: number, to: number): void {
		const length = this.#length + to - from;
		if (length > this.#gathered.length) {
			const maxBlock = (1 + this.#maxContinuations) * MAX_FRAME_SIZE;
			const bigger = bufferOf(Math.min(Math.max(length, 2 * this.#gathered.length), maxBlock));
			this.#gathered.copy(bigger, 0, 0, this.#length);
			this.#gathered = bigger;
		}
		bytes.copy(this.#gathered, this.#length, from, to);
		this.#length = length;
	}
}

/** @returns at least so many bytes with old content. */
function bufferOf(length: number): Buffer {
	const place = length < LEAST_SPARE ? -1 : SPARES.findLastIndex((spare) => spare.length >= length);
	return place === -1 ? Buffer.allocUnsafeSlow(length) : SPARES.splice(place, 1)[0]!;
}

/** Longer ones take the places of shorter ones. */
function giveBack(buffer: Buffer): void {
	if (buffer.length < LEAST_SPARE) return;
	if (SPARES.length === MAX_SPARES) {
		const shorter = SPARES.findIndex(({ length }) => length < buffer.length);
		if (shorter === -1) return;
		SPARES.splice(shorter, 1);
	}
	SPARES.push(buffer);
}

/** Buffers of long blocks, shared by all connections of a thread. A new one for each would be garbage that V8 collects slowly. */
const SPARES: Buffer[] = [];
const MAX_SPARES = 16;
const LEAST_SPARE = 2 * MAX_FRAME_SIZE;
/** Bytes of the priority fields of a HEADERS frame. */
const PRIORITY_LENGTH = 5;
const NOTHING = Buffer.alloc(0);

import { ConnectionError } from './errors.ts';
import { CODE, MAX_FRAME_SIZE } from './frame-format.ts';

/**
 * CONTINUATION frames behind one HEADERS frame (CVE-2024-27316): no head that is not refused for its size needs one of them,
 * and with eight a head of 128 KiB is still told why. nghttp2 has the same limit.
 */
export const MAX_CONTINUATIONS = 8;

/** Puts a header block together that came in more than one frame (RFC 9113 section 4.3). */
export class HeaderBlockReader {
	/** A block has begun, and its end has not come. */
	isOpen = false;
	endStream = false;
	dependsOnItself = false;
	#streamId = 0;
	#continuations = 0;
	#bytes: Buffer = NOTHING;
	#length = 0;

	begin(streamId: number, endStream: boolean, dependsOnItself: boolean, bytes: Buffer, from: number, to: number): void {
		this.isOpen = true;
		this.#streamId = streamId;
		this.endStream = endStream;
		this.dependsOnItself = dependsOnItself;
		this.#continuations = 0;
		this.#append(bytes, from, to);
	}

	/** @throws ConnectionError */
	add(streamId: number, bytes: Buffer, from: number, to: number): void {
		if (!this.isOpen || streamId !== this.#streamId) {
			throw new ConnectionError(CODE.PROTOCOL_ERROR, 'protocol', 'CONTINUATION of nothing');
		}
		if (++this.#continuations > MAX_CONTINUATIONS) {
			throw new ConnectionError(CODE.ENHANCE_YOUR_CALM, 'continuation-flood', 'a head in too many frames');
		}
		this.#append(bytes, from, to);
	}

	/** The whole block, whose end has come. */
	take(): Buffer {
		const block = this.#bytes.subarray(0, this.#length);
		this.isOpen = false;
		this.#bytes = NOTHING;
		this.#length = 0;
		return block;
	}

	#append(bytes: Buffer, from: number, to: number): void {
		const length = this.#length + to - from;
		if (length > this.#bytes.length) {
			const bigger = Buffer.allocUnsafeSlow(Math.min(Math.max(length, 2 * this.#bytes.length), MAX_BLOCK));
			this.#bytes.copy(bigger, 0, 0, this.#length);
			this.#bytes = bigger;
		}
		bytes.copy(this.#bytes, this.#length, from, to);
		this.#length = length;
	}
}

const MAX_BLOCK = (1 + MAX_CONTINUATIONS) * MAX_FRAME_SIZE;
const NOTHING = Buffer.alloc(0);

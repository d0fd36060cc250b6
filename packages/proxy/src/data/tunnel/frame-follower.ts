/**
 * Follows the frames of one direction of a WebSocket (RFC 6455 section 5.2) by their heads only: payload is counted, never read.
 * This shows where a frame of ours may be inserted. Pure; reads may be cut anywhere.
 *
 * A head that the RFC forbids is still passed on, but the start of the next frame is then unknown. From there on, the largest possible
 * number of messages is counted. Otherwise one malformed frame would free a client from its pace.
 */
export class FrameFollower {
	/** A Close, or its head, has passed: no frame may follow it (section 5.5.1). */
	hasClosed = false;
	/** Frames that have begun. */
	frames = 0;
	/** The same without continuations of a message. */
	messages = 0;
	#isLost = false;
	/** Bytes that may still come of the last message counted since then. */
	#lostRest = 0;
	readonly #isMasked: boolean;
	readonly #reserved: number;
	/** Bytes of the current head that have arrived. */
	#headBytes = 0;
	/** Total bytes of the current head, as far as known. */
	#headLength = 2;
	/** Payload bytes still to come; within a head, the part of the length read so far. */
	#payload = 0;
	#isControl = false;
	/** Set after a fragment that does not end its message. */
	#isInMessage = false;

	/**
	 * @param isMasked frames are masked, as those of clients are (section 5.3).
	 * @param hasExtensions extensions may use the reserved bits.
	 */
	constructor(isMasked: boolean, hasExtensions: boolean) {
		this.#isMasked = isMasked;
		this.#reserved = hasExtensions ? 0 : RESERVED;
	}

	/** Whether all frames that have begun have passed completely. */
	get isBetweenFrames(): boolean {
		return !this.#isLost && this.#isAtHead();
	}

	#isAtHead(): boolean {
		return this.#headBytes === 0 && this.#payload === 0;
	}

	/** Frame boundaries are no longer known. */
	get isLost(): boolean {
		return this.#isLost;
	}

	/**
	 * @param maxMessages stop before the next message after so many more.
	 * @param toBoundary also stop at the first boundary after `from`.
	 * @returns the offset reached, mostly the end of the bytes.
	 */
	follow(bytes: Buffer, from = 0, maxMessages = Number.POSITIVE_INFINITY, toBoundary = false): number {
		const last = this.messages + maxMessages;
		let at = from;
		while (at < bytes.length) {
			if (this.#isLost) return at + this.#goOnLost(bytes.length - at, last - this.messages);
			if (this.#headBytes === 0 && this.#payload > 0) {
				const passed = Math.min(this.#payload, bytes.length - at);
				this.#payload -= passed;
				at += passed;
			} else {
				if (this.messages >= last && this.#headBytes === 0 && isMessage(bytes[at]!)) return at;
				at = this.#isShortHead(bytes, at) ? this.#shortHead(bytes, at) : this.#head(bytes, at);
			}
			if (toBoundary && this.#isAtHead()) return at;
		}
		return at;
	}

	/** @returns how many of the bytes belong to messages that may begin. */
	#goOnLost(bytes: number, messages: number): number {
		const passed = Math.min(bytes, this.#lostRest + messages * SHORTEST);
		const begun = Math.max(0, Math.ceil((passed - this.#lostRest) / SHORTEST));
		this.messages += begun;
		this.#lostRest += begun * SHORTEST - passed;
		return passed;
	}

	/** Whether a whole head of the shortest form begins here, as most do. */
	#isShortHead(bytes: Buffer, at: number): boolean {
		return this.#headBytes === 0 && at + 2 + MASK_BYTES <= bytes.length && (bytes[at + 1]! & LENGTH) < 126;
	}

	/** @returns the offset after it. */
	#shortHead(bytes: Buffer, at: number): number {
		this.#begin(bytes[at]!);
		if (this.#isLost) return at + 1;
		this.#length(bytes[at + 1]!);
		return this.#isLost ? at + 2 : at + this.#headLength;
	}

	/** The next byte of a head. @returns the offset after it. */
	#head(bytes: Buffer, at: number): number {
		const byte = bytes[at]!;
		const place = this.#headBytes++;
		if (place === 0) this.#begin(byte);
		else if (place === 1) this.#length(byte);
		else if (place < this.#headLength - (this.#isMasked ? MASK_BYTES : 0)) {
			// 2^53 and more cannot be counted; 2^63 and more are invalid.
			this.#payload = this.#payload * 256 + byte;
			if (this.#payload > Number.MAX_SAFE_INTEGER) this.#lose();
		}
		// The payload follows the masking key.
		if (this.#headBytes === this.#headLength) this.#headBytes = 0;
		return at + 1;
	}

	#begin(byte: number): void {
		this.frames++;
		const opcode = byte & OPCODE;
		const isFinal = (byte & FIN) !== 0;
		this.#headLength = 2;
		if ((byte & this.#reserved) !== 0 || this.hasClosed) return this.#lose();
		if (opcode >= CLOSE) {
			if (opcode > PONG || !isFinal) return this.#lose();
			this.hasClosed = opcode === CLOSE;
		} else {
			// A message may begin only between messages, and continue only within one (section 5.4).
			if (opcode > BINARY || (opcode === CONTINUATION) !== this.#isInMessage) return this.#lose();
			this.#isInMessage = !isFinal;
		}
		if (isMessage(byte)) this.messages++;
		this.#isControl = opcode >= CLOSE;
	}

	#length(byte: number): void {
		const isMasked = (byte & MASK) !== 0;
		const length = byte & LENGTH;
		if (isMasked !== this.#isMasked || (this.#isControl && length > MAX_CONTROL)) return this.#lose();
		const extended = length === 126 ? 2 : length === 127 ? 8 : 0;
		this.#headLength = 2 + extended + (isMasked ? MASK_BYTES : 0);
		this.#payload = extended === 0 ? length : 0;
	}

	#lose(): void {
		this.#isLost = true;
	}
}

/** Whether the frame with this first byte is not a continuation. */
function isMessage(byte: number): boolean {
	return (byte & OPCODE) !== CONTINUATION;
}

const FIN = 0x80;
const RESERVED = 0x70;
const OPCODE = 0x0f;
const MASK = 0x80;
const LENGTH = 0x7f;
const MASK_BYTES = 4;
/** The shortest frame, bytes: no payload, and no mask, since some servers may not require one. */
const SHORTEST = 2;
/** Longest payload of a control frame, bytes (section 5.5). */
const MAX_CONTROL = 125;

const CONTINUATION = 0x0;
const BINARY = 0x2;
const CLOSE = 0x8;
const PONG = 0xa;

/**
 * Follows the frames of one direction of a WebSocket (RFC 6455 section 5.2) by their heads alone: payload is counted and never looked at.
 * So it is known where a frame of ours may stand between two others. Pure; reads may be cut anywhere.
 *
 * A head that the RFC has its reader refuse changes nothing of what is passed on. But where the next frame begins is not known any more:
 * from there on as many messages are counted as there could be at most. Otherwise one malformed frame would end the pace of a client.
 */
export class FrameFollower {
	/** A Close has passed, or its head: no frame may follow it (section 5.5.1). */
	hasClosed = false;
	/** Frames that have begun, apart from those that go on with a message. */
	messages = 0;
	#isLost = false;
	/** Of the last message that was counted since, bytes that may still come. */
	#lostRest = 0;
	readonly #isMasked: boolean;
	readonly #reserved: number;
	/** Bytes of the head at hand that have come. */
	#headBytes = 0;
	/** Bytes of the head at hand in all, as far as that is known. */
	#headLength = 2;
	/** Bytes of payload that are still to come; while a head comes, as far as its length has come. */
	#payload = 0;
	#isControl = false;
	/** Behind a fragment that is not the last one of its message. */
	#isInMessage = false;

	/**
	 * @param isMasked as frames of clients are (section 5.3).
	 * @param hasExtensions they may give the reserved bits a meaning.
	 */
	constructor(isMasked: boolean, hasExtensions: boolean) {
		this.#isMasked = isMasked;
		this.#reserved = hasExtensions ? 0 : RESERVED;
	}

	/** All frames that have begun have passed whole. */
	get isBetweenFrames(): boolean {
		return !this.#isLost && this.#isAtHead;
	}

	get #isAtHead(): boolean {
		return this.#headBytes === 0 && this.#payload === 0;
	}

	/** Where frames begin is not known any more. */
	get isLost(): boolean {
		return this.#isLost;
	}

	/**
	 * @param maxMessages after so many more it stops in front of the next one.
	 * @param toBoundary it stops at the first boundary behind `from`, too.
	 * @returns how far it has come; all of the bytes, mostly.
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
				this.#head(bytes[at++]!);
			}
			if (toBoundary && this.#isAtHead) return at;
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

	/** The next byte of a head. */
	#head(byte: number): void {
		const place = this.#headBytes++;
		if (place === 0) this.#begin(byte);
		else if (place === 1) this.#length(byte);
		else if (place < this.#headLength - (this.#isMasked ? MASK_BYTES : 0)) {
			// 2^53 and more cannot be counted; 2^63 and more are no length.
			this.#payload = this.#payload * 256 + byte;
			if (this.#payload > Number.MAX_SAFE_INTEGER) this.#lose();
		}
		// The payload comes behind the key of its mask.
		if (this.#headBytes === this.#headLength) this.#headBytes = 0;
	}

	#begin(byte: number): void {
		const opcode = byte & OPCODE;
		const isFinal = (byte & FIN) !== 0;
		this.#headLength = 2;
		if ((byte & this.#reserved) !== 0 || this.hasClosed) return this.#lose();
		if (opcode >= CLOSE) {
			if (opcode > PONG || !isFinal) return this.#lose();
			this.hasClosed = opcode === CLOSE;
		} else {
			// A message begins where none is under way, and goes on where one is (section 5.4).
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

/** Whether the frame with this first byte is more than the rest of a message. */
function isMessage(byte: number): boolean {
	return (byte & OPCODE) !== CONTINUATION;
}

const FIN = 0x80;
const RESERVED = 0x70;
const OPCODE = 0x0f;
const MASK = 0x80;
const LENGTH = 0x7f;
const MASK_BYTES = 4;
/** Of a frame, bytes: without payload, and without the mask, which some servers may not insist on. */
const SHORTEST = 2;
/** Longest payload of a control frame, bytes (section 5.5). */
const MAX_CONTROL = 125;

const CONTINUATION = 0x0;
const BINARY = 0x2;
const CLOSE = 0x8;
const PONG = 0xa;

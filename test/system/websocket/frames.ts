/** WebSocket frames (RFC 6455 section 5.2), including invalid ones: encoded and decoded by hand. */

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

export interface Frame {
	readonly opcode: number;
	readonly payload: Buffer;
	readonly isFinal: boolean;
	/** The three reserved bits. */
	readonly reserved: number;
}

export type Payload = Buffer | string;

export function frame(opcode: number, payload: Payload = '', more: Partial<Frame> = {}): Frame {
	return { opcode, payload: Buffer.from(payload as string), isFinal: true, reserved: 0, ...more };
}

export const text = (payload: Payload): Frame => frame(OPCODE.text, payload);
export const binary = (payload: Payload): Frame => frame(OPCODE.binary, payload);
export const ping = (payload: Payload = ''): Frame => frame(OPCODE.ping, payload);
export const pong = (payload: Payload = ''): Frame => frame(OPCODE.pong, payload);

/** @param rest of its payload. */
export function close(code: number, rest: Payload = ''): Frame {
	return frame(OPCODE.close, Buffer.concat([Buffer.from([code >> 8, code & 0xff]), Buffer.from(rest as string)]));
}

/** A fragmented message. @param opcode of the first frame. */
export function fragments(opcode: number, ...payloads: readonly Payload[]): Frame[] {
	return payloads.map((payload, i) =>
		frame(i === 0 ? opcode : OPCODE.continuation, payload, { isFinal: i === payloads.length - 1 }),
	);
}

/** A client's mask; always the same, so that its bytes are the same. */
const MASK = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);

export function encode({ opcode, payload, isFinal, reserved }: Frame, isMasked: boolean): Buffer {
	const first = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode;
	const mask = isMasked ? 0x80 : 0;
	let head = Buffer.from([first, mask | payload.length]);
	if (payload.length > 0xffff) {
		head = Buffer.from([first, mask | 127, ...new Array(8)]);
		head.writeBigUInt64BE(BigInt(payload.length), 2);
	} else if (payload.length > 125) {
		head = Buffer.from([first, mask | 126, payload.length >> 8, payload.length & 0xff]);
	}
	return Buffer.concat(isMasked ? [head, MASK, unmasked(payload, MASK)] : [head, payload]);
}

function unmasked(payload: Buffer, key: Buffer): Buffer {
	return Buffer.from(payload.map((byte, i) => byte ^ key[i % 4]!));
}

/** Decodes valid encodings only: the programs under test send nothing else. */
export class FrameReader {
	/** Complete frames so far. */
	readonly frames: Frame[] = [];
	/** Everything received. */
	readonly all: Buffer[] = [];
	readonly #pieces: Buffer[] = [];
	#bytes = 0;
	/** Bytes needed for a complete frame. */
	#needed = 2;

	push(piece: Buffer): void {
		this.all.push(piece);
		this.#pieces.push(piece);
		this.#bytes += piece.length;
		while (this.#bytes >= this.#needed) {
			const all = Buffer.concat(this.#pieces.splice(0));
			this.#pieces.push(this.#read(all));
			this.#bytes = this.#pieces[0]!.length;
		}
	}

	get hasClose(): boolean {
		return this.frames.some(({ opcode }) => opcode === OPCODE.close);
	}

	/** The bytes of an incomplete frame. */
	get rest(): number {
		return this.#bytes;
	}

	/** @returns the incomplete rest, of which more is needed. */
	#read(bytes: Buffer): Buffer {
		const isMasked = (bytes[1]! & 0x80) !== 0;
		const short = bytes[1]! & 0x7f;
		const headLength = 2 + (short === 127 ? 8 : short === 126 ? 2 : 0) + (isMasked ? 4 : 0);
		this.#needed = headLength;
		if (bytes.length < this.#needed) return bytes;
		const length = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short;
		this.#needed = headLength + length;
		if (bytes.length < this.#needed) return bytes;
		const payload = bytes.subarray(headLength, this.#needed);
		this.frames.push({
			opcode: bytes[0]! & 0xf,
			isFinal: (bytes[0]! & 0x80) !== 0,
			reserved: (bytes[0]! >> 4) & 7,
			payload: isMasked ? unmasked(payload, bytes.subarray(headLength - 4, headLength)) : payload,
		});
		const rest = bytes.subarray(this.#needed);
		this.#needed = 2;
		return rest;
	}
}

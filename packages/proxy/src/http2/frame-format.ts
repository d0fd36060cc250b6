/** Serialization of frames (RFC 9113 sections 4 and 6). Strings are latin1: one character is one byte. */

/** RFC 9113 section 6. */
export const FRAME = {
	DATA: 0x0,
	HEADERS: 0x1,
	PRIORITY: 0x2,
	RST_STREAM: 0x3,
	SETTINGS: 0x4,
	PUSH_PROMISE: 0x5,
	PING: 0x6,
	GOAWAY: 0x7,
	WINDOW_UPDATE: 0x8,
	CONTINUATION: 0x9,
} as const;

export const FLAG = { END_STREAM: 0x1, ACK: 0x1, END_HEADERS: 0x4, PADDED: 0x8, PRIORITY: 0x20 } as const;

/** RFC 9113 section 7. */
export const CODE = {
	NO_ERROR: 0x0,
	PROTOCOL_ERROR: 0x1,
	INTERNAL_ERROR: 0x2,
	FLOW_CONTROL_ERROR: 0x3,
	SETTINGS_TIMEOUT: 0x4,
	STREAM_CLOSED: 0x5,
	FRAME_SIZE_ERROR: 0x6,
	REFUSED_STREAM: 0x7,
	CANCEL: 0x8,
	COMPRESSION_ERROR: 0x9,
	CONNECT_ERROR: 0xa,
	ENHANCE_YOUR_CALM: 0xb,
	INADEQUATE_SECURITY: 0xc,
	HTTP_1_1_REQUIRED: 0xd,
} as const;

/** RFC 9113 section 6.5.2, RFC 8441 section 3, RFC 9218 section 2.1. */
export const SETTING = {
	HEADER_TABLE_SIZE: 0x1,
	ENABLE_PUSH: 0x2,
	MAX_CONCURRENT_STREAMS: 0x3,
	INITIAL_WINDOW_SIZE: 0x4,
	MAX_FRAME_SIZE: 0x5,
	MAX_HEADER_LIST_SIZE: 0x6,
	ENABLE_CONNECT_PROTOCOL: 0x8,
	NO_RFC7540_PRIORITIES: 0x9,
} as const;

/** RFC 9113 section 3.4. */
export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

/** Bytes before a frame's payload. */
export const FRAME_HEAD = 9;
/** Largest payload that is sent and accepted: the initial value, which every peer must allow (RFC 9113 section 6.5.2). */
export const MAX_FRAME_SIZE = 16_384;
/** Initial size of every window (RFC 9113 section 6.9.2), bytes. */
export const INITIAL_WINDOW = 65_535;
/** RFC 9113 section 6.9.1. */
export const MAX_WINDOW = 0x7fffffff;
/** RFC 9113 section 5.1.1. */
export const MAX_STREAM_ID = 0x7fffffff;

/** The 9 bytes before a payload of `length` bytes. */
export function frameHead(length: number, type: number, flags: number, streamId: number): string {
	return String.fromCharCode(
		(length >>> 16) & 0xff,
		(length >>> 8) & 0xff,
		length & 0xff,
		type,
		flags,
		(streamId >>> 24) & 0x7f,
		(streamId >>> 16) & 0xff,
		(streamId >>> 8) & 0xff,
		streamId & 0xff,
	);
}

function uint32(value: number): string {
	return String.fromCharCode((value >>> 24) & 0xff, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

/** @param settings alternating identifiers and values. */
export function settingsFrame(settings: readonly number[]): string {
	let payload = '';
	for (let i = 0; i < settings.length; i += 2) {
		const id = settings[i]!;
		payload += String.fromCharCode(id >>> 8, id & 0xff) + uint32(settings[i + 1]!);
	}
	return frameHead(payload.length, FRAME.SETTINGS, 0, 0) + payload;
}

export const SETTINGS_ACK = frameHead(0, FRAME.SETTINGS, FLAG.ACK, 0);

/** @param opaque 8 bytes. */
export function pingFrame(opaque: string, ack: boolean): string {
	return frameHead(8, FRAME.PING, ack ? FLAG.ACK : 0, 0) + opaque;
}

export function goawayFrame(lastStreamId: number, code: number): string {
	return frameHead(8, FRAME.GOAWAY, 0, 0) + uint32(lastStreamId) + uint32(code);
}

export function rstStreamFrame(streamId: number, code: number): string {
	return frameHead(4, FRAME.RST_STREAM, 0, streamId) + uint32(code);
}

/** @param streamId 0 for the connection. */
export function windowUpdateFrame(streamId: number, increment: number): string {
	return frameHead(4, FRAME.WINDOW_UPDATE, 0, streamId) + uint32(increment);
}

/** A header block, cut into HEADERS and as many CONTINUATION frames as it needs (RFC 9113 section 6.10). */
export function headersFrames(streamId: number, block: string, endStream: boolean): string {
	const flags = endStream ? FLAG.END_STREAM : 0;
	if (block.length <= MAX_FRAME_SIZE) {
		return frameHead(block.length, FRAME.HEADERS, flags | FLAG.END_HEADERS, streamId) + block;
	}
	let frames = frameHead(MAX_FRAME_SIZE, FRAME.HEADERS, flags, streamId) + block.slice(0, MAX_FRAME_SIZE);
	for (let at = MAX_FRAME_SIZE; at < block.length; at += MAX_FRAME_SIZE) {
		const piece = block.slice(at, at + MAX_FRAME_SIZE);
		const isLast = at + MAX_FRAME_SIZE >= block.length;
		frames += frameHead(piece.length, FRAME.CONTINUATION, isLast ? FLAG.END_HEADERS : 0, streamId) + piece;
	}
	return frames;
}

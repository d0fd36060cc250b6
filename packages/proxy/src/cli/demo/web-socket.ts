/** The server side of the demo's subset of WebSocket (RFC 6455): texts of up to 125 bytes, and the Close. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { acceptOf } from '../../gates/web-socket.ts';

/** Answers each text message with its tenant and its text. */
export function serveWebSocket(name: string, { headers }: IncomingMessage, socket: Duplex, first: Buffer): void {
	socket.unshift(first);
	const accept = acceptOf(headers['sec-websocket-key'] ?? '');
	socket.write(
		`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
	);
	readFrames(socket, ({ opcode, payload }) => {
		if (opcode === CLOSE) socket.end(frame(CLOSE, payload));
		if (opcode !== TEXT) return;
		const text = Buffer.from(`${name} heard ${headers['x-proxy-tenant']}: ${payload}`);
		socket.write(frame(TEXT, text.subarray(0, MAX_SHORT)));
	});
	socket.on('end', () => socket.end());
}

interface Frame {
	readonly opcode: number;
	readonly payload: Buffer;
}

const TEXT = 0x1;
const CLOSE = 0x8;
const FINAL = 0x80;
const MASKED = 0x80;
/** Behind two bytes of header, and four of the mask. */
const PAYLOAD_AT = 6;
/** Longest payload with a one-byte length; the limit for control frames (section 5.5). */
const MAX_SHORT = 125;

function frame(opcode: number, payload: Buffer): Buffer {
	return Buffer.concat([Buffer.from([FINAL | opcode, payload.length]), payload]);
}

/** Frames of a client, which are masked (section 5.3). A longer or unmasked one ends the connection. */
function readFrames(socket: Duplex, onFrame: (frame: Frame) => void): void {
	let rest = Buffer.alloc(0);
	socket.on('error', () => {});
	socket.on('data', (bytes: Buffer) => {
		rest = Buffer.concat([rest, bytes]);
		while (rest.length >= 2) {
			const [first, second] = [rest[0]!, rest[1]!];
			const length = second & ~MASKED;
			if (second < MASKED || length > MAX_SHORT) return void socket.destroy();
			if (rest.length < PAYLOAD_AT + length) return;
			const mask = rest.subarray(2, PAYLOAD_AT);
			const payload = rest.subarray(PAYLOAD_AT, PAYLOAD_AT + length).map((byte, i) => byte ^ mask[i % mask.length]!);
			rest = rest.subarray(PAYLOAD_AT + length);
			onFrame({ opcode: first & 0x0f, payload: Buffer.from(payload) });
		}
	});
}

/** Client and server for the demo's subset of WebSocket (RFC 6455): texts of up to 125 bytes, and the Close. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Duplex } from 'node:stream';
import { acceptOf } from '../../gates/web-socket.ts';
import { type Credentials, connect } from './client.ts';

/** An open WebSocket. */
interface HeldWebSocket {
	/** @returns the upstream's reply to a text message. Rejects if the WebSocket ends first. */
	ask(text: string): Promise<string>;
	/** Resolves at its end, with the code of the Close; `undefined`: there was none. */
	readonly closed: Promise<number | undefined>;
	close(): void;
}

/** Opens a WebSocket over HTTP/1.1. Rejects unless the handshake is answered with 101 within 10 s. */
export async function openWebSocket(credentials: Credentials, path: string, token: string): Promise<HeldWebSocket> {
	const socket = await connect(credentials, 'http/1.1');
	const key = randomBytes(16).toString('base64');
	const headers = {
		...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': key },
		authorization: `Bearer ${token}`,
	};
	try {
		await new Promise<void>((resolve, reject) => {
			const request = httpsRequest({ createConnection: () => socket, host: 'localhost', path, headers });
			request.on('upgrade', ({ headers }, _socket, first) => {
				if (headers['sec-websocket-accept'] !== acceptOf(key)) reject(new Error('a wrong Sec-WebSocket-Accept'));
				socket.unshift(first);
				resolve();
			});
			request.on('response', ({ statusCode }) => reject(new Error(`${statusCode}`)));
			request.on('error', reject).end();
		});
	} catch (error) {
		socket.destroy();
		throw error;
	}
	// From here on it may be silent.
	socket.setTimeout(0);
	return held(socket);
}

function held(socket: Duplex): HeldWebSocket {
	let code: number | undefined;
	let onText: ((text: string) => void) | undefined;
	readFrames(socket, ({ opcode, payload }) => {
		if (opcode === TEXT) onText?.(payload.toString());
		if (opcode !== CLOSE) return;
		if (payload.length >= 2) code = payload.readUInt16BE();
		socket.end(frame(CLOSE, payload, true));
	});
	const closed = new Promise<number | undefined>((resolve) => {
		socket.once('close', () => resolve(code));
	});
	const ask = (text: string) =>
		new Promise<string>((resolve, reject) => {
			onText = resolve;
			void closed.then(() => reject(new Error('the WebSocket has ended')));
			socket.write(frame(TEXT, Buffer.from(text), true));
		});
	return { ask, closed, close: () => socket.destroy() };
}

/** The upstream's side: answers each text message with its tenant and its text. */
export function serveWebSocket(name: string, { headers }: IncomingMessage, socket: Duplex, first: Buffer): void {
	socket.unshift(first);
	const accept = acceptOf(headers['sec-websocket-key'] ?? '');
	socket.write(
		`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
	);
	readFrames(socket, ({ opcode, payload }) => {
		if (opcode === CLOSE) socket.end(frame(CLOSE, payload, false));
		if (opcode !== TEXT) return;
		const text = Buffer.from(`${name} heard ${headers['x-proxy-tenant']}: ${payload}`);
		socket.write(frame(TEXT, text.subarray(0, MAX_SHORT), false));
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
const MASK_BYTES = 4;
/** Longest payload with a one-byte length; the limit for control frames (section 5.5). */
const MAX_SHORT = 125;

/** @param isClient frames of clients are masked (section 5.3). */
function frame(opcode: number, payload: Buffer, isClient: boolean): Buffer {
	if (!isClient) return Buffer.concat([Buffer.from([FINAL | opcode, payload.length]), payload]);
	const mask = randomBytes(MASK_BYTES);
	return Buffer.concat([Buffer.from([FINAL | opcode, MASKED | payload.length]), mask, masked(payload, mask)]);
}

/** Masks or unmasks a payload. */
function masked(payload: Buffer, mask: Buffer): Buffer {
	return Buffer.from(payload.map((byte, i) => byte ^ mask[i % MASK_BYTES]!));
}

/** A longer frame ends the connection. */
function readFrames(socket: Duplex, onFrame: (frame: Frame) => void): void {
	let rest = Buffer.alloc(0);
	socket.on('error', () => {});
	socket.on('data', (bytes: Buffer) => {
		rest = Buffer.concat([rest, bytes]);
		while (rest.length >= 2) {
			const [first, second] = [rest[0]!, rest[1]!];
			const length = second & ~MASKED;
			const start = second < MASKED ? 2 : 2 + MASK_BYTES;
			if (length > MAX_SHORT) return void socket.destroy();
			if (rest.length < start + length) return;
			const payload = rest.subarray(start, start + length);
			const mask = rest.subarray(2, start);
			rest = rest.subarray(start + length);
			onFrame({ opcode: first & 0x0f, payload: mask.length === 0 ? payload : masked(payload, mask) });
		}
	});
}

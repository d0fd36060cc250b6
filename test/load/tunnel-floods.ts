/** Floods of clients through open WebSockets, as fast as the proxy reads. */
import { randomBytes } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { dataFrame, headersFrame, rstStreamFrame } from '../fixtures/h2-frames.ts';
import type { Attack, Attacker } from './attacks.ts';
import { type Pour, pours } from './floods.ts';

/** Paths of WebSockets, and of those whose pings get a pong. */
const PATH = '/tunnel';

/** A client's frame with a zero mask (RFC 6455 section 5.2). */
function frameOf(opcode: number, length: number): Buffer {
	return Buffer.concat([Buffer.of(0x80 | opcode, 0x80 | length, 0, 0, 0, 0), Buffer.alloc(length, 'x')]);
}

function many(bytes: Buffer, size = 65_536): Buffer {
	return Buffer.concat(new Array(Math.floor(size / bytes.length)).fill(bytes));
}

function handshake(token: string): string {
	return (
		`GET ${PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n` +
		`sec-websocket-key: ${randomBytes(16).toString('base64')}\r\nauthorization: Bearer ${token}\r\n\r\n`
	);
}

function connect(id: number, token: string): Buffer {
	const lines: [string, string][] = [
		[':method', 'CONNECT'],
		[':protocol', 'websocket'],
		[':scheme', 'https'],
		[':authority', 'localhost'],
		[':path', PATH],
		['sec-websocket-version', '13'],
		['authorization', `Bearer ${token}`],
	];
	return headersFrame(id, lines, { endStream: false });
}

/** WebSocket frames in one DATA frame, within the stream's window. */
const DATA_BYTES = 16_000;

/** An HTTP/1.1 connection with an open WebSocket; `undefined`: it could not be opened. */
async function openTunnel(attacker: Attacker, i: number): Promise<TLSSocket | undefined> {
	const socket = await attacker.connect('http/1.1');
	if (socket === undefined) return undefined;
	attacker.watchH1(socket);
	socket.write(handshake(attacker.token(i)));
	// Nothing may be sent before the response: that would not be a handshake.
	await new Promise((resolve) => socket.once('data', resolve).once('close', resolve));
	return socket;
}

const FRAMES: readonly { readonly name: string; readonly frame: Buffer }[] = [
	{ name: 'empty messages', frame: frameOf(2, 0) },
	{ name: 'messages of a byte', frame: frameOf(2, 1) },
	{ name: 'pings', frame: frameOf(9, 0) },
];

const FLOODS: readonly { readonly name: string; readonly pour: Pour }[] = FRAMES.flatMap(({ name, frame }) => [
	{
		name: `${name} in a WebSocket over h1`,
		pour: async (attacker: Attacker) => {
			const socket = await openTunnel(attacker, 0);
			if (socket === undefined) return undefined;
			const bytes = many(frame);
			const send = () => {
				if (socket.destroyed || !socket.writable) return;
				if (socket.write(bytes)) setImmediate(send);
				else socket.once('drain', () => setImmediate(send));
			};
			send();
			return socket;
		},
	},
	{
		name: `${name} in a WebSocket over h2`,
		pour: async (attacker: Attacker) => {
			const socket = await attacker.connectH2();
			if (socket === undefined) return undefined;
			socket.write(connect(1, attacker.token(0)));
			const bytes = dataFrame(1, many(frame, DATA_BYTES));
			const send = () => {
				if (socket.destroyed || !socket.writable) return;
				if (!attacker.mayUpload(socket, bytes.length - 9)) return void setTimeout(send, 1);
				if (socket.write(bytes)) setImmediate(send);
				else socket.once('drain', () => setImmediate(send));
			};
			// After the response to the handshake.
			setTimeout(send, 50);
			return socket;
		},
	},
]);

export const TUNNEL_FLOODS: readonly Attack[] = pours(FLOODS);

/** With a rate: opens, ends or holds WebSockets, and sends nothing through them. */
export const TUNNEL_ATTACKS: readonly Attack[] = [
	{
		name: 'half-closed WebSockets',
		rate: '200 of them, each half-closed as soon as it is open',
		rampMs: 3000,
		start: (attacker) => {
			let i = 0;
			return attacker.keep(200, 100, async () => {
				const socket = await openTunnel(attacker, i++);
				socket?.end();
				return socket;
			});
		},
	},
	{
		name: 'WebSocket handshakes without end',
		rate: '100 handshakes/s, each cut when it is answered',
		rampMs: 1500,
		start: (attacker) => {
			let i = 0;
			return attacker.keep(50, 100, async () => {
				const socket = await openTunnel(attacker, i++);
				socket?.destroy();
				return socket;
			});
		},
	},
	{
		name: 'WebSocket handshakes on one connection',
		rate: '400 extended CONNECTs/s on 4 connections, each reset when the next one is made',
		rampMs: 1500,
		start: (attacker) =>
			attacker.onStreams(100, (socket, id) => {
				socket.write(connect(id, attacker.token(id)));
				if (id > 2) socket.write(rstStreamFrame(id - 2));
			}),
	},
];

/**
 * Attackers with a valid certificate and, where stated, a valid token. Each has a rate that it never exceeds, so that a measurement shows
 * the proxy and can be repeated.
 */
import { randomBytes } from 'node:crypto';
import { connect as connectTcp, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import {
	continuationFrame,
	dataFrame,
	FrameReader,
	headersFrame,
	PREFACE,
	pingFrame,
	rstStreamFrame,
	SETTING,
	settingsAck,
	settingsFrame,
} from '../fixtures/h2-frames.ts';
import { connectTls } from '../fixtures/tls-client.ts';
import { type Credentials, pace, tlsOptions } from './attack-credentials.ts';

export interface Attack {
	readonly name: string;
	/** What the attack does, with its rate, for the table. */
	readonly rate: string;
	/** Time until the attack is at full rate, ms. */
	readonly rampMs: number;
	/** @returns a function that stops the attack and drops its connections. */
	start(attacker: Attacker): () => void;
}

/** The attacker: keeps a number of connections open and counts what they receive. */
export class Attacker {
	readonly credentials: Credentials;
	/** What the attackers received, by first line. */
	readonly seen = new Map<string, number>();
	readonly #sockets = new Map<TLSSocket, Socket>();
	readonly #windows = new WeakMap<TLSSocket, Windows>();
	/** Bytes sent on connections that are closed. */
	#sentBytes = 0;
	/** A connection in its handshake is reset after the handshake. */
	#hasLeft = false;

	constructor(credentials: Credentials) {
		this.credentials = credentials;
	}

	count(what: string): void {
		this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
	}

	token(i: number): string {
		return this.credentials.tokens[i % this.credentials.tokens.length]!;
	}

	/** Opens one connection. @returns `undefined` if that fails. */
	async connect(alpn: 'http/1.1' | 'h2'): Promise<TLSSocket | undefined> {
		const tcp = connectTcp({ host: '127.0.0.1', port: this.credentials.port });
		const options = tlsOptions(this.credentials, alpn);
		try {
			const socket = await connectTls(this.credentials, { ...options, tls: { ...options.tls, socket: tcp } });
			socket.on('error', () => {});
			this.#sockets.set(socket, tcp);
			if (this.#hasLeft) this.leave();
			socket.once('close', () => {
				this.#sockets.delete(socket);
				this.#sentBytes += socket.bytesWritten;
			});
			return socket;
		} catch {
			this.count('no connection');
			return undefined;
		}
	}

	/** Counts the statuses of HTTP/1.1 responses. */
	watchH1(socket: TLSSocket): void {
		socket.on('data', (bytes: Buffer) => {
			const status = /^HTTP\/1\.1 (\d{3})/.exec(bytes.toString('latin1', 0, 12))?.[1];
			if (status !== undefined) this.count(status);
		});
		socket.once('close', () => this.count('closed'));
	}

	/** Opens an HTTP/2 connection and sends the preface; reads frames and drops them. */
	async connectH2(settings: readonly (readonly [number, number])[] = []): Promise<TLSSocket | undefined> {
		const socket = await this.connect('h2');
		if (socket === undefined) return undefined;
		const frames = new FrameReader();
		const names = ['data', 'headers', '', 'reset', '', '', '', 'goaway'];
		const windows: Windows = { connection: 65_535, stream: 65_535 };
		this.#windows.set(socket, windows);
		socket.on('data', (bytes: Buffer) => {
			for (const { type, flags, streamId, payload } of frames.push(bytes)) {
				if (type === 8) windows[streamId === 0 ? 'connection' : 'stream'] += payload.readUInt32BE(0);
				if (type === 4 && !(flags & 1)) socket.write(settingsAck());
				if (type === 6 && !(flags & 1)) socket.write(pingFrame(payload, true));
				if (names[type]) this.count(names[type]);
			}
		});
		socket.once('close', () => this.count('closed'));
		socket.write(Buffer.concat([PREFACE, settingsFrame(settings)]));
		return socket;
	}

	/** Whether stream 1 may send this many bytes more; if so, they are taken from its windows (RFC 9113 section 5.2). */
	mayUpload(socket: TLSSocket, bytes: number): boolean {
		const windows = this.#windows.get(socket)!;
		if (Math.min(windows.connection, windows.stream) < bytes) return false;
		windows.connection -= bytes;
		windows.stream -= bytes;
		return true;
	}

	/** Keeps `count` connections open: `first` at once; the others, and replacements for closed ones, at most `perSecond` per second. */
	keep(count: number, perSecond: number, open: () => Promise<TLSSocket | undefined>, first = 0): () => void {
		let up = 0;
		const openOne = () => {
			if (up >= count) return;
			up++;
			void open().then((socket) => {
				if (socket === undefined) up--;
				else if (socket.destroyed) up--;
				else socket.once('close', () => up--);
			});
		};
		for (let i = 0; i < first; i++) openOne();
		return pace(perSecond, openOne);
	}

	/** Like `keep`; returns the open connections as well. @param hello first bytes of each. */
	hold(count: number, perSecond: number, alpn: 'http/1.1' | 'h2', hello?: (i: number) => string | Buffer) {
		const sockets = new Set<TLSSocket>();
		const stop = this.keep(count, perSecond, async () => {
			const socket = alpn === 'h2' ? await this.connectH2() : await this.connect(alpn);
			if (socket === undefined) return undefined;
			if (alpn === 'http/1.1') this.watchH1(socket);
			sockets.add(socket);
			socket.once('close', () => sockets.delete(socket));
			if (hello !== undefined) socket.write(hello(sockets.size));
			return socket;
		});
		return { sockets, stop };
	}

	/** Four HTTP/2 connections. Calls `act` on each at this rate with the next stream's identifier. */
	onStreams(perSecond: number, act: (socket: TLSSocket, id: number) => void): () => void {
		const streams = new Map<TLSSocket, number>();
		const stop = this.keep(4, 20, async () => {
			const socket = await this.connectH2();
			if (socket !== undefined) streams.set(socket, 1);
			socket?.once('close', () => streams.delete(socket));
			return socket;
		});
		const stopResets = pace(perSecond, () => {
			for (const [socket, id] of streams) {
				act(socket, id);
				streams.set(socket, id + 2);
			}
		});
		return both(stop, stopResets);
	}

	/** Bytes sent on all connections. */
	get sentBytes(): number {
		let sum = this.#sentBytes;
		for (const socket of this.#sockets.keys()) sum += socket.bytesWritten;
		return sum;
	}

	/** Resets all connections, so that the proxy reads nothing that is still in the kernel: it would be part of the next attack. */
	leave(): void {
		this.#hasLeft = true;
		for (const tcp of this.#sockets.values()) tcp.resetAndDestroy();
	}
}

/** Remaining windows of stream 1 and of its connection, bytes. */
interface Windows {
	connection: number;
	stream: number;
}

const MIB = 2 ** 20;

const RATED: readonly Omit<Attack, 'rampMs'>[] = [
	{
		name: 'rapid reset',
		rate: '2 000 streams/s opened and reset',
		start: (attacker) =>
			attacker.onStreams(500, (socket, id) => {
				socket.write(Buffer.concat([request(id, attacker.token(id)), rstStreamFrame(id)]));
			}),
	},
	{
		name: 'late reset',
		rate: '500 streams/s opened, and reset when the upstream has them',
		start: (attacker) =>
			attacker.onStreams(125, (socket, id) => {
				socket.write(request(id, attacker.token(id), '/slow'));
				if (id > 2) socket.write(rstStreamFrame(id - 2));
			}),
	},
	{
		name: 'slow heads',
		rate: '400 connections, a byte a second each',
		start: (attacker) => {
			const head = 'GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ';
			const { sockets, stop } = attacker.hold(400, 50, 'http/1.1', () => head);
			return both(stop, dripTo(sockets, 1));
		},
	},
	{
		name: 'slow bodies',
		rate: '200 uploads, a byte every 200 ms each',
		start: (attacker) => {
			const { sockets, stop } = attacker.hold(200, 50, 'http/1.1', (i) => h1Post(attacker.token(i), MIB));
			return both(stop, dripTo(sockets, 5));
		},
	},
	{
		name: 'zero windows',
		rate: '10 connections × 64 answers of 256 KiB, never taken',
		start: (attacker) => {
			return attacker.keep(10, 5, async () => {
				const socket = await attacker.connectH2([[SETTING.INITIAL_WINDOW_SIZE, 0]]);
				const requests = Array.from({ length: 64 }, (_, i) => request(2 * i + 1, attacker.token(i), '/big'));
				socket?.write(Buffer.concat(requests));
				return socket;
			});
		},
	},
	{
		name: 'handshake flood',
		rate: '100 handshakes/s, a third without a certificate',
		start: (attacker) => {
			let i = 0;
			return pace(100, () => {
				if (i++ % 3 > 0) return void attacker.connect('http/1.1').then((socket) => socket?.destroy());
				const options = { ...tlsOptions(attacker.credentials, 'h2'), cert: null };
				connectTls(attacker.credentials, options).then(
					(socket) => socket.destroy(),
					() => attacker.count('refused'),
				);
			});
		},
	},
	{
		name: 'connection flood',
		rate: '500 TCP connections/s, silent, held for 2 s',
		start: (attacker) => {
			return pace(500, () => {
				const socket = connectTcp({ host: '127.0.0.1', port: attacker.credentials.port });
				socket.on('error', () => attacker.count('error'));
				setTimeout(() => socket.destroy(), 2000);
			});
		},
	},
	{
		name: '8 MiB bodies',
		rate: '40 clients at once, 1 MiB/s each, never the last byte',
		start: (attacker) => {
			const uploads = new Set<() => void>();
			let i = 0;
			const stop = attacker.keep(40, 100, async () => {
				const h2 = i++ % 2 === 0;
				const socket = h2 ? await attacker.connectH2() : await attacker.connect('http/1.1');
				if (socket === undefined) return undefined;
				if (!h2) attacker.watchH1(socket);
				socket.write(h2 ? request(1, attacker.token(i), '/', 8 * MIB) : h1Post(attacker.token(i), 8 * MIB));
				let left = 8 * MIB - 1;
				const send = () => {
					const piece = PIECE.subarray(0, Math.min(left, PIECE.length));
					if (left === 0 || socket.writableNeedDrain) return;
					if (h2 && !attacker.mayUpload(socket, piece.length)) return;
					left -= piece.length;
					socket.write(h2 ? dataFrame(1, piece) : piece);
				};
				uploads.add(send);
				socket.once('close', () => uploads.delete(send));
				return socket;
			});
			const stopPieces = pace(MIB / PIECE.length, () => {
				for (const send of uploads) send();
			});
			return both(stop, stopPieces);
		},
	},
	{
		name: 'bad tokens',
		rate: '2 000 requests/s, each with another signature',
		start: (attacker) => {
			const { sockets, stop } = attacker.hold(20, 50, 'http/1.1');
			let i = 0;
			const stopRequests = pace(100, () => {
				for (const socket of sockets) {
					const [header, claims] = attacker.token(i++).split('.');
					const token = `${header}.${claims}.${randomBytes(256).toString('base64url')}`;
					socket.write(`GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`);
				}
			});
			return both(stop, stopRequests);
		},
	},
	{
		name: 'endless heads',
		rate: '500 CONTINUATION frames/s, 5 connections',
		start: (attacker) => {
			const head = headersFrame(1, [[':method', 'GET']], { endHeaders: false });
			const { sockets, stop } = attacker.hold(5, 20, 'h2', () => head);
			const stopFrames = pace(100, () => {
				for (const socket of sockets) socket.write(continuationFrame(1, [['x-more', 'x'.repeat(100)]], false));
			});
			return both(stop, stopFrames);
		},
	},
];

export const ATTACKS: readonly Attack[] = RATED.map((attack) => ({ ...attack, rampMs: 1500 }));

const PIECE = Buffer.alloc(16_384, 'attack ');

function request(id: number, token: string, path = '/', length?: number): Buffer {
	const lines: [string, string][] = [
		[':method', length === undefined ? 'GET' : 'POST'],
		[':path', path],
		[':scheme', 'https'],
		[':authority', 'localhost'],
		['authorization', `Bearer ${token}`],
	];
	if (length !== undefined) lines.push(['content-length', String(length)]);
	return headersFrame(id, lines, { endStream: length === undefined });
}

function h1Post(token: string, length: number): string {
	return `POST / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-length: ${length}\r\n\r\n`;
}

/** Sends a byte on each connection `perSecond` times per second, spread over time. */
function dripTo(sockets: ReadonlySet<TLSSocket>, perSecond: number): () => void {
	const turns = 100;
	let turn = 0;
	return pace(perSecond * turns, () => {
		let i = 0;
		for (const socket of sockets) if (i++ % turns === turn) socket.write('x');
		turn = (turn + 1) % turns;
	});
}

export function both(...stops: (() => void)[]): () => void {
	return () => {
		for (const stop of stops) stop();
	};
}

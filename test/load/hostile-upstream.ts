/**
 * Upstreams that flood the proxy, over HTTP/2 and HTTP/1.1. Health probes succeed. Any other request gets the current attack's bytes as fast as
 * the proxy reads, until the proxy ends the connection. The attacker's clients keep sending requests.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import {
	continuationFrame,
	dataFrame,
	FLAG,
	FRAME,
	FrameReader,
	frame,
	goawayFrame,
	headersFrame,
	PREFACE,
	pingFrame,
	rstStreamFrame,
	SETTING,
	settingsAck,
	settingsFrame,
	windowUpdateFrame,
} from '../fixtures/h2-frames.ts';
import { type Attack, type Attacker, both } from './attacks.ts';

/** Approximate size of a write, bytes. */
const CHUNK = 65_536;

interface ServerFlood {
	readonly name: string;
	/** Sent once, on the stream of the first request. */
	readonly begin?: (id: number) => Buffer;
	/** Sent again and again. */
	readonly chunk: (id: number) => Buffer;
	/** A new chunk each time. */
	readonly varies?: boolean;
	/** Each request has its own connection. */
	readonly spreads?: boolean;
	/** Over HTTP/1.1; `begin` comes first on each connection. */
	readonly isHttp1?: boolean;
	/** The chunk is a complete response, sent once per request. */
	readonly isWhole?: boolean;
}

const many = (bytes: Buffer) => Buffer.concat(new Array(Math.max(1, Math.floor(CHUNK / bytes.length))).fill(bytes));
const head = (id: number) => headersFrame(id, [[':status', '200']], { endStream: false });

/** HEADERS with `:status` 200 and the given fields. */
function block(id: number, fields: Buffer, flags: number = FLAG.END_HEADERS): Buffer {
	return frame(FRAME.HEADERS, flags, id, Buffer.concat([Buffer.of(0x88), fields]));
}

/** An entry of 3,900 bytes in the dynamic table, then `count` references to it. */
function bomb(id: number, count: number): Buffer {
	// A literal with indexing: name `x`, value of 3,900 bytes (a length of 127 and 3,773 more).
	const entry = Buffer.concat([Buffer.of(0x40, 1, 0x78, 0x7f, 0xbd, 0x1d), Buffer.alloc(3900, 'b')]);
	return block(id, Buffer.concat([entry, Buffer.alloc(count, 0xbe)]));
}

/** `count` new, distinct table entries, in trailers or interim responses. */
function thrash(id: number, count: number): Buffer {
	const noise = randomBytes(count * 2);
	const entries = Array.from({ length: count }, (_, i) =>
		Buffer.from([0x40, 4, 0x78, 0x2d, 97 + (noise[2 * i]! % 26), 97 + (noise[2 * i + 1]! % 26), 1, 49]),
	);
	// `:status` 103.
	const status = Buffer.from([0x08, 3, 0x31, 0x30, 0x33]);
	return frame(FRAME.HEADERS, FLAG.END_HEADERS, id, Buffer.concat([status, ...entries]));
}

/** A complete response with `bytes` of fields in its head or in its trailers. */
function http1Response(bytes: number, areTrailers: boolean): Buffer {
	const fields = Array.from({ length: bytes / 8 }, (_, i) => `x${String(i).padStart(4, '0')}:\r\n`).join('');
	const ends = areTrailers ? ['', `0\r\n${fields}`] : [fields, '0\r\n'];
	return Buffer.from(`${HTTP1_HEAD}${ends[0]}\r\n${ends[1]}\r\n`);
}

const HTTP1_HEAD = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n';
const TRAILERS = Array.from({ length: 250 }, (_, i): [string, string] => [`x-${i}`, 'y']);
const DATA_OF_A_BYTE = { begin: head, chunk: (id: number) => many(dataFrame(id, 'x')) };
const THRASHED = { chunk: (id: number) => thrash(id, 1_500), varies: true };

const FLOODS: readonly ServerFlood[] = [
	{ name: 'SETTINGS', chunk: () => many(settingsFrame()) },
	{
		name: 'SETTINGS that move every window',
		chunk: () =>
			many(
				Buffer.concat([
					settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 0]]),
					settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 65_535]]),
				]),
			),
	},
	{ name: 'PING', chunk: () => many(pingFrame()) },
	{ name: 'RST_STREAM', chunk: (id) => many(rstStreamFrame(id)) },
	{ name: 'GOAWAY', chunk: () => many(goawayFrame(2 ** 31 - 1)) },
	{ name: 'WINDOW_UPDATE of the connection', chunk: () => many(windowUpdateFrame(0, 1)) },
	{ name: 'WINDOW_UPDATE of a stream', chunk: (id) => many(windowUpdateFrame(id, 1)) },
	{
		name: 'PUSH_PROMISE',
		chunk: (id) => many(frame(FRAME.PUSH_PROMISE, FLAG.END_HEADERS, id, Buffer.of(0, 0, 0, 2, 0x82))),
	},
	{
		name: 'CONTINUATION',
		begin: (id) => headersFrame(id, [[':status', '200']], { endHeaders: false, endStream: false }),
		chunk: (id) => many(continuationFrame(id, [['x-more', 'x'.repeat(100)]], false)),
	},
	{
		name: 'empty CONTINUATION',
		begin: (id) => headersFrame(id, [[':status', '200']], { endHeaders: false, endStream: false }),
		chunk: (id) => many(frame(FRAME.CONTINUATION, 0, id)),
	},
	{
		name: 'trailers without end',
		begin: (id) => Buffer.concat([head(id), headersFrame(id, [['x-a', 'b']], { endHeaders: false })]),
		chunk: (id) => many(continuationFrame(id, [['x-more', 'x'.repeat(100)]], false)),
	},
	{
		name: 'trailers of 250 fields',
		isWhole: true,
		chunk: (id) => Buffer.concat([head(id), headersFrame(id, TRAILERS)]),
	},
	{ name: 'DATA of a byte', ...DATA_OF_A_BYTE },
	{ name: 'DATA of a byte, on many connections', ...DATA_OF_A_BYTE, spreads: true },
	{ name: 'empty DATA', begin: head, chunk: (id) => many(dataFrame(id)) },
	{
		name: 'DATA of nothing but padding',
		begin: head,
		chunk: (id) => many(frame(FRAME.DATA, FLAG.PADDED, id, Buffer.concat([Buffer.of(255), Buffer.alloc(255)]))),
	},
	{ name: 'interim responses', chunk: (id) => many(headersFrame(id, [[':status', '103']], { endStream: false })) },
	{ name: 'HPACK bombs', chunk: (id) => bomb(id, 12_000) },
	{ name: 'HPACK tables thrashed', ...THRASHED },
	{ name: 'HPACK tables thrashed, on many connections', ...THRASHED, spreads: true },
	{ name: 'small unknown frames', chunk: () => many(frame(0x42, 0, 0)) },
	{ name: 'large unknown frames', chunk: () => many(frame(0x42, 0, 0, Buffer.alloc(16_384))) },
	{
		name: 'answers, each with a reset and a ping',
		chunk: (id) => many(Buffer.concat([rstStreamFrame(id), pingFrame()])),
	},
	{
		name: 'HTTP/1.1 chunks of a byte',
		isHttp1: true,
		begin: () => Buffer.from(`${HTTP1_HEAD}\r\n`),
		chunk: () => many(Buffer.from('1\r\nx\r\n')),
	},
	{
		name: 'HTTP/1.1 interim responses',
		isHttp1: true,
		chunk: () => many(Buffer.from('HTTP/1.1 103 Early Hints\r\nx-a: 1\r\n\r\n')),
	},
	{ name: 'HTTP/1.1 long heads', isHttp1: true, isWhole: true, chunk: () => http1Response(60_000, false) },
	{ name: 'HTTP/1.1 heads of 2,040 fields', isHttp1: true, isWhole: true, chunk: () => http1Response(16_320, false) },
	{ name: 'HTTP/1.1 long trailers', isHttp1: true, isWhole: true, chunk: () => http1Response(15_000, true) },
	{
		name: 'HTTP/1.1 heads of a field at a time',
		isHttp1: true,
		begin: () => Buffer.from(HTTP1_HEAD),
		chunk: () => Buffer.from('x:\r\n'),
	},
];

/** One per process of the attackers. */
let flood: ServerFlood | undefined;
/** Approximate bytes sent by floods. */
let flooded = 0;

/** KiB since the last call. */
export function takeFlooded(): number {
	const kibibytes = Math.round(flooded / 1024);
	flooded = 0;
	return kibibytes;
}

/** Its server. @param onListening receives the port. */
export function serveHostile(protocol: 'h1' | 'h2', onListening: (port: number) => void): Server {
	const server = createServer({ noDelay: true }, (socket) => {
		if (protocol === 'h2') new HostileConnection(socket);
		else floodHttp1(socket);
	});
	server.listen(0, '127.0.0.1', () => onListening((server.address() as { port: number }).port));
	return server;
}

class HostileConnection {
	readonly #socket: Socket;
	#isFlooding = false;

	constructor(socket: Socket) {
		this.#socket = socket;
		const frames = new FrameReader();
		let preface = PREFACE.length;
		socket.on('error', () => {});
		socket.write(settingsFrame([[SETTING.MAX_CONCURRENT_STREAMS, flood?.spreads ? 1 : 100]]));
		socket.on('data', (bytes: Buffer) => {
			const behind = bytes.subarray(preface);
			preface = Math.max(0, preface - bytes.length);
			for (const { type, flags, streamId, payload } of frames.push(behind)) {
				if (type === FRAME.SETTINGS && (flags & FLAG.ACK) === 0) socket.write(settingsAck());
				if (type === FRAME.HEADERS) this.#onRequest(streamId, payload);
			}
		});
	}

	#onRequest(id: number, block: Buffer): void {
		if (flood === undefined || block.includes('/health')) {
			this.#socket.write(headersFrame(id, [[':status', '204']]));
		} else if (flood.isWhole) {
			const response = flood.chunk(id);
			flooded += response.length;
			this.#socket.write(response);
		} else if (!this.#isFlooding) {
			this.#isFlooding = true;
			pour(this.#socket, flood, id);
		}
	}
}

function floodHttp1(socket: Socket): void {
	let isFlooding = false;
	socket.on('error', () => {});
	socket.on('data', (bytes: Buffer) => {
		if (flood?.isHttp1 !== true || bytes.includes('/health')) {
			socket.write('HTTP/1.1 204 No Content\r\n\r\n');
		} else if (flood.isWhole) {
			const response = flood.chunk(0);
			flooded += response.length;
			socket.write(response);
		} else if (!isFlooding) {
			isFlooding = true;
			pour(socket, flood, 0);
		}
	});
}

function pour(socket: Socket, { begin, chunk, varies }: ServerFlood, id: number): void {
	const same = varies ? undefined : chunk(id);
	if (begin !== undefined) socket.write(begin(id));
	const send = () => {
		if (socket.destroyed || !socket.writable) return;
		const bytes = same ?? chunk(id);
		flooded += bytes.length;
		if (socket.write(bytes)) setImmediate(send);
		else socket.once('drain', () => setImmediate(send));
	};
	send();
}

/** Requests of the attacker's clients to the hostile upstream. */
const ASKED_PER_SECOND = 100;

export const UPSTREAM_FLOODS: readonly Attack[] = FLOODS.map((own) => ({
	name: `an upstream floods: ${own.name}`,
	rate: `as fast as it is read, ${ASKED_PER_SECOND} requests/s`,
	rampMs: 800,
	start: (attacker) => {
		flood = own;
		const stop = ask(attacker, own.isHttp1 ? '/hostile-http1' : '/hostile');
		return both(stop, () => {
			flood = undefined;
		});
	},
}));

function ask(attacker: Attacker, path: string): () => void {
	return attacker.onStreams(ASKED_PER_SECOND / 4, (socket, id) => {
		socket.write(
			headersFrame(id, [
				[':method', 'GET'],
				[':path', path],
				[':scheme', 'https'],
				[':authority', 'localhost'],
				['authorization', `Bearer ${attacker.token(id)}`],
			]),
		);
	});
}

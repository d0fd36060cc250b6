import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../../packages/gate/src/gates/rejection.ts';
import { MAX_DROPPED } from '../../../../packages/proxy/src/data/client/unwanted-body.ts';
import {
	continuationFrame,
	dataFrame,
	ERROR_CODE,
	FLAG,
	FRAME,
	frame,
	goawayFrame,
	headerBlock,
	headersFrame,
	PREFACE,
	pingFrame,
	priorityFrame,
	requestFields,
	rstStreamFrame,
	SETTING,
	settingsAck,
	settingsFrame,
	windowUpdateFrame,
} from '../../../fixtures/h2-frames.ts';
import { LIMITS, ProtocolPeer } from './fixtures/protocol-peer.ts';

type Lines = readonly (readonly [string, string])[];

const GET: Lines = requestFields('GET', '/a');
const POST: Lines = requestFields('POST', '/a');

const open = (id: number, lines = POST) => headersFrame(id, lines, { endStream: false });
const get = (id: number) => headersFrame(id, GET);
const uint32 = (value: number) => {
	const bytes = Buffer.alloc(4);
	bytes.writeUInt32BE(value);
	return bytes;
};
/** HEADERS with padding and priority as asked. */
function fullHeaders(id: number, { padding, dependency }: { padding?: number; dependency?: number }): Buffer {
	const flags = FLAG.END_HEADERS | FLAG.END_STREAM;
	const parts = [
		...(padding === undefined ? [] : [Buffer.of(padding)]),
		...(dependency === undefined ? [] : [uint32(dependency), Buffer.of(15)]),
		headerBlock(GET),
		Buffer.alloc(padding ?? 0),
	];
	const more = (padding === undefined ? 0 : FLAG.PADDED) | (dependency === undefined ? 0 : FLAG.PRIORITY);
	return frame(FRAME.HEADERS, flags | more, id, Buffer.concat(parts));
}
function padded(id: number, data: string, padding: number, endStream = false): Buffer {
	const bytes = dataFrame(id, Buffer.concat([Buffer.of(padding), Buffer.from(data), Buffer.alloc(padding)]), endStream);
	bytes[4]! |= FLAG.PADDED;
	return bytes;
}

/** A block of 250 fields that are new to the table. */
const newEntries = (i: number) =>
	Buffer.concat(
		Array.from({ length: 250 }, (_, j) =>
			Buffer.from(`\x40\x04x-${String.fromCharCode(97 + (i % 26), 97 + (j % 26))}\x01y`),
		),
	);

const { PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, STREAM_CLOSED, REFUSED_STREAM } = ERROR_CODE;
const { COMPRESSION_ERROR, ENHANCE_YOUR_CALM } = ERROR_CODE;
const END = (code: number) => `goaway ${code}`;
const RESET = (id: number, code: number) => `reset ${id} ${code}`;
const NOTHING = '';

/** Frames that a client sends after its preface, and the verdict on them, by section of RFC 9113. */
const CASES: Record<string, Record<string, [frames: Buffer[], outcome: string]>> = {
	'3.4 preface': {
		'SETTINGS, then an acknowledgement': [[settingsAck()], NOTHING],
	},
	'4.1 frame format': {
		'a stream identifier with its reserved bit set': [[withReservedBit(get(1))], NOTHING],
		'flags without meaning': [[withFlags(get(1), 0xd2), withFlags(pingFrame(), 0xfe)], NOTHING],
	},
	'4.2 frame size': {
		'DATA of 16,384 bytes': [[open(1), dataFrame(1, 'x'.repeat(16_384))], NOTHING],
		'DATA of 16,385 bytes': [[open(1), dataFrame(1, 'x'.repeat(16_385))], END(FRAME_SIZE_ERROR)],
		'HEADERS of 16,385 bytes': [[frame(FRAME.HEADERS, 4, 1, Buffer.alloc(16_385))], END(FRAME_SIZE_ERROR)],
		'an unknown frame of 16,385 bytes': [[frame(0x42, 0, 1, Buffer.alloc(16_385))], END(FRAME_SIZE_ERROR)],
	},
	'4.3 header blocks': {
		'a block that cannot be decoded': [
			[frame(FRAME.HEADERS, 5, 1, Buffer.of(0xff, 0xff, 0xff, 0xff))],
			END(COMPRESSION_ERROR),
		],
		'a block that cannot be decoded, on a stream that was reset': [
			[open(1), rstStreamFrame(1), frame(FRAME.HEADERS, 5, 1, Buffer.of(0xbf))],
			END(COMPRESSION_ERROR),
		],
	},
	'5.1 stream states': {
		'idle: DATA': [[dataFrame(1)], END(PROTOCOL_ERROR)],
		'idle: RST_STREAM': [[rstStreamFrame(1)], END(PROTOCOL_ERROR)],
		'idle: WINDOW_UPDATE': [[windowUpdateFrame(1, 1)], END(PROTOCOL_ERROR)],
		'idle: PRIORITY': [[priorityFrame(1)], NOTHING],
		'half-closed (remote): DATA': [[get(1), dataFrame(1, 'x')], RESET(1, STREAM_CLOSED)],
		'half-closed (remote): HEADERS': [[get(1), get(1)], RESET(1, STREAM_CLOSED)],
		'half-closed (remote): WINDOW_UPDATE and PRIORITY': [[get(1), windowUpdateFrame(1, 1), priorityFrame(1)], NOTHING],
		'closed by RST_STREAM: DATA': [[open(1), rstStreamFrame(1), dataFrame(1, 'x')], RESET(1, STREAM_CLOSED)],
		'closed by RST_STREAM: HEADERS': [[open(1), rstStreamFrame(1), get(1)], RESET(1, STREAM_CLOSED)],
		'closed by RST_STREAM: WINDOW_UPDATE, PRIORITY and RST_STREAM': [
			[open(1), rstStreamFrame(1), windowUpdateFrame(1, 1), priorityFrame(1), rstStreamFrame(1)],
			NOTHING,
		],
		'reset by us, with all kinds of frames still in flight': [
			[
				open(1),
				windowUpdateFrame(1, 0),
				dataFrame(1, 'x'),
				headersFrame(1, []),
				windowUpdateFrame(1, 1),
				rstStreamFrame(1),
			],
			RESET(1, PROTOCOL_ERROR),
		],
	},
	'5.1.1 stream identifiers': {
		'an even identifier': [[get(2)], END(PROTOCOL_ERROR)],
		'stream 0': [[get(0)], END(PROTOCOL_ERROR)],
		'an identifier lower than the last one': [[get(5), get(3)], END(PROTOCOL_ERROR)],
		'DATA on an identifier that was skipped': [[get(5), dataFrame(3, 'x')], END(STREAM_CLOSED)],
	},
	'5.1.2 concurrency': {
		'a stream too many, before the limit is acknowledged': [
			Array.from({ length: 9 }, (_, i) => get(1 + 2 * i)),
			RESET(17, REFUSED_STREAM),
		],
		'a stream too many, after the limit is acknowledged': [
			[settingsAck(), ...Array.from({ length: 9 }, (_, i) => get(1 + 2 * i))],
			END(PROTOCOL_ERROR),
		],
		'as many streams as allowed, and another one after a reset': [
			[settingsAck(), ...Array.from({ length: 8 }, (_, i) => get(1 + 2 * i)), rstStreamFrame(3), get(17)],
			NOTHING,
		],
	},
	'5.3 priority': {
		'HEADERS that depend on another stream': [[fullHeaders(1, { dependency: 3 })], NOTHING],
		'HEADERS that depend on themselves': [[fullHeaders(1, { dependency: 1 })], RESET(1, PROTOCOL_ERROR)],
		'HEADERS without the priority that they announce': [[frame(FRAME.HEADERS, 0x25, 1, 'abcd')], END(FRAME_SIZE_ERROR)],
		'PRIORITY on itself, open': [[open(1), priorityFrame(1, 1)], RESET(1, PROTOCOL_ERROR)],
		'PRIORITY on itself, closed': [[open(1), rstStreamFrame(1), priorityFrame(1, 1)], RESET(1, PROTOCOL_ERROR)],
		'PRIORITY on itself, idle': [[priorityFrame(1, 1)], END(PROTOCOL_ERROR)],
	},
	'5.5 extensions': {
		'a frame of an unknown type': [[frame(0x42, 0xff, 7, 'whatever'), get(1)], NOTHING],
		'a frame of an unknown type within a header block': [
			[headersFrame(1, GET, { endHeaders: false }), frame(0x42, 0, 0)],
			END(PROTOCOL_ERROR),
		],
	},
	'6.1 DATA': {
		'on stream 0': [[dataFrame(0, 'x')], END(PROTOCOL_ERROR)],
		'with padding': [[open(1), padded(1, 'abc', 200), padded(1, '', 0, true)], NOTHING],
		'with as much padding as payload': [
			[open(1), frame(FRAME.DATA, FLAG.PADDED, 1, Buffer.of(2, 0))],
			END(PROTOCOL_ERROR),
		],
		'padded without a pad length': [[open(1), frame(FRAME.DATA, FLAG.PADDED, 1)], END(FRAME_SIZE_ERROR)],
	},
	'6.2 HEADERS': {
		'with padding and priority': [[fullHeaders(1, { padding: 20, dependency: 0 })], NOTHING],
		'with as much padding as payload': [[frame(FRAME.HEADERS, 0xd, 1, Buffer.of(2, 0))], END(PROTOCOL_ERROR)],
		'padded without a pad length': [[frame(FRAME.HEADERS, 0xd, 1)], END(FRAME_SIZE_ERROR)],
		'followed by PING instead of CONTINUATION': [
			[headersFrame(1, GET, { endHeaders: false }), pingFrame()],
			END(PROTOCOL_ERROR),
		],
		'followed by DATA instead of CONTINUATION': [
			[headersFrame(1, GET, { endHeaders: false }), dataFrame(1, '')],
			END(PROTOCOL_ERROR),
		],
	},
	'6.3 PRIORITY': {
		'on stream 0': [[priorityFrame(0)], END(PROTOCOL_ERROR)],
		'of a wrong length': [[open(1), frame(FRAME.PRIORITY, 0, 1, 'four')], RESET(1, FRAME_SIZE_ERROR)],
		'of a wrong length, idle': [[frame(FRAME.PRIORITY, 0, 1, 'four')], END(FRAME_SIZE_ERROR)],
	},
	'6.4 RST_STREAM': {
		'on stream 0': [[rstStreamFrame(0)], END(PROTOCOL_ERROR)],
		'of a wrong length': [[get(1), frame(FRAME.RST_STREAM, 0, 1, 'odd')], END(FRAME_SIZE_ERROR)],
	},
	'6.5 SETTINGS': {
		'on a stream': [[frame(FRAME.SETTINGS, 0, 1)], END(PROTOCOL_ERROR)],
		'of a wrong length': [[frame(FRAME.SETTINGS, 0, 0, 'odd')], END(FRAME_SIZE_ERROR)],
		'an acknowledgement with a payload': [[frame(FRAME.SETTINGS, FLAG.ACK, 0, Buffer.alloc(6))], END(FRAME_SIZE_ERROR)],
		'a second acknowledgement': [[settingsAck(), settingsAck()], END(PROTOCOL_ERROR)],
		'ENABLE_PUSH of 2': [[settingsFrame([[SETTING.ENABLE_PUSH, 2]])], END(PROTOCOL_ERROR)],
		'ENABLE_CONNECT_PROTOCOL of 2 (RFC 8441 section 3)': [[settingsFrame([[0x8, 2]])], END(PROTOCOL_ERROR)],
		'NO_RFC7540_PRIORITIES of 2 (RFC 9218 section 2.1)': [[settingsFrame([[0x9, 2]])], END(PROTOCOL_ERROR)],
		'INITIAL_WINDOW_SIZE of 2^31': [[settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 2 ** 31]])], END(FLOW_CONTROL_ERROR)],
		'MAX_FRAME_SIZE of 16,383': [[settingsFrame([[SETTING.MAX_FRAME_SIZE, 16_383]])], END(PROTOCOL_ERROR)],
		'MAX_FRAME_SIZE of 2^24': [[settingsFrame([[SETTING.MAX_FRAME_SIZE, 2 ** 24]])], END(PROTOCOL_ERROR)],
		'an unknown setting': [[settingsFrame([[0x99, 0xffffffff]])], NOTHING],
	},
	'6.6 PUSH_PROMISE': {
		'from a client': [
			[frame(FRAME.PUSH_PROMISE, 4, 1, Buffer.concat([uint32(2), headerBlock(GET)]))],
			END(PROTOCOL_ERROR),
		],
	},
	'6.7 PING': {
		'on a stream': [[frame(FRAME.PING, 0, 1, Buffer.alloc(8))], END(PROTOCOL_ERROR)],
		'of a wrong length': [[frame(FRAME.PING, 0, 0, 'short')], END(FRAME_SIZE_ERROR)],
		'an acknowledgement that was not requested': [[pingFrame(Buffer.alloc(8), true)], NOTHING],
	},
	'6.8 GOAWAY': {
		'on a stream': [[frame(FRAME.GOAWAY, 0, 1, Buffer.alloc(8))], END(PROTOCOL_ERROR)],
		'of a wrong length': [[frame(FRAME.GOAWAY, 0, 0, Buffer.alloc(7))], END(FRAME_SIZE_ERROR)],
		'without an error': [[get(1), goawayFrame()], END(0)],
	},
	'6.9 WINDOW_UPDATE': {
		'of a wrong length': [[frame(FRAME.WINDOW_UPDATE, 0, 0, 'odd')], END(FRAME_SIZE_ERROR)],
		'of 0, connection': [[windowUpdateFrame(0, 0)], END(PROTOCOL_ERROR)],
		'of 0, stream': [[get(1), windowUpdateFrame(1, 0)], RESET(1, PROTOCOL_ERROR)],
		'beyond 2^31-1, connection': [[windowUpdateFrame(0, 0x7fffffff)], END(FLOW_CONTROL_ERROR)],
		'beyond 2^31-1, stream': [[get(1), windowUpdateFrame(1, 0x7fffffff)], RESET(1, FLOW_CONTROL_ERROR)],
		'up to 2^31-1': [
			[get(1), windowUpdateFrame(0, 0x7fffffff - 65_535), windowUpdateFrame(1, 0x7fffffff - 65_535)],
			NOTHING,
		],
	},
	'6.9.2 INITIAL_WINDOW_SIZE': {
		'that opens a window beyond 2^31-1': [
			[get(1), windowUpdateFrame(1, 0x7fff0000 - 65_535), settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 0x7fffffff]])],
			END(FLOW_CONTROL_ERROR),
		],
	},
	'6.10 CONTINUATION': {
		'without HEADERS': [[continuationFrame(1, GET)], END(PROTOCOL_ERROR)],
		'after a complete block': [[get(1), continuationFrame(1, [])], END(PROTOCOL_ERROR)],
		'of another stream': [[headersFrame(1, GET, { endHeaders: false }), continuationFrame(3, [])], END(PROTOCOL_ERROR)],
		'more than eight': [
			[
				headersFrame(1, GET, { endHeaders: false }),
				...Array.from({ length: 9 }, () => continuationFrame(1, [], false)),
			],
			END(ENHANCE_YOUR_CALM),
		],
	},
	'8.1 messages': {
		'trailers that do not end the stream': [
			[open(1), headersFrame(1, [['a', 'b']], { endStream: false })],
			RESET(1, PROTOCOL_ERROR),
		],
		'trailers with control data': [[open(1), headersFrame(1, [[':path', '/']])], RESET(1, PROTOCOL_ERROR)],
		'trailers with a name in upper case': [[open(1), headersFrame(1, [['A', 'b']])], RESET(1, PROTOCOL_ERROR)],
		'trailers with more fields than a head may have': [
			[
				open(1),
				headersFrame(
					1,
					Array.from({ length: 600 }, () => ['a', ''] as const),
				),
			],
			RESET(1, ENHANCE_YOUR_CALM),
		],
	},
	'8.1.1 content-length': {
		'more data than declared': [
			[open(1, [...POST, ['content-length', '3']]), dataFrame(1, 'four')],
			RESET(1, PROTOCOL_ERROR),
		],
		'less data than declared': [
			[open(1, [...POST, ['content-length', '3']]), dataFrame(1, 'ab', true)],
			RESET(1, PROTOCOL_ERROR),
		],
		'less data than declared, then trailers': [
			[open(1, [...POST, ['content-length', '3']]), dataFrame(1, 'ab'), headersFrame(1, [])],
			RESET(1, PROTOCOL_ERROR),
		],
		'data where a length of 0 is declared': [
			[open(1, [...POST, ['content-length', '0']]), dataFrame(1, 'a')],
			RESET(1, PROTOCOL_ERROR),
		],
		'no data where a length of 3 is declared': [
			[headersFrame(1, [...POST, ['content-length', '3']])],
			RESET(1, PROTOCOL_ERROR),
		],
		'as much data as declared, and padding': [
			[open(1, [...POST, ['content-length', '3']]), padded(1, 'abc', 9, true)],
			NOTHING,
		],
	},
};

function withReservedBit(bytes: Buffer): Buffer {
	bytes[5]! |= 0x80;
	return bytes;
}
function withFlags(bytes: Buffer, flags: number): Buffer {
	bytes[4]! |= flags & ~(FLAG.PADDED | FLAG.PRIORITY | FLAG.ACK);
	return bytes;
}

/** In the terms of RFC 9113 section 5.4. */
function verdictOf(outcome: string): string {
	if (outcome === NOTHING) return 'accepted';
	const name = Object.entries(ERROR_CODE).find(([, code]) => outcome.endsWith(` ${code}`))![0];
	return `${outcome.startsWith('goaway') ? 'connection' : 'stream'} error ${name}`;
}

for (const [section, cases] of Object.entries(CASES)) {
	describe(`RFC 9113 section ${section}`, () => {
		for (const [what, [frames, outcome]] of Object.entries(cases)) {
			it(`${what}: ${verdictOf(outcome)}`, () => {
				const peer = new ProtocolPeer().send(...frames);
				assert.equal(peer.outcome, outcome);
				// Other streams do not notice a stream error.
				if (outcome !== NOTHING && !outcome.startsWith('reset')) return;
				const hasRoom = peer.protocol.streams.size < LIMITS.maxConcurrentStreams;
				if (hasRoom) assert.ok(peer.send(get(1001)).streams.has(1001));
			});
		}
	});
}

describe('RFC 9113 section 3.4', () => {
	it('the server sends its SETTINGS first', () => {
		const peer = new ProtocolPeer(false);
		peer.flush();
		assert.deepEqual(
			peer.frames.map(({ type }) => type),
			[FRAME.SETTINGS, FRAME.WINDOW_UPDATE],
		);
	});

	it('a wrong preface ends the connection at its first wrong byte', () => {
		for (const bytes of ['G', 'PRI * HTTP/1', 'PRI * HTTP/2.0\r\n\r\nXM']) {
			const peer = new ProtocolPeer(false);
			for (const byte of Buffer.from(bytes)) peer.send(Buffer.of(byte));
			assert.equal(peer.outcome, END(PROTOCOL_ERROR), bytes);
			assert.equal(peer.error?.reason, 'preface');
		}
	});

	it('a first frame other than SETTINGS ends the connection', () => {
		for (const first of [pingFrame(), settingsAck(), get(1), dataFrame(1), frame(0x42, 0, 0)]) {
			assert.equal(new ProtocolPeer(false).send(PREFACE, first).outcome, END(PROTOCOL_ERROR));
		}
	});
});

describe('header fields of a request', () => {
	const changed = (name: string, value: string | undefined): Lines =>
		GET.flatMap((line) => (line[0] !== name ? [line] : value === undefined ? [] : [[name, value] as const]));
	const MALFORMED: Record<string, Lines[]> = {
		'8.2: an empty name, or a name that is not a token': [
			'',
			'a b',
			'a:b',
			'a\x00',
			'a\r\nb',
			'a\x7f',
			'a\x80',
			'(a)',
		].map((name) => [...GET, [name, 'x']]),
		'8.2: a name in upper case': [
			[...GET, ['X-A', 'x']],
			[...GET, ['aB', 'x']],
		],
		'8.2.1: CR, LF, NUL and other control characters': [0, 1, 8, 10, 13, 31, 127].map((code) => [
			...GET,
			['a', `x${String.fromCharCode(code)}y`],
		]),
		'8.2.2: fields of connections': [
			'connection',
			'keep-alive',
			'proxy-connection',
			'transfer-encoding',
			'upgrade',
		].map((name) => [...GET, [name, 'x']]),
		'8.2.2: TE other than trailers': [
			[...GET, ['te', 'gzip']],
			[...GET, ['te', 'trailers, gzip']],
			[...GET, ['te', '']],
		],
		'8.3: unknown control data, or that of responses': [':status', ':protocol', ':', ':Path', ':__proto__'].map(
			(name) => [[name, 'x'], ...GET],
		),
		'8.3: control data after fields': GET.map((line) => [...changed(line[0], undefined), ['a', 'b'], line]),
		'8.3.1: control data twice': GET.map((line) => [line, ...GET]),
		'8.3.1: control data that is missing': GET.map(([name]) => changed(name, undefined)),
		'8.3.1: a method that is not a token': ['', 'G T', 'G\r\n', 'G\x80'].map((value) => changed(':method', value)),
		'8.3.1: an invalid scheme': ['', '1a', 'a b', 'https:'].map((value) => changed(':scheme', value)),
		'8.3.1: an invalid path': ['', 'a', '*', '/a b', '/\x7f', 'http://a/'].map((value) => changed(':path', value)),
		'8.3.1: an invalid authority, or an authority with a user': ['', 'a b', 'a/b', 'me@a'].map((value) =>
			changed(':authority', value),
		),
		'8.5: CONNECT with a path': [changed(':method', 'CONNECT')],
		'RFC 9110 section 8.6: an invalid length, or two lengths': [
			...['', '+1', '-1', '1,1', '0x1', '1 '].map((value): Lines => [...GET, ['content-length', value]]),
			[...GET, ['content-length', '0'], ['content-length', '0']],
		],
		'RFC 9110 section 7.2: two hosts': [[...GET, ['host', 'localhost'], ['host', 'localhost']]],
	};
	for (const [what, heads] of Object.entries(MALFORMED)) {
		it(`a malformed request resets its stream: ${what}`, () => {
			for (const lines of heads) {
				const peer = new ProtocolPeer().send(headersFrame(1, lines), get(3));
				assert.equal(peer.outcome, RESET(1, PROTOCOL_ERROR), JSON.stringify(lines));
				assert.deepEqual([...peer.streams.keys()], [3]);
				assert.equal(peer.malformed.length, 1);
			}
		});
	}

	it('a malformed request is reported without bytes of the client', () => {
		for (const [what, lines] of [
			['malformed field name', [...GET, ['X-Secret', 'x']]],
			['control byte in a field value', [...GET, ['a', 'secret\n']]],
			['malformed te', [...GET, ['te', 'secret']]],
			['malformed content-length', [...GET, ['content-length', 'secret']]],
			['unknown control data', [[':secret', 'x'], ...GET]],
			['malformed :path', changed(':path', 'secret')],
		] as [string, Lines][]) {
			assert.deepEqual(new ProtocolPeer().send(headersFrame(1, lines)).malformed, [what]);
		}
	});

	it('well-formed header fields are accepted', () => {
		const heads: Lines[] = [
			[...GET, ['te', 'trailers']],
			[...GET, ['te', 'Trailers']],
			[...GET, ['a', '']],
			[...GET, ['a', 'x\ty']],
			[...GET, ['a', '\x80\xff']],
			[...GET, ["!#$%&'*+-.^_`|~09az", 'x']],
			[...GET, ['content-length', '0']],
			changed(':authority', undefined).concat([['host', 'localhost']]),
			[
				[':method', 'CONNECT'],
				[':authority', 'localhost:443'],
			],
			[[':method', 'OPTIONS'], [':path', '*'], ...GET.slice(2)],
			[...GET].reverse(),
		];
		for (const lines of heads) {
			const peer = new ProtocolPeer().send(headersFrame(1, lines));
			assert.equal(peer.outcome, NOTHING, JSON.stringify(lines));
			assert.equal(
				peer.streams.get(1)?.facts.declaredLength,
				lines.some(([name]) => name === 'content-length') ? 0 : -1,
			);
		}
	});

	it('a head of max_header_bytes passes in any number of CONTINUATION frames, and a larger one gets 431', () => {
		const limits = { ...LIMITS, maxHeaderBytes: 1_048_576 };
		const cut = (bytes: number): Buffer[] => {
			const block = Buffer.concat([
				headerBlock(GET),
				...Array.from({ length: Math.floor(bytes / 4000) }, (_, i) => headerBlock([[`x-${i}`, 'v'.repeat(3950)]])),
			]);
			const frames: Buffer[] = [];
			for (let at = 0; at < block.length; at += 16_384) {
				const flags = at + 16_384 >= block.length ? FLAG.END_HEADERS : 0;
				const type = at === 0 ? FRAME.HEADERS : FRAME.CONTINUATION;
				frames.push(frame(type, at === 0 ? flags | FLAG.END_STREAM : flags, 1, block.subarray(at, at + 16_384)));
			}
			return frames;
		};
		for (const [bytes, status] of [
			[200_000, undefined],
			[1_040_000, undefined],
			[1_100_000, 431],
		] as const) {
			const peer = new ProtocolPeer(true, limits).send(...cut(bytes));
			const { head } = peer.streams.get(1)!.facts;
			assert.deepEqual([peer.outcome, head instanceof Rejection ? head.status : undefined], [NOTHING, status]);
		}
		assert.equal(new ProtocolPeer(true, limits).send(...cut(1_400_000)).outcome, END(ENHANCE_YOUR_CALM));
	});

	it('a head with too many bytes gets 431, and one with too many fields a reset', () => {
		const long = new ProtocolPeer().send(
			headersFrame(1, [...GET, ['a', 'x'.repeat(16_000)]], { endHeaders: false }),
			continuationFrame(1, [['b', 'y'.repeat(400)]]),
		);
		assert.equal((long.streams.get(1)!.facts.head as { code?: string }).code, 'headers-too-large');
		const many = new ProtocolPeer().send(
			headersFrame(1, [...GET, ...Array.from({ length: 520 }, () => ['a', ''] as const)]),
		);
		assert.equal(many.outcome, RESET(1, ENHANCE_YOUR_CALM));
	});
});

describe('flow control', () => {
	it('keeps to the window of the stream, and goes on when it opens', () => {
		const peer = new ProtocolPeer().send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 10]]), get(1));
		const stream = peer.streams.get(1)!;
		assert.equal(stream.answer('x'.repeat(25)), false);
		peer.flush();
		assert.equal(peer.body(1).length, 10);
		peer.send(windowUpdateFrame(1, 14));
		assert.equal(peer.body(1).length, 24);
		assert.equal(stream.sent, false);
		peer.send(windowUpdateFrame(1, 1));
		assert.equal(peer.body(1), 'x'.repeat(25));
		assert.equal(stream.sent, true);
		assert.equal(peer.of(FRAME.DATA, 1).at(-1)!.flags & FLAG.END_STREAM, FLAG.END_STREAM);
	});

	it('keeps to the window of the connection, which its streams share frame by frame', () => {
		const peer = new ProtocolPeer().send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 1_000_000]]), get(1), get(3));
		for (const id of [1, 3]) peer.streams.get(id)!.answer(Buffer.alloc(200_000, 'x'));
		peer.flush();
		assert.equal(peer.body(1).length + peer.body(3).length, 65_535);
		peer.send(windowUpdateFrame(0, 4 * 16_384));
		assert.equal(peer.body(1).length + peer.body(3).length, 65_535 + 4 * 16_384);
		assert.ok(peer.body(3).length >= 2 * 16_384, 'the second stream gets its turn');
		peer.send(windowUpdateFrame(0, 1_000_000));
		assert.deepEqual([peer.body(1).length, peer.body(3).length], [200_000, 200_000]);
	});

	it('flow control of the connection leaves every stream its own window, whatever others hold', () => {
		const ids = Array.from({ length: LIMITS.maxConcurrentStreams }, (_, i) => 1 + 2 * i);
		const peer = new ProtocolPeer().send(...ids.map((id) => open(id)));
		const [first, ...others] = ids;
		const allowed = (id: number, from: number) =>
			peer.of(FRAME.WINDOW_UPDATE, id).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), from);
		let sent = 0;
		const upload = (id: number, bytes: number) => {
			peer.send(dataFrame(id, 'x'.repeat(bytes)));
			sent += bytes;
		};
		// One whose body is taken at once, as far as it goes without the connection's window being opened.
		const before = peer.of(FRAME.WINDOW_UPDATE, 0).length;
		while (sent < peer.protocol.streams.fullWindow / 2 - 16_384) upload(first!, 16_384);
		assert.equal(peer.of(FRAME.WINDOW_UPDATE, 0).length, before);
		const uploaded = sent;
		for (const id of others) {
			peer.streams.get(id)!.holds = true;
			for (const bytes of [16_384, 16_384, 16_384, 16_383]) upload(id, bytes);
		}
		assert.equal(peer.outcome, NOTHING);
		const room = allowed(0, 65_535) - sent;
		assert.ok(room >= allowed(first!, 65_535) - uploaded, `${room} bytes are left for the first stream`);
	});

	it('remembers no streams that have gone while they waited for the window of the connection', () => {
		const peer = new ProtocolPeer().send(get(1), windowUpdateFrame(1, 1_000_000));
		peer.streams.get(1)!.answer(Buffer.alloc(70_000));
		let asked = 0;
		for (let id = 3; id < 200; id += 2) {
			peer.send(get(id));
			const stream = peer.streams.get(id)!;
			stream.answer('hello');
			stream.sendFrame = () => {
				asked++;
				return false;
			};
			peer.send(rstStreamFrame(id));
		}
		peer.send(windowUpdateFrame(0, 100_000));
		assert.equal(peer.body(1).length, 70_000);
		assert.equal(asked, 0);
	});

	it('opens a wider window for a body that is taken at once, after its first half, and lets no more come than it says', () => {
		const peer = new ProtocolPeer().send(open(1));
		peer.streams.get(1)!.isTakenAtOnce = true;
		let allowed = 65_535;
		for (let sent = 0; sent < 1_000_000; sent += 16_000) {
			peer.send(dataFrame(1, 'x'.repeat(16_000)));
			allowed = peer.of(FRAME.WINDOW_UPDATE, 1).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 65_535);
			assert.ok(allowed - sent <= 262_144 + 16_000, `${allowed} allowed, ${sent} sent`);
		}
		assert.equal(peer.outcome, NOTHING);
		assert.ok(peer.of(FRAME.WINDOW_UPDATE, 1).length <= 1 + 1_000_000 / 131_072);
		const body = 'x'.repeat(16_000);
		const stream = peer.streams.get(1)!;
		stream.holds = true;
		while (stream.receiveWindow >= 16_000) peer.send(dataFrame(1, body));
		peer.send(dataFrame(1, body));
		assert.equal(peer.outcome, RESET(1, FLOW_CONTROL_ERROR));
	});

	it('sends lent bytes on their own stream only, copied if they cannot go out at once', () => {
		const length = fc.integer({ min: 1, max: 65_536 });
		const step = fc.record({ stream: fc.nat(2), length, window: fc.nat(100_000), resets: fc.nat(7) });
		fc.assert(
			fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
				const peer = new ProtocolPeer().send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 20_000]]));
				peer.send(...[1, 3, 5].map((id) => get(id)), windowUpdateFrame(0, 10_000_000));
				const expected = ['', '', ''];
				const view = Buffer.alloc(65_536);
				for (const [i, { stream: index, length, window, resets }] of steps.entries()) {
					const id = 1 + 2 * index;
					const stream = peer.streams.get(id)!;
					const mark = String.fromCharCode(97 + i);
					view.fill(mark, 0, length);
					stream.sendData(view.subarray(0, length), false, true);
					view.fill('#');
					if (!stream.gone) expected[index] += mark.repeat(length);
					peer.send(windowUpdateFrame(id, window + 1));
					if (resets === 0) peer.send(rstStreamFrame(id));
				}
				peer.flush();
				for (const [index, text] of expected.entries()) {
					const body = peer.body(1 + 2 * index);
					assert.ok(text.startsWith(body), 'bytes of another stream, or in another order');
				}
				for (const id of [1, 3, 5]) peer.send(windowUpdateFrame(id, 2_000_000));
				for (const [index, text] of expected.entries()) {
					if (!peer.streams.get(1 + 2 * index)!.gone) assert.ok(peer.body(1 + 2 * index) === text, 'bytes are missing');
				}
			}),
			{ numRuns: 100 },
		);
	});

	it('lets SETTINGS make windows negative (section 6.9.2)', () => {
		const peer = new ProtocolPeer().send(get(1));
		const stream = peer.streams.get(1)!;
		stream.sendHeaders('\x88', false);
		stream.sendData('x'.repeat(1000), false);
		peer.send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 0]]));
		assert.equal(stream.sendWindow, -1000);
		assert.equal(stream.sendData('abc', true), false);
		peer.send(windowUpdateFrame(1, 1000));
		assert.equal(peer.body(1), 'x'.repeat(1000));
		peer.send(windowUpdateFrame(1, 3));
		assert.equal(peer.body(1), `${'x'.repeat(1000)}abc`);
		// Frames of no length need no window (section 6.9.1).
		peer.send(get(3));
		peer.streams.get(3)!.sendHeaders('\x88', false);
		assert.equal(peer.streams.get(3)!.sendData('', true), true);
	});

	it('sends what is blocked by its socket when there is room again', () => {
		const peer = new ProtocolPeer().send(get(1));
		peer.protocol.output.isBlocked = true;
		const stream = peer.streams.get(1)!;
		assert.equal(stream.answer('short'), false);
		peer.flush();
		assert.equal(peer.body(1), '');
		peer.protocol.output.isBlocked = false;
		peer.protocol.output.pump();
		peer.flush();
		assert.equal(peer.body(1), 'short');
	});

	it('resets a stream whose client sends more than its window, and ends a connection whose client does', () => {
		const peer = new ProtocolPeer().send(open(1), open(3));
		peer.streams.get(1)!.holds = true;
		peer.send(...Array.from({ length: 4 }, () => dataFrame(1, 'x'.repeat(16_000))), dataFrame(1, 'x'.repeat(2000)));
		assert.equal(peer.outcome, RESET(1, FLOW_CONTROL_ERROR));
		assert.equal(peer.streams.get(1)!.gone, true);
		// What comes on a stream that is gone takes only of the connection's window.
		const one = new ProtocolPeer(true, { ...LIMITS, maxConcurrentStreams: 1 }).send(open(1), windowUpdateFrame(1, 0));
		one.send(...Array.from({ length: 4 }, () => dataFrame(1, 'x'.repeat(15_000))), open(3));
		one.streams.get(3)!.holds = true;
		one.send(...Array.from({ length: 4 }, () => dataFrame(3, 'x'.repeat(16_000))));
		assert.equal(one.outcome, RESET(1, PROTOCOL_ERROR));
		one.send(dataFrame(3, 'x'.repeat(16_000)));
		assert.equal(one.outcome, `${RESET(1, PROTOCOL_ERROR)}, ${END(FLOW_CONTROL_ERROR)}`);
	});

	it('opens windows again for bodies that are taken, with their padding, and the connection window for discarded ones', () => {
		const peer = new ProtocolPeer().send(open(1));
		const stream = peer.streams.get(1)!;
		for (let sent = 0; sent < 400_000; sent += 1001) peer.send(padded(1, 'x'.repeat(900), 100));
		assert.equal(peer.outcome, NOTHING);
		assert.equal(stream.held, 0);
		stream.holds = true;
		peer.send(dataFrame(1, 'x'.repeat(16_000)), dataFrame(1, 'x'.repeat(16_000)));
		assert.equal(stream.held, 32_000);
		peer.send(rstStreamFrame(1), open(3));
		peer.protocol.streams.reset(peer.streams.get(3)!, 0);
		// Ignored, but for the connection's window of 1 MB: otherwise the connection would come to a stop.
		for (let i = 0; i < 100; i++) peer.send(dataFrame(3, 'x'.repeat(16_384)));
		assert.equal(peer.error, undefined);
	});

	it('a stream that kept bytes back has room again once all of them are sent', () => {
		const peer = new ProtocolPeer().send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 0]]), get(1));
		const stream = peer.streams.get(1)!;
		stream.sendHeaders('\x88', false);
		assert.equal(stream.sendData(Buffer.alloc(100), false), false);
		for (let i = 0; i < 99; i++) peer.send(windowUpdateFrame(1, 1));
		assert.equal(stream.rooms, 0);
		peer.send(windowUpdateFrame(1, 1));
		assert.equal(stream.rooms, 1);
	});
});

describe('a response', () => {
	it('a response whose end follows at once has END_STREAM on its last DATA', () => {
		const peer = new ProtocolPeer().send(get(1), get(3));
		for (const id of [1, 3]) {
			const stream = peer.streams.get(id)!;
			stream.sendHeaders('\x88', false);
			stream.sendData('some', false);
			stream.sendData(Buffer.alloc(5000, 'x'), false);
			if (id === 3) peer.flush();
			stream.sendData('', true);
		}
		peer.flush();
		assert.deepEqual(
			[1, 3].map((id) =>
				peer.of(FRAME.DATA, id).map(({ payload, flags }) => [payload.length, flags & FLAG.END_STREAM]),
			),
			[
				[
					[4, 0],
					[5000, 1],
				],
				[
					[4, 0],
					[5000, 0],
					[0, 1],
				],
			],
		);
	});

	it('a response on a closed stream writes no frame', () => {
		const peer = new ProtocolPeer().send(open(1), rstStreamFrame(1));
		const before = peer.frames.length;
		const stream = peer.streams.get(1)!;
		stream.answer('late');
		peer.protocol.streams.reset(stream, 2);
		peer.flush();
		assert.equal(peer.frames.length, before);
		assert.equal(stream.gone, true);
	});

	it('a response head longer than a frame continues in CONTINUATION (section 6.10)', () => {
		const peer = new ProtocolPeer().send(get(1));
		peer.streams.get(1)!.sendHeaders('\x88'.repeat(40_000), true);
		peer.flush();
		const frames = peer.frames.filter(({ streamId }) => streamId === 1);
		assert.deepEqual(
			frames.map(({ type, flags, payload }) => [type, flags, payload.length]),
			[
				[FRAME.HEADERS, FLAG.END_STREAM, 16_384],
				[FRAME.CONTINUATION, 0, 16_384],
				[FRAME.CONTINUATION, FLAG.END_HEADERS, 7233],
			],
		);
	});
});

describe('a response before the end of its request (section 8.1)', () => {
	const PIECE = 'x'.repeat(16_000);
	function answered(...frames: Buffer[]): ProtocolPeer {
		const peer = new ProtocolPeer().send(open(1), ...frames);
		peer.streams.get(1)!.answer('no');
		peer.flush();
		return peer;
	}
	const windowOf = (peer: ProtocolPeer, id: number) =>
		peer.of(FRAME.WINDOW_UPDATE, id).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);
	/** As much as the windows allow. */
	function pour(peer: ProtocolPeer, bytes: number): void {
		for (let sent = 0; sent < bytes && peer.outcome === NOTHING; sent += PIECE.length) peer.send(dataFrame(1, PIECE));
	}

	it('ends our side, and drops the rest with both windows opened again, until the client ends its side', () => {
		const peer = answered();
		assert.equal(peer.of(FRAME.DATA, 1).at(-1)!.flags & FLAG.END_STREAM, FLAG.END_STREAM);
		pour(peer, 1_000_000);
		assert.ok(windowOf(peer, 1) > 900_000);
		assert.equal(peer.protocol.streams.size, 1);
		peer.send(dataFrame(1, 'end', true));
		const stream = peer.streams.get(1)!;
		assert.deepEqual([peer.outcome, peer.protocol.streams.size, stream.held], [NOTHING, 0, 0]);
		// The response was sent once, and the rest of the request is dropped.
		assert.deepEqual([stream.sent, stream.gone, stream.body, stream.ended], [true, false, '', false]);
		peer.send(dataFrame(1, 'behind the end'));
		assert.equal(peer.outcome, END(STREAM_CLOSED));
	});

	it('gives back what was held of the body, also if the response waits for the client to open a window', () => {
		const peer = new ProtocolPeer().send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 0]]), open(1));
		const stream = peer.streams.get(1)!;
		stream.holds = true;
		for (let i = 0; i < 4; i++) peer.send(dataFrame(1, PIECE));
		peer.protocol.streams.dropBody(stream);
		assert.deepEqual([stream.held, stream.answer('no')], [0, false]);
		peer.send(padded(1, 'x', 200));
		assert.deepEqual([stream.held, stream.body.length], [0, 4 * PIECE.length]);
		peer.send(windowUpdateFrame(1, 2), dataFrame(1, '', true));
		assert.deepEqual([peer.outcome, stream.sent, peer.protocol.streams.size], [NOTHING, true, 0]);
	});

	it('resets the stream without an error beyond the bytes of one body, and ignores what was on its way', () => {
		const peer = answered();
		pour(peer, 2 * MAX_DROPPED);
		assert.equal(peer.outcome, RESET(1, 0));
		assert.ok(windowOf(peer, 1) > 0.99 * MAX_DROPPED && windowOf(peer, 1) < 1.01 * MAX_DROPPED);
		assert.equal(peer.cuts.length, 1);
		peer.send(dataFrame(1, 'late'), dataFrame(1, 'late', true), get(3));
		assert.deepEqual([peer.outcome, peer.streams.has(3)], [RESET(1, 0), true]);
	});

	it('DATA on a stream that was reset is a flood beyond the window that it had', () => {
		const reset = (id: number) => [open(id), windowUpdateFrame(id, 0)];
		const peer = new ProtocolPeer().send(...reset(1));
		const piece = Buffer.alloc(16_383);
		const frame = dataFrame(1, piece);
		peer.send(frame, frame, frame, frame);
		let more = 0;
		for (; more < 1_000 && peer.error === undefined; more++) peer.send(frame);
		assert.equal(peer.error?.reason, 'control-flood');
		assert.ok(more > 100 && more < 200, `${more} frames`);
		// A window of each of many refused uploads is none.
		const honest = new ProtocolPeer();
		for (let id = 1; id < 1_600; id += 2) honest.send(...reset(id));
		for (let id = 1; id < 1_600; id += 2) honest.send(dataFrame(id, 'late'));
		for (let id = 1_401; id < 1_600; id += 2)
			honest.send(dataFrame(id, piece), dataFrame(id, piece), dataFrame(id, piece));
		assert.equal(honest.error, undefined);
	});

	it('counts padding like the body', () => {
		const peer = answered();
		for (let i = 0; i < 2 * MAX_DROPPED && peer.outcome === NOTHING; i += 4080) {
			peer.send(...Array.from({ length: 16 }, () => padded(1, 'x', 254)));
			peer.now += 10;
		}
		assert.equal(peer.outcome, RESET(1, 0));
	});

	it('resets streams that still send after the connection has used up the bytes for all of them, for a while', () => {
		const peer = new ProtocolPeer();
		const upload = (id: number) => {
			peer.send(open(id));
			peer.streams.get(id)!.answer('no');
			for (let sent = 0; sent < 16_000_000 && peer.of(FRAME.RST_STREAM, id).length === 0; sent += PIECE.length) {
				peer.send(dataFrame(id, PIECE));
			}
			if (peer.of(FRAME.RST_STREAM, id).length === 0) peer.send(dataFrame(id, '', true));
		};
		for (const id of [1, 3, 5, 7, 9, 11]) upload(id);
		assert.equal(peer.outcome, `${RESET(9, 0)}, ${RESET(11, 0)}`);
		peer.now += 10_000;
		upload(13);
		assert.equal(peer.of(FRAME.RST_STREAM, 13).length, 0);
	});

	it('resets a stream that sends nothing more, and after half a minute a stream that still sends', () => {
		const peer = answered();
		const { streams } = peer.protocol;
		assert.equal(streams.cutOverdue(), true);
		assert.deepEqual([streams.cutOverdue(), peer.cuts], [false, [0]]);
		peer.send(open(3));
		peer.streams.get(3)!.answer('no');
		let looks = 0;
		do peer.send(dataFrame(3, 'x'));
		while (++looks < 100 && streams.cutOverdue());
		peer.flush();
		assert.deepEqual([looks, peer.outcome], [15, `${RESET(1, 0)}, ${RESET(3, 0)}`]);
	});

	it('resets it after the second look in a drain, however much still comes', () => {
		const peer = answered();
		const { streams } = peer.protocol;
		streams.finish();
		peer.send(dataFrame(1, 'x'));
		assert.equal(streams.cutOverdue(), true);
		peer.send(dataFrame(1, 'x'));
		assert.deepEqual([streams.cutOverdue(), streams.size, peer.cuts], [false, 0, [2]]);
	});

	it('leaves a stream open to looks as long as its response is not out', () => {
		const peer = new ProtocolPeer().send(settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 0]]), open(1));
		const { streams } = peer.protocol;
		streams.dropBody(peer.streams.get(1)!);
		peer.streams.get(1)!.answer('no');
		for (let i = 0; i < 20; i++) assert.equal(streams.cutOverdue(), true);
		peer.send(rstStreamFrame(1));
		assert.deepEqual([peer.outcome, peer.streams.get(1)!.gone, streams.cutOverdue()], [NOTHING, true, false]);
	});

	it('resets by a client whose requests were refused are not a flood', () => {
		const peer = new ProtocolPeer();
		for (let id = 1; id < 6000; id += 2) {
			peer.send(open(id));
			peer.streams.get(id)!.answer('no');
			peer.send(rstStreamFrame(id));
			peer.now += 1;
		}
		assert.deepEqual([peer.outcome, peer.protocol.streams.size], [NOTHING, 0]);
	});

	it('takes the end of the rest on as many streams as are allowed at once', () => {
		const peer = new ProtocolPeer(true, { ...LIMITS, maxConcurrentStreams: 300 });
		const ids = Array.from({ length: 300 }, (_, i) => 1 + 2 * i);
		peer.send(...ids.map((id) => open(id)));
		for (const id of ids) peer.streams.get(id)!.answer('no');
		peer.send(...ids.map((id) => dataFrame(id, 'late', true)));
		assert.deepEqual([peer.outcome, peer.protocol.streams.size], [NOTHING, 0]);
	});

	it('holds up the end of the connection until the rest has come, but not its end with an error', () => {
		for (const isError of [false, true]) {
			const peer = answered();
			if (isError) peer.protocol.streams.closeAll();
			else peer.protocol.streams.finish();
			assert.deepEqual([peer.finished, peer.streams.get(1)!.gone], [0, false]);
			if (!isError) assert.equal(peer.send(dataFrame(1, 'end', true)).finished, 1);
		}
	});
});

describe('the end of a connection (section 6.8)', () => {
	it('comes with the last stream, also if that has the highest identifier there is', () => {
		const peer = new ProtocolPeer().send(get(0x7fffffff));
		peer.protocol.streams.finish();
		assert.equal(peer.finished, 0);
		peer.streams.get(0x7fffffff)!.answer('last');
		assert.equal(peer.finished, 1);
		peer.protocol.streams.finish();
		peer.flush();
		assert.equal(peer.of(FRAME.GOAWAY).length, 1);
	});

	it('comes in two steps, and streams that were on their way at the first are served', () => {
		const peer = new ProtocolPeer().send(get(1));
		peer.protocol.streams.announceEnd();
		peer.send(get(3));
		peer.protocol.streams.finish();
		peer.send(get(5), dataFrame(5, 'x'), rstStreamFrame(5), windowUpdateFrame(5, 1));
		const lasts = peer.of(FRAME.GOAWAY).map(({ payload }) => payload.readUInt32BE(0));
		assert.deepEqual(lasts, [0x7fffffff, 3]);
		assert.deepEqual([...peer.streams.keys()], [1, 3]);
		peer.streams.get(1)!.answer('1');
		assert.equal(peer.finished, 0);
		peer.streams.get(3)!.answer('3');
		assert.equal(peer.finished, 1);
		assert.equal(peer.error, undefined);
	});

	it('with an error ends the streams under way', () => {
		const peer = new ProtocolPeer().send(get(1), goawayFrame(0, ERROR_CODE.INTERNAL_ERROR));
		assert.equal(peer.error?.reason, 'client-error');
		assert.equal(peer.streams.get(1)!.gone, true);
	});
});

describe('a flood of', () => {
	const times = (count: number, make: (i: number) => Buffer) => Array.from({ length: count }, (_, i) => make(i));
	const FLOODS: Record<string, [frames: Buffer[], reason: string]> = {
		PING: [times(11_000, () => pingFrame()), 'control-flood'],
		'PING acknowledgements': [times(11_000, () => pingFrame(undefined, true)), 'control-flood'],
		SETTINGS: [times(1100, () => settingsFrame()), 'control-flood'],
		PRIORITY: [times(11_000, () => priorityFrame(1)), 'control-flood'],
		'WINDOW_UPDATE on the connection': [times(11_000, () => windowUpdateFrame(0, 1)), 'control-flood'],
		'WINDOW_UPDATE on a stream': [[get(1), ...times(11_000, () => windowUpdateFrame(1, 1))], 'control-flood'],
		'WINDOW_UPDATE on a closed stream': [
			[get(1), rstStreamFrame(1), ...times(11_000, () => windowUpdateFrame(1, 1))],
			'control-flood',
		],
		'unknown frames': [times(11_000, () => frame(0x42, 0, 0)), 'control-flood'],
		'empty DATA': [[open(1), ...times(3000, () => dataFrame(1))], 'control-flood'],
		'only padding': [[open(1), ...times(12_000, () => padded(1, '', 0))], 'control-flood'],
		'DATA of one byte': [[open(1), ...times(44_000, () => dataFrame(1, 'x'))], 'control-flood'],
		'streams that are reset': [
			times(1100, (i) => Buffer.concat([get(1 + 2 * i), rstStreamFrame(1 + 2 * i)])),
			'reset-flood',
		],
		'malformed requests': [times(1100, (i) => headersFrame(1 + 2 * i, [])), 'reset-flood'],
		'errors of streams that are open': [
			times(1100, (i) => Buffer.concat([open(1 + 2 * i), windowUpdateFrame(1 + 2 * i, 0)])),
			'reset-flood',
		],
		'frames on a stream that was reset': [
			[open(1), rstStreamFrame(1), ...times(1100, () => dataFrame(1, 'x'.repeat(300)))],
			'reset-flood',
		],
		'DATA of nothing but 255 bytes of padding': [[open(1), ...times(3000, () => padded(1, '', 255))], 'control-flood'],
		'HEADERS on a stream that we have reset': [
			[open(1), windowUpdateFrame(1, 0), ...times(12_000, () => frame(FRAME.HEADERS, FLAG.END_HEADERS, 1))],
			'control-flood',
		],
		'HEADERS behind our GOAWAY': [
			[get(1), goawayFrame(), ...times(12_000, () => frame(FRAME.HEADERS, FLAG.END_HEADERS, 3))],
			'control-flood',
		],
		'heads of 15,000 fields behind our GOAWAY': [
			[
				get(1),
				goawayFrame(),
				...times(50, () => frame(FRAME.HEADERS, FLAG.END_HEADERS, 3, Buffer.alloc(15_000, 0x90))),
			],
			'control-flood',
		],
		'heads that change the table, behind our GOAWAY': [
			[get(1), goawayFrame(), ...times(120, (i) => frame(FRAME.HEADERS, FLAG.END_HEADERS, 3, newEntries(i)))],
			'control-flood',
		],
		'large unknown frames': [times(200, () => frame(0x42, 0, 0, Buffer.alloc(16_384))), 'control-flood'],
		'DATA on a stream that we have reset': [
			[open(1), windowUpdateFrame(1, 0), ...times(45_000, () => dataFrame(1, 'x'.repeat(300)))],
			'control-flood',
		],
		'streams beyond the limit': [times(1200, (i) => get(1 + 2 * i)), 'reset-flood'],
	};
	for (const [what, [frames, reason]] of Object.entries(FLOODS)) {
		it(`${what} ends the connection`, () => {
			const peer = new ProtocolPeer().send(...frames);
			assert.equal(peer.outcome.split(', ').at(-1), END(ENHANCE_YOUR_CALM));
			assert.equal(peer.error?.reason, reason);
		});
	}

	it('fewer than 40,000 DATA frames of one byte do not end the connection', () => {
		const peer = new ProtocolPeer().send(open(1), ...times(39_900, () => dataFrame(1, 'x')));
		assert.equal(peer.error, undefined);
	});

	it('anything after the GOAWAY of an error is not decoded', () => {
		const peer = new ProtocolPeer().send(get(1), dataFrame(9));
		assert.equal(peer.outcome, END(PROTOCOL_ERROR));
		const { error } = peer;
		peer.send(get(3), frame(FRAME.HEADERS, 5, 5, Buffer.of(0xff, 0xff, 0xff, 0xff)), pingFrame());
		assert.equal(peer.error, error);
		assert.deepEqual([peer.streams.size, peer.outcome], [1, END(PROTOCOL_ERROR)]);
	});

	it('frames at the allowed rate do not end the connection', () => {
		const peer = new ProtocolPeer();
		for (let second = 0; second < 60; second++) {
			peer.now += 1000;
			peer.send(...times(1900, () => windowUpdateFrame(0, 1)));
			for (let i = 0; i < 49; i++) {
				const id = 1 + 2 * (second * 49 + i);
				peer.send(get(id), rstStreamFrame(id));
			}
		}
		assert.equal(peer.error, undefined);
	});

	it('window updates of a client that takes its responses do not end the connection', () => {
		const peer = new ProtocolPeer().send(get(1));
		const stream = peer.streams.get(1)!;
		stream.sendHeaders('\x88', false);
		const piece = Buffer.alloc(4096);
		for (let i = 0; i < 5_000; i++) {
			stream.sendData(piece, false);
			peer.send(windowUpdateFrame(0, 4096), windowUpdateFrame(1, 4096));
			peer.frames.length = 0;
		}
		assert.equal(peer.error, undefined);
	});
});

describe('a byte stream', () => {
	it('means the same wherever its reads end', () => {
		const huge: Lines = [...POST, ['x-a', 'a'.repeat(3000)], ['content-length', '5000']];
		const streams: Buffer[][] = [
			[get(1), open(3), padded(3, 'some', 7), dataFrame(3, 'x'.repeat(300), true), pingFrame(Buffer.from('12345678'))],
			[headersFrame(1, huge, { endStream: false }), dataFrame(1, 'y'.repeat(5000)), headersFrame(1, [['t', 'u']])],
			[
				headersFrame(1, GET, { endHeaders: false }),
				continuationFrame(1, [], false),
				continuationFrame(1, [['a', 'b']]),
			],
			[
				open(1),
				padded(1, '', 255),
				dataFrame(1),
				padded(1, '', 0, true),
				settingsFrame([[SETTING.INITIAL_WINDOW_SIZE, 7]]),
			],
			[get(1), dataFrame(1, 'on a half-closed stream'), get(3), rstStreamFrame(3), dataFrame(5, 'idle')],
			[get(1), frame(0x42, 0, 0, 'whatever'), goawayFrame(), get(3)],
		];
		const told = (peer: ProtocolPeer) => ({
			outcome: peer.outcome,
			pings: peer.of(FRAME.PING).map(({ payload }) => String(payload)),
			streams: [...peer.streams].map(([id, { facts, body, ended, gone }]) => [id, facts, body, ended, gone]),
		});
		for (const frames of streams) {
			const bytes = Buffer.concat([PREFACE, settingsFrame(), ...frames]);
			const whole = told(new ProtocolPeer(false).sendCut(bytes, []));
			const each = Array.from({ length: bytes.length - 1 }, (_, i) => i + 1);
			assert.deepEqual(told(new ProtocolPeer(false).sendCut(bytes, each)), whole, 'byte by byte');
			const cuts = fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 }), { maxLength: 12 });
			fc.assert(
				fc.property(cuts, (places) => {
					const cut = told(
						new ProtocolPeer(false).sendCut(
							bytes,
							places.sort((a, b) => a - b),
						),
					);
					assert.deepEqual(cut, whole);
				}),
				{ numRuns: 100 },
			);
		}
	});
});

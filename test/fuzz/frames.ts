/** What HTTP/2 clients send: valid requests on several concurrent streams, and all kinds of wrong frames. */
import { ERROR_CODE, FLAG, FRAME, PREFACE, SETTING } from '../fixtures/h2-frames.ts';
import { HpackWriter, huffmanLiteral, integer, type Part, stringLiteral } from './hpack.ts';
import type { Random } from './random.ts';
import { requestId, traceparent } from './requests.ts';
import type { Field } from './responses.ts';

export interface FrameSpec {
	readonly type: number;
	readonly flags: number;
	readonly stream: number;
	/** Latin1. */
	readonly payload: readonly Part[];
	/** The declared length, if it is not the true one. */
	readonly length?: number;
}

/** What one client sends on one connection. `{A}` and `{B}` are placeholders for the tokens of its two tenants. */
export interface FramesCase {
	readonly preface?: string;
	readonly frames: readonly FrameSpec[];
	/** Edits of the encoded bytes, one after the other. */
	readonly edits?: readonly { readonly at: number; readonly remove: number; readonly insert: string }[];
	/** Number of requests if all are valid: each gets a 200. */
	readonly valid?: number;
}

export const FRAME_KINDS = {
	valid: 4,
	series: 4,
	'odd pseudo-headers': 4,
	'odd fields': 4,
	'odd lengths': 3,
	'odd frames': 5,
	'odd settings': 2,
	'odd trailers': 2,
	'odd compression': 3,
	'many frames': 1,
	'many streams': 1,
	'late frames': 3,
	'frames shuffled': 4,
	'bytes mutated': 6,
	'mutated corpus': 6,
	'cut short': 2,
	garbage: 1,
} as const;

export type FrameKind = keyof typeof FRAME_KINDS;

/** The bytes on the wire, latin1. */
export function serialize(
	{ preface = PREFACE.toString('latin1'), frames, edits = [] }: FramesCase,
	tokens: readonly [string, string],
): string {
	const fill = (text: string) => text.replaceAll('{A}', tokens[0]).replaceAll('{B}', tokens[1]);
	const written = frames.map(({ type, flags, stream, payload, length }) => {
		const partOf = ({ literal, isCoded }: Exclude<Part, string>) =>
			isCoded ? huffmanLiteral(fill(literal)) : stringLiteral(fill(literal));
		const text = payload.map((part) => (typeof part === 'string' ? part : partOf(part))).join('');
		return uint(length ?? text.length, 3) + String.fromCharCode(type, flags) + uint(stream, 4) + text;
	});
	return edits.reduce((bytes, { at, remove, insert }) => {
		const place = at % (bytes.length + 1);
		return bytes.slice(0, place) + insert + bytes.slice(place + remove);
	}, preface + written.join(''));
}

/** @param corpus earlier cases to build on. */
export function oddFrames(random: Random, kind: FrameKind, corpus: readonly FramesCase[]): FramesCase {
	switch (kind) {
		case 'valid': {
			const requests = random.list(random.between(1, 6), () => plainRequest(random));
			return { frames: connection(random, requests), valid: requests.length };
		}
		case 'series': {
			const requests = series(random);
			return { frames: connection(random, requests), valid: requests.length };
		}
		case 'odd pseudo-headers':
			return { frames: connection(random, withOne(random, oddPseudo)) };
		case 'odd fields':
			return { frames: connection(random, withOne(random, oddField)) };
		case 'odd lengths':
			return { frames: connection(random, withOne(random, oddLength)) };
		case 'odd trailers':
			return { frames: connection(random, withOne(random, oddTrailers)) };
		case 'odd frames':
			return { frames: inserted(random, connection(random, some(random)), () => oddFrame(random)) };
		case 'odd settings':
			return { frames: inserted(random, connection(random, some(random)), () => oddSettings(random)) };
		case 'odd compression':
			return { frames: inserted(random, connection(random, some(random)), () => oddBlock(random)) };
		case 'many frames': {
			const one = random.pick(MANY);
			return {
				frames: inserted(random, connection(random, some(random)), () =>
					random.list(random.between(50, 400), () => one),
				),
			};
		}
		case 'many streams': {
			const requests = random.list(random.between(60, 80), () => plainRequest(random, 0));
			const frames = connection(random, requests);
			return { frames: random.chance(0.5) ? frames : frames.flatMap((frame) => reset(random, frame)) };
		}
		case 'late frames': {
			const requests = some(random);
			const late = random.list(random.between(1, 5), () => lateFrame(random, 1 + 2 * random.below(requests.length)));
			return { frames: [...connection(random, requests), ...late] };
		}
		case 'frames shuffled':
			return { frames: shuffledFrames(random, connection(random, some(random))) };
		case 'bytes mutated':
			return { frames: connection(random, some(random)), edits: edits(random) };
		case 'mutated corpus': {
			const { valid: _, ...base } = random.pick(corpus);
			const other = random.pick(corpus).frames;
			const spliced = [
				...base.frames.slice(0, random.between(1, base.frames.length)),
				...other.slice(random.below(other.length)),
			];
			const frames = random.chance(0.4)
				? shuffledFrames(random, random.chance(0.5) ? spliced : base.frames)
				: base.frames;
			return { ...base, frames, edits: [...(base.edits ?? []), ...(random.chance(0.7) ? edits(random) : [])] };
		}
		case 'cut short': {
			const frames = connection(random, some(random));
			return { frames, edits: [{ at: random.below(2500), remove: 100_000, insert: '' }] };
		}
		case 'garbage': {
			const preface = random.pick([
				'',
				random.bytes(24),
				'GET /fuzz/a HTTP/1.1\r\n\r\n',
				'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n',
			]);
			return { preface, frames: connection(random, some(random)) };
		}
	}
}

/** One request, as its frames describe it. */
interface RequestSpec {
	readonly fields: readonly Field[];
	readonly body: string;
	readonly trailers?: readonly Field[];
	/** The last frame lacks END_STREAM. */
	readonly endless?: boolean;
}

function some(random: Random): RequestSpec[] {
	return random.chance(0.3) ? series(random) : random.list(random.between(1, 4), () => plainRequest(random));
}

/**
 * Requests of one service: the same fields in the same order, most with unique values. What the proxy remembers of one request must never
 * become part of the next.
 */
function series(random: Random): RequestSpec[] {
	const first = plainRequest(random, 0);
	return [
		first,
		...random.list(random.between(1, 5), () => ({
			body: '',
			fields: first.fields.map(([name, value]): Field => [name, valueInSeries(random, name, value)]),
		})),
	];
}

function valueInSeries(random: Random, name: string, value: string): string {
	switch (name) {
		case ':path':
			return pathOf(random);
		case 'authorization':
			return tokenIn(random);
		case 'traceparent':
			return traceparent(random);
		case 'x-request-id':
			return requestId(random);
		default:
			return value;
	}
}

function pathOf(random: Random): string {
	return `/fuzz/p${random.text(random.below(8), 'abcXYZ01-._~')}${random.pick(['', '?q=/../', '/x'])}`;
}

function tokenIn(random: Random): string {
	return `Bearer {${random.pick(['A', 'B'])}}`;
}

function withOne(random: Random, change: (random: Random, request: RequestSpec) => RequestSpec): RequestSpec[] {
	const requests = some(random);
	const at = random.below(requests.length);
	return requests.with(at, change(random, requests[at]!));
}

function plainRequest(random: Random, longest = 300): RequestSpec {
	const method = random.pick(['GET', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH']);
	const pseudo: Field[] = [
		[':method', method],
		[':path', pathOf(random)],
		[':scheme', 'https'],
		[':authority', 'edge.test'],
	];
	const body = method === 'GET' || method === 'HEAD' ? '' : random.bytes(random.length(longest));
	const fields: Field[] = [
		['authorization', tokenIn(random)],
		['x-request-id', requestId(random)],
		['traceparent', traceparent(random)],
		...random.list(random.below(4), () => random.pick(PLAIN_FIELDS)),
		...(random.chance(0.1) ? [['host', 'edge.test'] as const] : []),
		...(body !== '' && random.chance(0.5) ? [['content-length', String(body.length)] as const] : []),
	];
	return { fields: [...shuffled(random, pseudo), ...shuffled(random, fields)], body };
}

const PLAIN_FIELDS: readonly Field[] = [
	['accept', '*/*'],
	['x-any', 'thing'],
	['x-any', 'other'],
	['cookie', 'a=1'],
	['cookie', 'b=2; c=3'],
	['user-agent', 'fuzz'],
	['x-empty', ''],
	['te', 'trailers'],
	['x-forwarded-for', '10.0.0.1'],
	['forwarded', 'for=10.0.0.1'],
	['x-proxy-tenant', 'victim'],
	['x_proxy_tenant', 'victim'],
	['x-obs', '\xe4\xff'],
	['__proto__', '1'],
	['constructor', '2'],
];

/** All frames of a connection: streams open in order, and their bodies are interleaved. */
function connection(random: Random, requests: readonly RequestSpec[]): FrameSpec[] {
	const writer = new HpackWriter(random);
	const frames: FrameSpec[] = [settings([])];
	const waiting = [...requests];
	const open: FrameSpec[][] = [];
	for (let stream = 1; waiting.length > 0 || open.length > 0; ) {
		if (random.chance(0.1)) frames.push(random.pick(HARMLESS));
		if (waiting.length > 0 && (open.length === 0 || random.chance(0.5))) {
			const request = waiting.shift()!;
			const ends = request.body === '' && request.trailers === undefined && request.endless !== true;
			frames.push(...headers(random, stream, writer.write(request.fields), ends));
			if (!ends) open.push(content(random, stream, request));
			stream += 2;
			continue;
		}
		const at = random.below(open.length);
		const next = open[at]!.shift();
		if (next !== undefined) frames.push(next);
		if (open[at]!.length === 0) open.splice(at, 1);
	}
	return frames;
}

export function content(random: Random, stream: number, { body, trailers, endless }: RequestSpec): FrameSpec[] {
	const pieces = random.cut(body, 3);
	if (pieces.length === 0 && trailers === undefined) pieces.push('');
	const frames = pieces.map((piece, i) => {
		const isLast = i === pieces.length - 1 && trailers === undefined && endless !== true;
		return padded(random, { type: FRAME.DATA, flags: isLast ? FLAG.END_STREAM : 0, stream, payload: [piece] });
	});
	// Encoded without the dynamic table: other blocks may come in between.
	const block = (fields: readonly Field[]) =>
		fields.flatMap(([name, value]) => ['\0', stringLiteral(name), stringLiteral(value)]);
	return trailers === undefined ? frames : [...frames, ...headers(random, stream, block(trailers), endless !== true)];
}

/** HEADERS, and CONTINUATION for the rest of a fragmented block. */
export function headers(random: Random, stream: number, block: readonly Part[], endStream: boolean): FrameSpec[] {
	const cut = random.chance(0.2) ? random.between(1, block.length) : block.length;
	const rest = block.slice(cut);
	const end = endStream ? FLAG.END_STREAM : 0;
	const first: FrameSpec = {
		type: FRAME.HEADERS,
		flags: end | (rest.length === 0 ? FLAG.END_HEADERS : 0),
		stream,
		payload: block.slice(0, cut),
	};
	const opening = random.chance(0.1) ? prioritized(random, first) : padded(random, first);
	if (rest.length === 0) return [opening];
	const middle = random.below(rest.length);
	return [
		opening,
		{ type: FRAME.CONTINUATION, flags: 0, stream, payload: rest.slice(0, middle) },
		{ type: FRAME.CONTINUATION, flags: FLAG.END_HEADERS, stream, payload: rest.slice(middle) },
	];
}

function padded(random: Random, frame: FrameSpec): FrameSpec {
	if (!random.chance(0.15)) return frame;
	const padding = random.below(20);
	const payload = [String.fromCharCode(padding), ...frame.payload, '\0'.repeat(padding)];
	return { ...frame, flags: frame.flags | FLAG.PADDED, payload };
}

function prioritized(random: Random, frame: FrameSpec): FrameSpec {
	const payload = [
		uint(frame.stream + random.pick([-1, 2, 40]), 4),
		String.fromCharCode(random.below(256)),
		...frame.payload,
	];
	return { ...frame, flags: frame.flags | FLAG.PRIORITY, payload };
}

export function settings(list: readonly (readonly [id: number, value: number])[]): FrameSpec {
	return {
		type: FRAME.SETTINGS,
		flags: 0,
		stream: 0,
		payload: [list.map(([id, value]) => uint(id, 2) + uint(value, 4)).join('')],
	};
}

const PING: FrameSpec = { type: FRAME.PING, flags: 0, stream: 0, payload: ['12345678'] };
const WINDOW: FrameSpec = { type: FRAME.WINDOW_UPDATE, flags: 0, stream: 0, payload: [uint(1000, 4)] };
export const HARMLESS: readonly FrameSpec[] = [
	PING,
	WINDOW,
	settings([]),
	{ type: FRAME.PRIORITY, flags: 0, stream: 99, payload: [`${uint(0, 4)}\x10`] },
	{ type: 0xbe, flags: 0xff, stream: 0, payload: ['unknown'] },
	{ type: 0xbe, flags: 0, stream: 5, payload: [] },
];

export const MANY: readonly FrameSpec[] = [
	PING,
	WINDOW,
	settings([]),
	settings([[SETTING.HEADER_TABLE_SIZE, 0]]),
	{ type: FRAME.PRIORITY, flags: 0, stream: 1, payload: [`${uint(0, 4)}\x10`] },
	{ type: FRAME.DATA, flags: 0, stream: 1, payload: [] },
	{ type: FRAME.DATA, flags: 0, stream: 1, payload: ['x'] },
	{ type: FRAME.WINDOW_UPDATE, flags: 0, stream: 1, payload: [uint(1, 4)] },
	{ type: FRAME.RST_STREAM, flags: 0, stream: 1, payload: [uint(ERROR_CODE.CANCEL, 4)] },
	{ type: FRAME.SETTINGS, flags: FLAG.ACK, stream: 0, payload: [] },
	{ type: FRAME.PING, flags: FLAG.ACK, stream: 0, payload: ['12345678'] },
];

function reset(random: Random, frame: FrameSpec): FrameSpec[] {
	if (frame.type !== FRAME.HEADERS || (frame.flags & FLAG.END_HEADERS) === 0 || random.chance(0.2)) return [frame];
	return [
		frame,
		{ type: FRAME.RST_STREAM, flags: 0, stream: frame.stream, payload: [uint(random.pick([0, 8, 7]), 4)] },
	];
}

function oddPseudo(random: Random, { fields, ...rest }: RequestSpec): RequestSpec {
	const changed = [...fields];
	const at = () => random.below(changed.length + 1);
	for (let changes = random.between(1, 2); changes > 0; changes--) {
		switch (random.below(5)) {
			case 0:
				changed.splice(at(), 0, random.pick(ODD_PSEUDO));
				break;
			case 1: {
				// Left out.
				const place = changed.findIndex(([name]) => name.startsWith(':'));
				changed.splice(Math.max(0, place), 1);
				break;
			}
			case 2: {
				// Too late.
				const place = changed.findIndex(([name]) => name.startsWith(':'));
				changed.push(...changed.splice(Math.max(0, place), 1));
				break;
			}
			default: {
				const [name, value] = random.pick(ODD_PSEUDO);
				const place = changed.findIndex(([other]) => other === name);
				if (place !== -1) changed[place] = [name, value];
			}
		}
	}
	return { ...rest, fields: changed };
}

const ODD_PSEUDO: readonly Field[] = [
	...[
		'',
		'*',
		'fuzz',
		'/fuzz/ x',
		'/fuzz/\r\nx: y',
		'/fuzz/\n',
		'/fuzz/\0',
		'/fuzz/\x80',
		'/fuzz/#a',
		'/fuzz/../victim',
		'/fuzz/%2e%2e/a',
	].map((path) => [':path', path] as const),
	...[
		'http://edge.test/fuzz/a',
		'//edge.test/fuzz',
		'/fuzz\\..\\a',
		'/fuzz/a HTTP/1.1\r\nx-proxy-tenant: victim\r\n\r\n',
		'/fuzz/\x7f',
		' /fuzz/a',
	].map((path) => [':path', path] as const),
	...[
		'',
		'get',
		'Get',
		'GET ',
		'GET\r\n',
		'G\0T',
		'CONNECT',
		'TRACE',
		'PRI',
		'GET /fuzz/x HTTP/1.1\r\nx:',
		'A'.repeat(40),
		'FOO',
		'G T',
	].map((method) => [':method', method] as const),
	...['', 'http', 'ftp', 'HTTPS', 'https\r\n', 'https ', 'wss', '\0'].map((scheme) => [':scheme', scheme] as const),
	...[
		'',
		'edge.test:',
		'edge.test/x',
		'u@edge.test',
		'edge test',
		'edge.test\r\nx: y',
		'victim',
		'EDGE.test',
		'[::1]',
		'a,b',
		'\x80',
	].map((name) => [':authority', name] as const),
	[':status', '200'],
	[':protocol', 'websocket'],
	[':unknown', 'x'],
	[':', 'x'],
	[':Path', '/fuzz/a'],
];

function oddField(random: Random, { fields, ...rest }: RequestSpec): RequestSpec {
	const changed = [...fields];
	for (let count = random.between(1, 3); count > 0; count--) {
		// After the pseudo-headers.
		changed.splice(random.between(4, changed.length), 0, random.pick(ODD_FIELDS));
	}
	if (random.chance(0.03)) for (let i = 0; i < 300; i++) changed.push([`x-${i}`, 'v']);
	if (random.chance(0.03)) changed.push(['x-long', 'v'.repeat(random.between(15_000, 40_000))]);
	return { ...rest, fields: changed };
}

export const ODD_FIELDS: readonly Field[] = [
	['connection', 'close'],
	['connection', 'x-proxy-tenant'],
	['transfer-encoding', 'chunked'],
	['keep-alive', 'timeout=5'],
	['proxy-connection', 'keep-alive'],
	['upgrade', 'websocket'],
	['upgrade', 'h2c'],
	['te', 'gzip'],
	['te', 'trailers, gzip'],
	['host', 'victim'],
	['host', ''],
	['authorization', 'Bearer {B}'],
	['authorization', 'Basic eA=='],
	['authorization', ''],
	['X-Upper', '1'],
	['x-proxy-tenant', 'victim'],
	['x-proxy-tenant', 'victim\r\nx-a: b'],
	['x_proxy-tenant', 'victim'],
	['x-a\r\nx-proxy-tenant: victim\r\nx-b', '1'],
	['x-a: b\r\nx-proxy-tenant', 'victim'],
	['x-a\n', '1'],
	['x-a\0', '1'],
	['x a', '1'],
	['x-a:', '1'],
	['x-\x80', '1'],
	['', '1'],
	['x-a', 'b\rc'],
	['x-a', 'b\nc'],
	['x-a', 'b\0c'],
	['x-a', ' b'],
	['x-a', 'b '],
	['x-a', '\tb\t'],
	['x-a', '\x7f'],
	['x-a', '\x01'],
	['expect', '100-continue'],
	['expect', '200-ok'],
	['http2-settings', 'AAMAAABkAAQCAAAAAAIAAAAA'],
	['trailer', 'x-proxy-tenant'],
	['content-length', '5'],
	['content-length', '0'],
	['content-length', '-1'],
	['content-length', '5, 5'],
	['content-length', '18446744073709551621'],
	['content_length', '5'],
	['transfer_encoding', 'chunked'],
	['cookie', ''],
	['cookie', 'a=1\r\nx-proxy-tenant: victim'],
];

function oddLength(random: Random, { fields, body }: RequestSpec): RequestSpec {
	const length = random.pick([
		body.length,
		body.length + 1,
		body.length - 1,
		0,
		5,
		100_000,
		'',
		'x',
		'5, 5',
		'+5',
		'05',
	]);
	const others = fields.filter(([name]) => name !== 'content-length');
	const lengths: Field[] = random.list(random.pick([1, 1, 2]), () => ['content-length', String(length)]);
	return {
		fields: [...others, ...lengths],
		body: random.chance(0.1) ? 'b'.repeat(random.between(15_000, 25_000)) : body,
	};
}

function oddTrailers(random: Random, request: RequestSpec): RequestSpec {
	const trailers = random.list(random.between(0, 3), () =>
		random.pick([...ODD_FIELDS, ...PLAIN_FIELDS, ...ODD_PSEUDO]),
	);
	return { ...request, trailers, endless: random.chance(0.2) };
}

export function oddFrame(random: Random): FrameSpec[] {
	const type = random.pick([...Object.values(FRAME), 0xa, 0x10, 0xff]);
	const stream = random.pick([0, 1, 1, 2, 3, 5, 7, 99, 0x7fffffff, 0x80000001]);
	const payload = random.pick([
		...['', '\0', '12345678', '1234', '123456789', uint(0, 4), uint(1, 4), uint(0x7fffffff, 4), uint(0xffffffff, 4)],
		...[
			'\xff',
			`\x05${'a'.repeat(3)}`,
			`\0${uint(1, 4)}\x10`,
			`${uint(3, 4)}\x82`,
			`${uint(0, 4)}${uint(0, 4)}debug`,
			'hello',
			'\x82\x84\x87',
		],
	]);
	const flags = random.pick([
		0,
		0,
		FLAG.END_STREAM,
		FLAG.END_HEADERS,
		FLAG.END_STREAM | FLAG.END_HEADERS,
		FLAG.PADDED,
		FLAG.PRIORITY,
		0xff,
	]);
	const frame: FrameSpec = { type, flags, stream, payload: [payload] };
	return [
		random.chance(0.15)
			? { ...frame, length: random.pick([0, 1, payload.length + 1, 16_384, 16_385, 0xffffff]) }
			: frame,
	];
}

/** On a stream whose request has ended. */
function lateFrame(random: Random, stream: number): FrameSpec {
	const flags = random.pick([0, FLAG.END_STREAM]);
	return random.pick([
		{ type: FRAME.DATA, flags, stream, payload: [random.pick(['', 'late', 'l'.repeat(3000)])] },
		{ type: FRAME.HEADERS, flags: flags | FLAG.END_HEADERS, stream, payload: ['\x00\x03x-a\x04late'] },
		{ type: FRAME.HEADERS, flags: FLAG.END_HEADERS, stream, payload: ['\x40\x03x-a\x04late\x20'] },
		{ type: FRAME.WINDOW_UPDATE, flags: 0, stream, payload: [uint(random.pick([0, 1, 0x7fffffff]), 4)] },
		{ type: FRAME.PRIORITY, flags: 0, stream, payload: [`${uint(random.pick([0, stream]), 4)}\x10`] },
		{ type: FRAME.RST_STREAM, flags: 0, stream, payload: [uint(ERROR_CODE.CANCEL, 4)] },
	]);
}

export function oddSettings(random: Random): FrameSpec[] {
	const values = [0, 1, 100, 4096, 16_383, 16_384, 65_535, 0x7fffffff, 0x80000000, 0xffffffff];
	const list = random.list(
		random.between(1, 4),
		() => [random.pick([0, 1, 2, 3, 4, 5, 6, 8, 9, 0xffff]), random.pick(values)] as const,
	);
	const frame = settings(list);
	return [
		random.chance(0.2) ? { ...frame, payload: [...frame.payload, random.pick(['\0', '\0\0\0', '12345'])] } : frame,
	];
}

/** @param good a valid block that does not use the dynamic table. */
export function oddBlock(random: Random, good = '\x82\x87\x84\x41\x04edge'): FrameSpec[] {
	const block = random.pick([
		...[
			'\x80',
			'\xff\xff\xff\xff\x7f',
			'\xff\xff\xff\xff\xff\xff\xff\x7f',
			'\xc5',
			'\xfe',
			'\x3f\xe1\x1f',
			'\x3f\xe1\xff\x7f',
			'\x20\x20',
			`${good}\x20`,
			'\x40',
		],
		...[
			'\x40\x05',
			'\x00\x81\xff\x00',
			'\x00\x84\xff\xff\xff\xff\x00',
			'\x00\x81\x00\x00',
			'\x7f',
			'\x0f',
			`${good}\x00\x01`,
			`${good}\x40\x03x-a\x7f\xff\x7f`,
		],
		...[
			`${good}${integer(62, 7, 0x80)}`,
			`${good}${integer(61, 7, 0x80)}`,
			good,
			'',
			`\x40\x01a\x7f\x80\x1f${'b'.repeat(200)}${'\xbe'.repeat(random.between(1, 3000))}`,
		],
	]);
	const flags = FLAG.END_HEADERS | (random.chance(0.7) ? FLAG.END_STREAM : 0);
	return [{ type: FRAME.HEADERS, flags, stream: random.pick([1, 3, 9, 11, 101]), payload: [block] }];
}

export function inserted(random: Random, frames: readonly FrameSpec[], make: () => readonly FrameSpec[]): FrameSpec[] {
	const changed = [...frames];
	for (let count = random.between(1, 2); count > 0; count--)
		changed.splice(random.between(1, changed.length), 0, ...make());
	return changed;
}

export function shuffledFrames(random: Random, frames: readonly FrameSpec[]): FrameSpec[] {
	const changed = [...frames];
	for (let count = random.between(1, 3); count > 0; count--) {
		const at = random.below(changed.length);
		const frame = changed[at]!;
		switch (random.below(6)) {
			case 0:
				changed.splice(at, 1);
				break;
			case 1:
				changed.splice(at, 0, frame);
				break;
			case 2:
				changed.splice(random.below(changed.length), 0, ...changed.splice(at, 1));
				break;
			case 3:
				changed[at] = { ...frame, stream: random.pick([0, 1, 2, 3, 5, 0x7fffffff]) };
				break;
			case 4:
				changed[at] = { ...frame, flags: frame.flags ^ (1 << random.below(8)) };
				break;
			default:
				changed[at] = { ...frame, type: random.below(11) };
		}
		if (changed.length === 0) changed.push(frame);
	}
	return changed;
}

export function edits(random: Random): { at: number; remove: number; insert: string }[] {
	return random.list(random.pick([1, 1, 2, 4]), () => ({
		at: random.below(3000),
		remove: random.pick([0, 1, 1, 1, 2, random.below(40)]),
		insert: random.pick(['', random.bytes(1), random.bytes(1), random.bytes(3), '\0', '\xff', '\r\n', '\x82']),
	}));
}

function shuffled<T>(random: Random, items: readonly T[]): T[] {
	return items
		.map((item) => ({ item, at: random.word() }))
		.sort((a, b) => a.at - b.at)
		.map(({ item }) => item);
}

/** Big-endian, as latin1 text. */
export function uint(value: number, bytes: number): string {
	return Array.from({ length: bytes }, (_, i) =>
		String.fromCharCode(Math.floor(value / 256 ** (bytes - 1 - i)) % 256),
	).join('');
}

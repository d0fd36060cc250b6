/** Responses of an upstream: valid ones with known content, and all kinds of wrong ones. */
import { FRAMING_WORDS, ODD_LINES, oddChunkLines, oddFramingField } from './framing.ts';
import { mutate } from './mutation.ts';
import type { Random } from './random.ts';

/** What arrives on a connection after one request. */
export interface ResponseCase {
	/** Method of the request. */
	readonly method: string;
	/** The upstream closes its side after the last byte. */
	readonly closes: boolean;
	/** Latin1. */
	readonly text: string;
}

export type Field = readonly [name: string, value: string];

export interface ValidResponse extends ResponseCase {
	readonly status: number;
	/** As in the head. */
	readonly fields: readonly Field[];
	readonly body: string;
	readonly trailers: readonly Field[];
}

export const RESPONSE_KINDS = {
	valid: 4,
	'odd head': 4,
	'odd framing': 4,
	'odd chunks': 4,
	'odd trailers': 2,
	mutated: 8,
	'mutated corpus': 8,
	'two in a row': 2,
	'at the limits': 1,
	garbage: 1,
} as const;

export type ResponseKind = keyof typeof RESPONSE_KINDS;

/** @param corpus earlier cases to build on. */
export function oddResponse(random: Random, kind: ResponseKind, corpus: readonly ResponseCase[]): ResponseCase {
	const valid = validResponse(random);
	const closes = random.chance(0.5);
	switch (kind) {
		case 'odd head':
			return { ...valid, closes, text: oddHead(random, valid.text) };
		case 'odd framing':
			return { ...valid, closes, text: oddFraming(random) };
		case 'odd chunks':
			return { ...valid, closes, text: oddChunks(random) };
		case 'odd trailers':
			return { ...valid, closes, text: oddTrailers(random) };
		case 'mutated':
			return { ...valid, closes, text: mutate(random, valid.text, WORDS, [validResponse(random).text]) };
		case 'mutated corpus': {
			const one = random.pick(corpus) ?? valid;
			const other = random.pick(corpus) ?? valid;
			return {
				...one,
				closes: random.chance(0.7) ? one.closes : closes,
				text: mutate(random, one.text, WORDS, [other.text]),
			};
		}
		case 'two in a row':
			return { ...valid, closes, text: valid.text + validResponse(random).text };
		case 'at the limits':
			return { ...valid, closes, text: atTheLimits(random) };
		case 'garbage':
			return {
				method: 'GET',
				closes,
				text: random.list(random.between(1, 12), () => random.pick([...WORDS, random.bytes(3)])).join(''),
			};
		case 'valid':
			return valid;
	}
}

/** A valid response (RFC 9112) in any of its forms. */
export function validResponse(random: Random): ValidResponse {
	const status = random.chance(0.15)
		? random.pick([204, 304])
		: random.pick([200, 200, 201, 206, 301, 404, 500, 502, 599]);
	const method = random.chance(0.1) ? 'HEAD' : random.pick(['GET', 'POST']);
	const interims = random.list(random.chance(0.2) ? random.between(1, 3) : 0, () => interim(random)).join('');
	const reason = random.pick([' OK', ' OK', ' ', '', ' Not so\tfine', ' \xe4']);
	const start = `${interims}HTTP/1.${random.chance(0.05) ? 0 : 1} ${status}${reason}\r\n`;
	const fields = plainFields(random);
	const bodiless = method === 'HEAD' || status === 204 || status === 304;
	const body = random.bytes(random.length(300));
	const at = random.below(fields.length + 1);
	const withField = (field: Field) => fields.toSpliced(at, 0, field);
	if (bodiless) {
		const announced: Field[] = random.pick([[], [['Content-Length', '5']], [['Transfer-Encoding', 'chunked']]]);
		// An HTTP/1.0 response has no transfer coding.
		const all = start.includes('HTTP/1.0') ? fields : fields.toSpliced(at, 0, ...announced);
		return {
			method,
			closes: false,
			status,
			fields: all,
			body: '',
			trailers: [],
			text: `${start}${lines(random, all)}\r\n`,
		};
	}
	switch (
		start.includes('HTTP/1.0 ') ? random.pick(['length', 'close']) : random.pick(['length', 'chunked', 'close'])
	) {
		case 'length': {
			const all = withField([random.anyCase('Content-Length'), String(body.length)]);
			const text = `${start}${lines(random, all)}\r\n${body}`;
			return { method, closes: false, status, fields: all, body, trailers: [], text };
		}
		case 'chunked': {
			const all = withField([random.anyCase('Transfer-Encoding'), random.anyCase('chunked')]);
			const trailers: Field[] = random.chance(0.2)
				? [
						['X-Sum', '1'],
						['x-b', ''],
					]
				: [];
			const text = `${start}${lines(random, all)}\r\n${chunks(random, body, trailers)}`;
			return { method, closes: false, status, fields: all, body, trailers, text };
		}
		default:
			return {
				method,
				closes: true,
				status,
				fields,
				body,
				trailers: [],
				text: `${start}${lines(random, fields)}\r\n${body}`,
			};
	}
}

function interim(random: Random): string {
	return `HTTP/1.1 ${random.pick([100, 102, 103])} Wait\r\n${lines(random, random.chance(0.5) ? [['link', '</a>']] : [])}\r\n`;
}

const TOKEN = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

function plainFields(random: Random): Field[] {
	return random
		.list(random.below(5), (): Field => {
			switch (random.below(6)) {
				case 0:
					return ['Connection', random.pick(['keep-alive', 'close', 'x-a', 'close, x-b', 'Keep-Alive, x-a', ''])];
				case 1:
					return ['Keep-Alive', random.pick(['timeout=5', 'timeout=5, max=100', 'max=9', ''])];
				case 2:
					return [
						random.pick(['x-a', 'X-B', 'Set-Cookie', 'content_length', 'Trailer', 'Upgrade']),
						random.pick(['1', '', 'a=b; c']),
					];
				case 3:
					return [random.pick(['date', 'server', 'etag', 'vary']), random.text(random.length(30), 'ab :,"=/\xe4')];
				default:
					// Not one that would change the framing: other generators do that.
					return [
						`x${random.text(random.below(10), TOKEN)}`,
						random.text(random.length(60), 'abc \t:;,=()"\\\x80\xff'),
					];
			}
		})
		.map(([name, value]) => [name, value.replace(/^[\t ]+|[\t ]+$/g, '')]);
}

function lines(random: Random, fields: readonly Field[]): string {
	return fields
		.map(
			([name, value]) =>
				`${name}:${random.pick(['', ' ', ' ', ' \t'])}${value}${random.pick(['', '', ' ', '\t '])}\r\n`,
		)
		.join('');
}

function chunks(random: Random, body: string, trailers: readonly Field[]): string {
	let text = '';
	for (const piece of random.cut(body, 4)) {
		const digits = random.anyCase(piece.length.toString(16)).padStart(random.pick([0, 0, 0, 4]), '0');
		text += `${digits}${random.pick(['', '', '', ';a', ';a=b', ';a="b c"'])}\r\n${piece}\r\n`;
	}
	return `${text}${random.pick(['0', '0', '000', '0;a'])}\r\n${lines(random, trailers)}\r\n`;
}

function oddHead(random: Random, text: string): string {
	const end = text.indexOf('\r\n') + 2;
	if (random.chance(0.5)) return `${random.pick(STATUS_LINES)}\r\n${text.slice(end)}`;
	return `${text.slice(0, end)}${random.pick(ODD_LINES)}\r\n${text.slice(end)}`;
}

const STATUS_LINES = [
	...[
		'HTTP/1.1 099 x',
		'HTTP/1.1 600 x',
		'HTTP/1.1 999 x',
		'HTTP/1.1 20 x',
		'HTTP/1.1 2000 x',
		'HTTP/1.1 2x0 x',
		'HTTP/1.1',
	],
	...[
		'HTTP/1.1  200 OK',
		'HTTP/1.1 200OK',
		'HTTP/1.1\t200 OK',
		'HTTP/1.1 +20 OK',
		' HTTP/1.1 200 OK',
		'HTTP/1.1 200 a\x00b',
	],
	...[
		'HTTP/1.2 200 OK',
		'HTTP/2.0 200 OK',
		'HTTP/3 200 OK',
		'HTTP/0.9 200 OK',
		'http/1.1 200 OK',
		'HTTP/01.1 200 OK',
		'HTTP/1.10 200 OK',
	],
	...[
		'ICY 200 OK',
		'RTSP/1.0 200 OK',
		'HTTP/1.1 200 a\rb',
		'HTTP/1.1 200 a\nb',
		'HTTP/1.1 200\t',
		'HTTP/1.1 200 \x7f',
		'',
		'GET / HTTP/1.1',
	],
	...[
		'HTTP/1.1 101 Switching Protocols',
		'HTTP/1.1 100 Continue',
		'HTTP/1.0 100 Continue',
		'HTTP/1.1 199 x',
		'HTTP/1.1 205 Reset',
	],
];

function oddFraming(random: Random): string {
	const fields = random.list(random.between(1, 3), () => oddFramingField(random));
	const version = random.chance(0.1) ? 'HTTP/1.0' : 'HTTP/1.1';
	const body = random.pick([
		'hello',
		'5\r\nhello\r\n0\r\n\r\n',
		'',
		'hellohello',
		'0\r\n\r\n',
		`5\r\nhello\r\n0\r\n\r\n${NEXT}`,
		`hello${NEXT}`,
	]);
	return `${version} ${random.pick([200, 200, 200, 204, 304, 101, 100])} OK\r\n${fields.join('')}\r\n${body}`;
}

const NEXT = 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad';

function oddChunks(random: Random): string {
	const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
	return `${head}${oddChunkLines(random)}${random.pick(['0\r\n\r\n', '0\r\n\r\n', '0\r\n', '0\n\n', '0\r\n\n', '0\n\r\n', '', '0', '0;\r\n\r\n', `0\r\n\r\n${NEXT}`])}`;
}

function oddTrailers(random: Random): string {
	const trailers = random.list(
		random.between(1, 3),
		() => `${random.chance(0.5) ? 'x-sum: 1' : random.pick(ODD_LINES)}\r\n`,
	);
	const framing = random.chance(0.2)
		? `${random.pick(['content-length: 0', 'transfer-encoding: chunked', 'transfer-encoding: gzip'])}\r\n`
		: '';
	return `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n${trailers.join('')}${framing}\r\n${random.pick(['', '', NEXT])}`;
}

/** Around the parser's limits: a head of 64 KiB, chunk extensions of 1 KiB, 32 interim responses. */
function atTheLimits(random: Random): string {
	const near = (limit: number) => limit + random.between(-8, 8);
	const head = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: ';
	switch (random.below(4)) {
		case 0:
			return `${head}${'a'.repeat(Math.max(0, near(65_536) - head.length))}\r\n\r\n`;
		case 1:
			return `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;${'a'.repeat(near(1024) - 1)}\r\nx\r\n0\r\n\r\n`;
		case 2:
			return `${'HTTP/1.1 103 x\r\n\r\n'.repeat(random.between(30, 34))}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n`;
		default:
			return `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ${'a'.repeat(near(65_536) - 7)}\r\n\r\n`;
	}
}

/** Fragments of responses, and text that does not belong there. */
const WORDS = [
	...FRAMING_WORDS,
	'HTTP/1.1 200 OK\r\n',
	'HTTP/1.1 100 Continue\r\n\r\n',
	'HTTP/1.1 103 x\r\n\r\n',
	'HTTP/1.0 200 OK\r\n',
	'HTTP/1.1 204 x\r\n\r\n',
	'Content-Length: 6\r\n',
	'Connection: keep-alive\r\n',
	'connection: upgrade\r\n',
	'x: y\r\n',
	'x:\r\n',
	' folded\r\n',
	'identity',
	'ffffffff',
	'100000000',
	'\xc2\xa0',
	'\x85',
	'\x0c',
	'\x1c',
	NEXT,
];

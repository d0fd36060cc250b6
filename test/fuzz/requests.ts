/** What HTTP/1.1 clients send: valid requests, one after the other, and all kinds of wrong ones. */
import { FRAMING_WORDS, ODD_LINES, oddChunkLines, oddFramingField } from './framing.ts';
import { mutate } from './mutation.ts';
import type { Random } from './random.ts';

/** What one client sends on one connection. `{A}` and `{B}` are placeholders for the tokens of its two tenants. */
export interface RequestsCase {
	/** Latin1. */
	readonly text: string;
	/** Number of requests if all are valid: each gets a 200. */
	readonly valid?: number;
}

export const REQUEST_KINDS = {
	valid: 4,
	series: 4,
	'odd request line': 3,
	'odd path': 3,
	'odd fields': 4,
	'odd framing': 4,
	'odd chunks': 3,
	'odd token': 2,
	smuggling: 5,
	mutated: 8,
	'mutated corpus': 8,
	'cut short': 2,
	'at the limits': 1,
	garbage: 1,
} as const;

type RequestKind = keyof typeof REQUEST_KINDS;

/** `max_request_body_bytes` and `max_header_bytes` of the proxy under test. */
export const MAX_BODY = 20_000;
export const MAX_HEAD = 16_384;

/** Fills in the client's tokens, and the length of the hidden request: `{S#}`, hexadecimal `{S#16}`. */
export function fillIn(text: string, [a, b]: readonly [string, string]): string {
	const tokens = (part: string) => part.replaceAll('{A}', a).replaceAll('{B}', b);
	const { length } = tokens(SECRET_REQUEST);
	return tokens(text).replaceAll('{S#}', String(length)).replaceAll('{S#16}', length.toString(16));
}

/** @param corpus earlier cases to build on. */
export function oddRequests(random: Random, kind: RequestKind, corpus: readonly RequestsCase[]): RequestsCase {
	const some = (make: (random: Random) => string) => {
		// The wrong part may come first, in the middle, or last.
		const before = random.chance(0.4) ? validRequest(random) : '';
		const behind = random.chance(0.5) ? validRequest(random) : '';
		return { text: before + make(random) + behind };
	};
	switch (kind) {
		case 'valid': {
			const requests = random.list(random.between(1, 5), () => validRequest(random));
			return { text: requests.join(''), valid: requests.length };
		}
		case 'series': {
			const requests = series(random);
			return { text: requests.join(''), valid: requests.length };
		}
		case 'odd request line':
			return some(oddRequestLine);
		case 'odd path':
			return some(oddPath);
		case 'odd fields':
			return some(oddFields);
		case 'odd framing':
			return some(oddFraming);
		case 'odd chunks':
			return some(oddChunks);
		case 'odd token':
			return some(oddToken);
		case 'smuggling':
			return some(smuggling);
		case 'mutated':
			return { text: mutate(random, pipeline(random), WORDS, [pipeline(random), oddFraming(random)]) };
		case 'mutated corpus': {
			const { text } = random.pick(corpus);
			return { text: mutate(random, text, WORDS, [random.pick(corpus).text, pipeline(random)]) };
		}
		case 'cut short': {
			const text = pipeline(random);
			return { text: text.slice(0, random.below(text.length)) };
		}
		case 'at the limits':
			return some(atTheLimits);
		case 'garbage':
			return { text: random.list(random.between(1, 12), () => random.pick([...WORDS, random.bytes(3)])).join('') };
	}
}

function pipeline(random: Random): string {
	const requests = random.chance(0.5) ? series(random) : random.list(random.between(1, 3), () => validRequest(random));
	return requests.join('');
}

/**
 * Requests of one service: the same fields in the same order, most with unique values. What the proxy remembers of one request must never
 * become part of the next.
 */
function series(random: Random): string[] {
	const names = shuffled(random, ['Host', 'Authorization', 'Traceparent', 'X-Request-Id', 'User-Agent', 'X-Any']);
	const agent = random.text(random.between(1, 40), ID);
	return random.list(random.between(2, 6), () => {
		const lines = names.map((name) => `${name}: ${valueInSeries(random, name, agent)}\r\n`);
		// Sometimes a line is left out or inserted.
		if (random.chance(0.2)) lines.splice(random.below(lines.length + 1), 0, `${plainField(random)}\r\n`);
		const optional = lines.findIndex((line) => line.startsWith('X-Any'));
		if (random.chance(0.2)) lines.splice(optional, 1);
		return `GET ${plainPath(random)} HTTP/1.1\r\n${lines.join('')}\r\n`;
	});
}

function valueInSeries(random: Random, name: string, agent: string): string {
	switch (name) {
		case 'Host':
			return 'edge.test';
		case 'Authorization':
			return `Bearer {${random.pick(['A', 'B'])}}`;
		case 'Traceparent':
			return traceparent(random);
		case 'X-Request-Id':
			return requestId(random);
		case 'User-Agent':
			return random.chance(0.9) ? agent : random.text(agent.length, ID);
		default:
			return random.text(random.below(3), 'ab ').trim();
	}
}

const HEX = '0123456789abcdef';
const ID = `${HEX}ghijklmnopqrstuvwxyzABCDEF-_.`;

/** Unique in each request. */
export function traceparent(random: Random): string {
	return `00-${random.text(32, HEX)}-${random.text(16, HEX)}-0${random.below(2)}`;
}

/** Unique in each request; lengths repeat, since a memo could confuse values of the same length. */
export function requestId(random: Random): string {
	return random.text(random.pick([8, 16, 32, 32, 36]), ID);
}

const AUTHORIZATION = ['authorization: Bearer {A}', 'Authorization: bearer {B}', 'authorization: Bearer {A}'];

/** A request that is served: a head, and a body in any framing. */
function validRequest(random: Random): string {
	const method = random.pick(['GET', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'PROPFIND']);
	const fields = [
		'Host: edge.test',
		random.pick(AUTHORIZATION),
		`X-Request-Id: ${requestId(random)}`,
		`traceparent: ${traceparent(random)}`,
		...random.list(random.below(4), () => plainField(random)),
	];
	const target = random.chance(0.1) ? `https://edge.test${plainPath(random)}` : plainPath(random);
	const body = random.bytes(random.length(400));
	const framed = framedBody(random, method === 'GET' || method === 'HEAD' ? '' : body);
	const head = [...shuffled(random, fields), ...framed.fields].map((line) => `${line}\r\n`).join('');
	return `${method} ${target} HTTP/1.1\r\n${head}\r\n${framed.wire}`;
}

function plainPath(random: Random): string {
	const segment = random.list(random.below(12), () => random.pick(PLAIN)).join('');
	return `/fuzz/p${segment}${random.pick(['', '', '?q=1', '?../..', '?a=/../b', '/x/y', '/'])}`;
}

const PLAIN = [...'abcXYZ019-._~!$&()*+,=:@', "'", '%20', '%c3%a4'];

function plainField(random: Random): string {
	return random.pick([
		...[
			'accept: */*',
			'X-Any: thing',
			'cookie: a=1',
			'cookie: b=2; c=3',
			'x-any: other',
			'user-agent: fuzz',
			'x-empty:',
			'x_under: 1',
		],
		...[
			'x-forwarded-for: 10.0.0.1',
			'X-Real-IP: 10.0.0.1',
			'forwarded: for=10.0.0.1',
			'x-proxy-tenant: victim',
			'X_Proxy_Tenant: victim',
		],
		...[
			'te: trailers',
			'connection: keep-alive',
			'Connection: x-any',
			'keep-alive: timeout=5',
			'proxy-connection: keep-alive',
		],
		...[
			'connection: x-proxy-tenant',
			'x-obs: \xe4\xff',
			'__proto__: 1',
			'constructor: 2',
			'x-forwarded-proto: http',
			'trailer: x-late',
		],
	]);
}

function framedBody(random: Random, body: string): { fields: string[]; wire: string } {
	if (body === '') return { fields: random.chance(0.2) ? ['content-length: 0'] : [], wire: '' };
	if (random.chance(0.5)) return { fields: [`${random.anyCase('content-length')}: ${body.length}`], wire: body };
	const trailers = random.chance(0.2) ? 'x-late: 1\r\nx-proxy-tenant: victim\r\n' : '';
	const pieces = random
		.cut(body, 3)
		.map((piece) => `${piece.length.toString(16)}${random.pick(['', '', ';a=b'])}\r\n${piece}\r\n`);
	return {
		fields: [`${random.anyCase('transfer-encoding')}: chunked`],
		wire: `${pieces.join('')}0\r\n${trailers}\r\n`,
	};
}

function shuffled<T>(random: Random, items: readonly T[]): T[] {
	return items
		.map((item) => ({ item, at: random.word() }))
		.sort((a, b) => a.at - b.at)
		.map(({ item }) => item);
}

const GOOD_FIELDS = 'Host: edge.test\r\nAuthorization: Bearer {A}\r\n';

function oddRequestLine(random: Random): string {
	return `${random.pick(REQUEST_LINES)}${random.chance(0.9) ? '\r\n' : random.pick(['\n', '\r', '\n\r', ' \r\n'])}${GOOD_FIELDS}\r\n`;
}

const REQUEST_LINES = [
	...[
		'GET /fuzz/a HTTP/0.9',
		'GET /fuzz/a HTTP/2.0',
		'GET /fuzz/a HTTP/3.0',
		'GET /fuzz/a HTTP/1.2',
		'GET /fuzz/a HTTP/1.10',
		'GET /fuzz/a',
	],
	...[
		'GET /fuzz/a http/1.1',
		'GET  /fuzz/a HTTP/1.1',
		'GET\t/fuzz/a HTTP/1.1',
		'GET /fuzz/a  HTTP/1.1',
		' GET /fuzz/a HTTP/1.1',
		'GET /fuzz/a HTTP/1.1 ',
	],
	...[
		'get /fuzz/a HTTP/1.1',
		'G\x00T /fuzz/a HTTP/1.1',
		'FOO /fuzz/a HTTP/1.1',
		'GET/fuzz/a HTTP/1.1',
		'\r\nGET /fuzz/a HTTP/1.1',
		'\nGET /fuzz/a HTTP/1.1',
	],
	...[
		'CONNECT edge.test:443 HTTP/1.1',
		'CONNECT /fuzz/a HTTP/1.1',
		'TRACE /fuzz/a HTTP/1.1',
		'OPTIONS * HTTP/1.1',
		'GET * HTTP/1.1',
		'GET HTTP/1.1',
	],
	...[
		'PRI * HTTP/2.0',
		'GET fuzz HTTP/1.1',
		'GET http://edge.test HTTP/1.1',
		'GET http://edge.test?x HTTP/1.1',
		'GET https://u@edge.test/fuzz/a HTTP/1.1',
	],
	...[
		'GET ftp://edge.test/fuzz/a HTTP/1.1',
		'GET //edge.test/fuzz/a HTTP/1.1',
		'GET http:///fuzz/a HTTP/1.1',
		'GET http://victim/fuzz/a HTTP/1.1',
	],
	...[
		'GET /fuzz/a HTTP/1.1\rX: y',
		'GET /fuzz/a\x00 HTTP/1.1',
		'GET /fuzz/\x7f HTTP/1.1',
		'GET /fuzz/\x80 HTTP/1.1',
		'GET /fuzz/ä HTTP/1.1',
		'GET /fuzz/a HTTP/1.0',
	],
	...[
		'M-SEARCH /fuzz/a HTTP/1.1',
		'SOURCE /fuzz/a HTTP/1.1',
		'QUERY /fuzz/a HTTP/1.1',
		'DESCRIBE /fuzz/a RTSP/1.0',
		'GET /fuzz/a ICE/1.0',
		'GET /fuzz/#a HTTP/1.1',
	],
];

function oddPath(random: Random): string {
	const path = random.list(random.between(1, 5), () => random.pick(PATH_PIECES)).join('');
	return `GET ${random.chance(0.8) ? '/fuzz' : ''}${path} HTTP/1.1\r\n${GOOD_FIELDS}\r\n`;
}

const PATH_PIECES = [
	...[
		'/',
		'/',
		'/a',
		'/.',
		'/..',
		'/%2e',
		'/%2E%2e',
		'/.%2e',
		'%2f',
		'%5c',
		'\\',
		';',
		'/..;/',
		'/...',
		'%00',
		'%u002e',
		'%252e',
		'%255c',
	],
	...[
		'%',
		'%2',
		'%zz',
		'#',
		'?',
		'?/../',
		'//',
		'/victim',
		'/fuzzy',
		'%2e%2e%2f',
		'/.;a=b/',
		'%c0%ae',
		'%ef%bc%8e',
		'~',
		'{',
		'"',
		'|',
		'@',
		':',
	],
];

function oddFields(random: Random): string {
	const fields = random.list(random.between(1, 3), () => random.pick(ODD_FIELDS));
	const lines = shuffled(random, ['Host: edge.test', 'Authorization: Bearer {A}', ...fields]);
	return `${random.pick(['GET', 'POST'])} /fuzz/f HTTP/1.${random.chance(0.1) ? 0 : 1}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`;
}

const ODD_FIELDS = [
	...ODD_LINES,
	...[
		'Host: edge.test',
		'Host:',
		'Host: a b',
		'Host: edge.test/x',
		'Host: u@edge.test',
		'host: [::1]:1',
		'Host : edge.test',
		'Host: victim, edge.test',
	],
	...[
		'Authorization: Bearer {B}',
		'Authorization:',
		'authorization: Basic eA==',
		'Authorization : Bearer {B}',
		'authorization\t: x',
	],
	...[
		'x-proxy-tenant: victim',
		'X_PROXY_TENANT: victim',
		'x-proxy_tenant: victim',
		'x-proxy-tenant : victim',
		' x-proxy-tenant: victim',
		'x-a: b\r\n x-proxy-tenant: victim',
	],
	...[
		'x-a: b\nx-proxy-tenant: victim',
		'x-a: b\rx-proxy-tenant: victim',
		'x-a: b\r\r\nx-proxy-tenant: victim',
		'x-a\x00x-proxy-tenant: victim',
	],
	...['x-a\x80: b', 'x-a:b:c', 'x-a: b\x0bc', 'x-a: b\x0cc'],
	...[
		'Connection: x-proxy-tenant, host, authorization',
		'Connection: close, x-proxy-tenant',
		'connection: transfer-encoding',
	],
	...[
		'Upgrade: websocket\r\nConnection: upgrade',
		'Upgrade: h2c',
		'Upgrade: h2c, websocket',
		'Connection: upgrade',
		'upgrade:',
		'HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA',
	],
	...[
		'Expect: 100-continue',
		'Expect: 200-ok',
		'expect: 100-continue, x',
		'TE: trailers',
		'Trailer: x-proxy-tenant',
		'Keep-Alive: timeout=0',
		'Connection: close',
	],
	...[
		'cookie: a=1\r\ncookie: b=2',
		'x-forwarded-for: victim',
		'Max-Forwards: 0',
		'content_length: 5',
		'transfer_encoding: chunked',
	],
];

const SECRET_REQUEST =
	'GET /fuzz/smuggled HTTP/1.1\r\nHost: edge.test\r\nx-proxy-tenant: victim\r\nAuthorization: Bearer {B}\r\n\r\n';

function oddFraming(random: Random): string {
	const fields = random.list(random.between(1, 3), () => oddFramingField(random));
	const body = random.pick([
		'hello',
		'',
		'5\r\nhello\r\n0\r\n\r\n',
		'0\r\n\r\n',
		`hello${SECRET_REQUEST}`,
		`0\r\n\r\n${SECRET_REQUEST}`,
		`5\r\nhello\r\n0\r\n\r\n${SECRET_REQUEST}`,
	]);
	return `POST /fuzz/framed HTTP/1.${random.chance(0.1) ? 0 : 1}\r\n${GOOD_FIELDS}${fields.join('')}\r\n${body}`;
}

function oddChunks(random: Random): string {
	const head = `POST /fuzz/chunks HTTP/1.1\r\n${GOOD_FIELDS}Transfer-Encoding: chunked\r\n\r\n`;
	const chunks = oddChunkLines(random, [`5;${'a'.repeat(20_000)}`]);
	const trailer = random.chance(0.3) ? `${random.pick(ODD_FIELDS)}\r\n` : '';
	return `${head}${chunks}${random.pick([`0\r\n${trailer}\r\n`, `0\r\n${trailer}\r\n`, '0\r\n', '0\n\n', '0\r\n\n', '0\n\r\n', '', `0\r\n\r\n${SECRET_REQUEST}`, `0\n\n${SECRET_REQUEST}`])}`;
}

function oddToken(random: Random): string {
	const value = random.pick([
		...[
			'Bearer',
			'Bearer ',
			'Bearer  {A}',
			'bearer {A} ',
			'BEARER {A}',
			'Bearer\t{A}',
			'Bearer {A}{B}',
			'Bearer {A},',
			'Bearer {A}.x',
			'Token {A}',
		],
		...[
			'Bearer {A}=',
			'{A}',
			'Bearer A.B.C',
			'Bearer ..',
			'Bearer {A}\r\nAuthorization: Bearer {B}',
			'Bearer \x00',
			`Bearer ${'A'.repeat(9000)}`,
			'Bearer {A} {B}',
		],
	]);
	return `GET /fuzz/token HTTP/1.1\r\nHost: edge.test\r\nAuthorization: ${value}\r\n\r\n`;
}

/** Published ways of hiding a request in another one's body. */
function smuggling(random: Random): string {
	const chunk = `{S#16}\r\n${SECRET_REQUEST}\r\n0\r\n\r\n`;
	const post = (fields: string, body: string) => `POST /fuzz/outer HTTP/1.1\r\n${GOOD_FIELDS}${fields}\r\n${body}`;
	const te = random.pick(TE_DISGUISES);
	return random.pick([
		// Harmless: the hidden request is only a body.
		post(`Content-Length: {S#}\r\n`, SECRET_REQUEST),
		post('Transfer-Encoding: chunked\r\n', chunk),
		// CL.TE, TE.CL, TE.TE, CL.0, 0.CL, TE.0.
		post(`Content-Length: 5\r\n${te}\r\n`, `0\r\n\r\n${SECRET_REQUEST}`),
		post(`${te}\r\nContent-Length: {S#}\r\n`, chunk),
		post(`${te}\r\nTransfer-Encoding: cow\r\n`, `0\r\n\r\n${SECRET_REQUEST}`),
		post(`${te}\r\n`, `0\r\n\r\n${SECRET_REQUEST}`),
		post('', SECRET_REQUEST),
		post('Content-Length: 0\r\n', SECRET_REQUEST),
		post(` Content-Length: {S#}\r\n`, SECRET_REQUEST),
		post(`Content-Length: {S#}\r\nContent-Length: 0\r\n`, SECRET_REQUEST),
		post(`Expect: 100-continue\r\nContent-Length: {S#}\r\n`, SECRET_REQUEST),
		post('Connection: content-length\r\nContent-Length: 5\r\n', `hello${SECRET_REQUEST}`),
		post('Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${SECRET_REQUEST}`),
		post('Transfer-Encoding: chunked\r\n', `5;\n\r\n${SECRET_REQUEST}`),
		post('Transfer-Encoding: chunked\r\n', `2;a\nxx\r\n${chunk}`),
		post('Upgrade: websocket\r\nConnection: Upgrade\r\n', SECRET_REQUEST),
		`CONNECT edge.test:443 HTTP/1.1\r\n${GOOD_FIELDS}\r\n${SECRET_REQUEST}`,
		`GET /fuzz/get HTTP/1.1\r\n${GOOD_FIELDS}Content-Length: {S#}\r\n\r\n${SECRET_REQUEST}`,
		`HEAD /fuzz/head HTTP/1.1\r\n${GOOD_FIELDS}Content-Length: {S#}\r\n\r\n${SECRET_REQUEST}`,
		`GET /fuzz/a HTTP/1.1\r\n${GOOD_FIELDS}Connection: close\r\n\r\n${SECRET_REQUEST}`,
		`GET /fuzz/a HTTP/1.0\r\n${GOOD_FIELDS}\r\n${SECRET_REQUEST}`,
		`GET /fuzz/a HTTP/1.1\r\n${GOOD_FIELDS}\n${SECRET_REQUEST}`,
		`GET /fuzz/a HTTP/1.1\r\n${GOOD_FIELDS}\r${SECRET_REQUEST}`,
	]);
}

const TE_DISGUISES = [
	...[
		'Transfer-Encoding: chunked',
		'Transfer-Encoding : chunked',
		'Transfer-Encoding\t: chunked',
		' Transfer-Encoding: chunked',
		'Transfer-Encoding: xchunked',
	],
	...[
		'Transfer-Encoding:\x0bchunked',
		'Transfer-Encoding:\tchunked',
		'X: X\nTransfer-Encoding: chunked',
		'Transfer-Encoding\r\n : chunked',
		'Transfer-Encoding: chunked\r',
	],
	...[
		'Transfer-Encoding: \r\n chunked',
		'Transfer-Encoding: "chunked"',
		'transfer_encoding: chunked',
		'Transfer-Encoding: chunk',
		'Transfer-Encoding: chunked, identity',
	],
];

function atTheLimits(random: Random): string {
	const near = (limit: number) => limit + random.between(-40, 40);
	switch (random.below(4)) {
		case 0:
			return `GET /fuzz/long HTTP/1.1\r\n${GOOD_FIELDS}x: ${'a'.repeat(near(MAX_HEAD - 700))}\r\n\r\n`;
		case 1:
			return `GET /fuzz/${'a'.repeat(near(MAX_HEAD - 700))} HTTP/1.1\r\n${GOOD_FIELDS}\r\n`;
		case 2:
			return `POST /fuzz/body HTTP/1.1\r\n${GOOD_FIELDS}content-length: ${near(MAX_BODY)}\r\n\r\n${'b'.repeat(near(MAX_BODY))}`;
		default: {
			const length = near(MAX_BODY);
			return `POST /fuzz/body HTTP/1.1\r\n${GOOD_FIELDS}transfer-encoding: chunked\r\n\r\n${length.toString(16)}\r\n${'b'.repeat(length)}\r\n0\r\n\r\n`;
		}
	}
}

const WORDS = [
	...FRAMING_WORDS,
	'..',
	'%2e',
	'%00',
	'\\',
	'#',
	'GET ',
	'POST ',
	' HTTP/1.1\r\n',
	' HTTP/1.0\r\n',
	'Host: edge.test\r\n',
	'Authorization: Bearer {B}\r\n',
	'x-proxy-tenant: victim\r\n',
	'Connection: x-proxy-tenant\r\n',
	'Expect: 100-continue\r\n',
	'{A}',
	'{B}',
	SECRET_REQUEST,
	'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
	'/fuzz/',
	'/../',
	'victim',
];

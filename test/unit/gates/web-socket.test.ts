import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { readHttp1Head } from '../../../packages/proxy/src/gates/headers.ts';
import { acceptOf, problemOfResponse, type WebSocketHandshake } from '../../../packages/proxy/src/gates/web-socket.ts';
import { readHttp2Head } from '../../fixtures/http2-head.ts';

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';

type Fields = Readonly<Record<string, string | readonly string[] | undefined>>;

function raw(fields: Fields): string[] {
	return Object.entries(fields).flatMap(([name, value = []]) =>
		(typeof value === 'string' ? [value] : value).flatMap((one) => [name, one]),
	);
}

const HTTP1: Fields = {
	host: 'edge.test',
	connection: 'Upgrade',
	upgrade: 'websocket',
	'sec-websocket-key': KEY,
	'sec-websocket-version': '13',
};

const HTTP2: Fields = {
	':method': 'CONNECT',
	':protocol': 'websocket',
	':scheme': 'https',
	':authority': 'edge.test',
	':path': '/chat',
	'sec-websocket-version': '13',
};

function read(fields: Fields, endStream?: boolean): WebSocketHandshake | Rejection | undefined {
	const isHttp2 = fields === HTTP2 || ':method' in fields;
	const head = isHttp2 ? readHttp2Head(raw(fields), endStream ?? false) : readHttp1Head(raw(fields), 1);
	assert.ok(!(head instanceof Rejection), 'the head was refused');
	return head.webSocket;
}

function good(fields: Fields): WebSocketHandshake {
	const handshake = read(fields);
	assert.ok(
		handshake !== undefined && !(handshake instanceof Rejection),
		String((handshake as Rejection | undefined)?.reason),
	);
	return handshake;
}

describe('a WebSocket handshake', () => {
	it('is read over HTTP/1.1 with its key, and over HTTP/2 without one', () => {
		assert.equal(good(HTTP1).key, KEY);
		assert.equal(good(HTTP2).key, undefined);
		assert.equal(good({ ...HTTP2, 'sec-websocket-key': 'nonsense' }).key, undefined);
	});

	it('forwards the offers of the client in separate lines, in one spelling', () => {
		const fields = {
			...HTTP1,
			'Sec-WebSocket-Protocol': ['chat, superchat', 'v2'],
			'sec-websocket-extensions': 'permessage-deflate; client_max_window_bits; x="15", Foo',
			sec_websocket_key: 'mine',
			'sec-websocket-accept': 'mine',
			'x-other': '1',
		};
		const head = readHttp1Head(raw(fields), 1);
		assert.ok(!(head instanceof Rejection));
		assert.equal(head.lines, 'x-other: 1\r\n');
		const { lines, protocols, extensions } = good(fields);
		assert.equal(
			lines,
			'sec-websocket-version: 13\r\nsec-websocket-protocol: chat, superchat, v2\r\n' +
				'sec-websocket-extensions: permessage-deflate; client_max_window_bits; x="15", Foo\r\n',
		);
		assert.deepEqual([...protocols], ['chat', 'superchat', 'v2']);
		assert.deepEqual([...extensions], ['permessage-deflate', 'foo']);
	});

	const refused: readonly [what: string, fields: Fields, reason: string][] = [
		[
			'a Connection that names something else',
			{ ...HTTP1, connection: 'keep-alive' },
			'Connection does not name the upgrade',
		],
		['no key', { ...HTTP1, 'sec-websocket-key': undefined }, 'Sec-WebSocket-Key is not 16 bytes of base64'],
		['two keys', { ...HTTP1, 'sec-websocket-key': [KEY, KEY] }, 'Sec-WebSocket-Key is not 16 bytes of base64'],
		...[
			'',
			'c2hvcnQ=',
			`${KEY}AA`,
			'dGhlIHNhbXBsZSBub25jZR==',
			'dGhlIHNhbXBsZSBub25jZQ',
			'dGhlIHNhbXBsZSBub25jZ-==',
		].map(
			(key) =>
				[`the key "${key}"`, { ...HTTP1, 'sec-websocket-key': key }, 'Sec-WebSocket-Key is not 16 bytes of base64'] as [
					string,
					Fields,
					string,
				],
		),
		['no version', { ...HTTP1, 'sec-websocket-version': undefined }, 'WebSocket version other than 13'],
		['version 8', { ...HTTP1, 'sec-websocket-version': '8' }, 'WebSocket version other than 13'],
		['two versions', { ...HTTP2, 'sec-websocket-version': ['13', '13'] }, 'WebSocket version other than 13'],
		['a body', { ...HTTP1, 'content-length': '1' }, 'WebSocket handshake with a body or a body length'],
		[
			'a chunked body',
			{ ...HTTP1, 'transfer-encoding': 'chunked' },
			'WebSocket handshake with a body or a body length',
		],
		['a length of 0', { ...HTTP1, 'content-length': '0' }, 'WebSocket handshake with a body or a body length'],
		['a length over HTTP/2', { ...HTTP2, 'content-length': '0' }, 'WebSocket handshake with a body or a body length'],
		['a subprotocol twice', { ...HTTP1, 'sec-websocket-protocol': 'a, a' }, 'malformed Sec-WebSocket-Protocol'],
		[
			'a subprotocol that is no token',
			{ ...HTTP1, 'sec-websocket-protocol': 'a b' },
			'malformed Sec-WebSocket-Protocol',
		],
		['a malformed extension', { ...HTTP1, 'sec-websocket-extensions': 'a; =b' }, 'malformed Sec-WebSocket-Extensions'],
	];
	for (const [what, fields, reason] of refused) {
		it(`is refused with ${what}`, () => {
			const handshake = read(fields);
			assert.ok(handshake instanceof Rejection);
			assert.equal(handshake.reason, reason);
			assert.equal(handshake.status, 400);
			const version = reason.includes('version') ? ['sec-websocket-version', '13'] : [];
			assert.deepEqual(handshake.headers, version);
		});
	}

	it('is refused if it ends its stream', () => {
		const handshake = read(HTTP2, true);
		assert.equal((handshake as Rejection).reason, 'WebSocket handshake that ends its stream');
	});

	it('is not recognized in HTTP/1.0, with another protocol, or with a second one', () => {
		const head = readHttp1Head(raw(HTTP1), 0);
		assert.ok(!(head instanceof Rejection));
		assert.equal(head.webSocket, undefined);
		assert.equal(head.wantsUpgrade, true);
		for (const upgrade of ['tls/1.0', 'websocket, h2c', ['websocket', 'websocket'], 'websockets']) {
			assert.equal(read({ ...HTTP1, upgrade }), undefined, String(upgrade));
		}
		assert.equal(read({ ...HTTP2, ':protocol': 'connect-udp' }), undefined);
	});
});

describe('the answer to a WebSocket handshake', () => {
	// RFC 6455 section 1.3.
	const accept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';
	const offered = good({
		...HTTP1,
		'sec-websocket-protocol': 'chat, v2',
		'sec-websocket-extensions': 'permessage-deflate',
	});
	const problem = (fields: Fields, expected: string | undefined = accept) =>
		problemOfResponse(offered, raw(fields), expected);

	it('has the Sec-WebSocket-Accept of the example in RFC 6455', () => {
		assert.equal(acceptOf(KEY), accept);
		assert.equal(problem({ 'sec-websocket-accept': accept }), undefined);
	});

	it('may choose from the offers, and has no Sec-WebSocket-Accept over HTTP/2', () => {
		const chosen = {
			'sec-websocket-protocol': 'v2',
			'sec-websocket-extensions': 'permessage-deflate; server_no_context_takeover',
		};
		assert.equal(problem({ 'sec-websocket-accept': accept, ...chosen }), undefined);
		assert.equal(problemOfResponse(offered, raw(chosen), undefined), undefined);
	});

	const wrong: readonly [what: string, fields: Fields, words: RegExp][] = [
		['no accept', {}, /wrong Sec-WebSocket-Accept/],
		['another accept', { 'sec-websocket-accept': acceptOf('other') }, /wrong Sec-WebSocket-Accept/],
		['two accepts', { 'sec-websocket-accept': [accept, accept] }, /wrong Sec-WebSocket-Accept/],
		['another subprotocol', { 'sec-websocket-accept': accept, 'sec-websocket-protocol': 'v3' }, /subprotocol/],
		['two subprotocols', { 'sec-websocket-accept': accept, 'sec-websocket-protocol': ['v2', 'chat'] }, /subprotocol/],
		['another extension', { 'sec-websocket-accept': accept, 'sec-websocket-extensions': 'bbf' }, /extension/],
		['a malformed extension', { 'sec-websocket-accept': accept, 'sec-websocket-extensions': ';' }, /extension/],
	];
	for (const [what, fields, words] of wrong) {
		it(`is refused with ${what}`, () => {
			assert.match(problem(fields) ?? '', words);
		});
	}
});

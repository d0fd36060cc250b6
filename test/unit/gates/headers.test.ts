import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BAD_REQUEST, METHOD_NOT_IMPLEMENTED, Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { UNDECLARED } from '../../../packages/proxy/src/gates/body-limit.ts';
import { type RequestHead, readHttp1Head } from '../../../packages/proxy/src/gates/headers.ts';
import type { Http2RequestHead } from '../../../packages/proxy/src/gates/http2-head.ts';
import { ResponseHeadReader, responseField } from '../../../packages/proxy/src/gates/response-head.ts';
import { readHttp2Head } from '../../fixtures/http2-head.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';
import { type Field, HOP_BY_HOP, returnedByTheContract } from '../../models/header-contract.ts';

/** An HTTP/1.1 head. It gets a `Host` unless the fields have one. */
function http1(fields: readonly Field[], minor = 1): RequestHead {
	const head = readHttp1Head(withHost(fields), minor);
	assert.ok(!(head instanceof Rejection), `refused: ${JSON.stringify(fields)}`);
	return head;
}

function http1Refuses(fields: readonly Field[], minor = 1, reason?: string): void {
	assertRefusal(readHttp1Head(withHost(fields), minor), BAD_REQUEST, JSON.stringify(fields), reason);
}

function withHost(fields: readonly Field[]): string[] {
	const hasHost = fields.some(([name]) => name.toLowerCase() === 'host');
	return [...(hasHost ? [] : [['Host', 'edge.test'] as const]), ...fields].flat();
}

const PSEUDO: readonly Field[] = [
	[':method', 'GET'],
	[':path', '/a'],
	[':scheme', 'https'],
	[':authority', 'edge.test'],
];

function http2(fields: readonly Field[], pseudo = PSEUDO, endStream = true): Http2RequestHead {
	const head = readHttp2Head([...pseudo, ...fields].flat(), endStream);
	assert.ok(!(head instanceof Rejection), `refused: ${JSON.stringify([pseudo, fields])}`);
	return head;
}

function http2Refuses(fields: readonly Field[], pseudo = PSEUDO, reason?: string, endStream = true): void {
	const head = readHttp2Head([...pseudo, ...fields].flat(), endStream);
	assertRefusal(head, BAD_REQUEST, JSON.stringify([pseudo, fields]), reason);
}

describe('the facts of a request head', () => {
	it('include the authority: Host, or :authority, or neither over HTTP/1.0', () => {
		assert.equal(http1([['Host', 'Edge.test:8443']]).authority, 'Edge.test:8443');
		assert.equal(http1([['Host', 'edge.test']], 0).authority, 'edge.test');
		assert.equal((readHttp1Head([], 0) as RequestHead).authority, undefined);
		assert.equal(http2([], pseudo(':authority', 'Edge.test')).authority, 'Edge.test');
		assert.equal(http2([['host', 'edge.test']], pseudo(':authority', undefined)).authority, 'edge.test');
		assert.equal(http2([['host', 'EDGE.test']], pseudo(':authority', 'edge.test')).authority, 'edge.test');
	});

	it('include whether it is a gRPC call, by the content type that the upstream gets', () => {
		const grpc = ['content-type', 'application/grpc'] as const;
		const isGrpc = (...fields: Field[]) => [http1(fields), http2(fields)].map((head) => head.isGrpc);
		assert.deepEqual(isGrpc(grpc), [true, true]);
		assert.deepEqual(isGrpc(), [false, false]);
		assert.deepEqual(isGrpc(['content-type', 'application/grpc-web']), [false, false]);
		// Of two, it is unknown which one the upstream believes.
		assert.deepEqual(isGrpc(grpc, grpc), [false, false]);
		assert.deepEqual(isGrpc(grpc, ['content-type', 'text/plain']), [false, false]);
		assert.deepEqual(isGrpc(['content-type', 'text/plain'], grpc, grpc), [false, false]);
		assert.equal(http1([grpc, ['Connection', 'Content-Type']]).isGrpc, false);
		assert.equal(http1([grpc, ['Connection', 'X-Other']]).isGrpc, true);
	});

	it('do not include a content type in another spelling, which is another field', () => {
		const head = http1([
			['Content_Type', 'application/grpc'],
			['Content-Type', 'text/plain'],
		]);
		assert.equal(head.isGrpc, false);
		assert.equal(head.lines, 'Content_Type: application/grpc\r\nContent-Type: text/plain\r\n');
	});

	it('include whether the client sends x-forwarded-host, -port or -prefix: such lines are forwarded, in every spelling', () => {
		for (const name of ['x-forwarded-host', 'X_Forwarded_Port', 'x-forwarded.prefix']) {
			for (const head of [http1([[name, '1']]), http2([[name.toLowerCase(), '1']])]) {
				assert.equal(head.claimsOrigin, true, name);
				assert.equal(head.lines.toLowerCase(), `${name.toLowerCase()}: 1\r\n`);
			}
			const named = http1([
				[name, '1'],
				['Connection', name],
			]);
			assert.equal(named.lines, '');
		}
		for (const name of ['x-forwarded-server', 'x-forwarded-for', 'xx-forwarded-host', 'proxy-connection']) {
			assert.equal(http1([[name, '1']]).claimsOrigin, false, name);
		}
	});
});

/** The pseudo-headers with one replaced, or left out. */
function pseudo(name: string, value: string | undefined): Field[] {
	return PSEUDO.flatMap((field) => (field[0] !== name ? [field] : value === undefined ? [] : [[name, value] as const]));
}

/** Header lines as the upstream reads them. */
function fieldsOf(lines: string): Field[] {
	if (lines === '') return [];
	assert.ok(lines.endsWith('\r\n'));
	return lines
		.slice(0, -2)
		.split('\r\n')
		.map((line) => {
			const colon = line.indexOf(': ');
			assert.ok(colon > 0, `no header line: ${JSON.stringify(line)}`);
			return [line.slice(0, colon), line.slice(colon + 2)];
		});
}

/** The same fields through both protocols: what is forwarded, and the facts. */
const PROTOCOLS = [
	{
		protocol: 'HTTP/1.1',
		read: (fields: readonly Field[]): RequestHead => http1(fields),
		forwarded: (fields: readonly Field[]): Field[] => fieldsOf(http1(fields).lines),
	},
	{
		protocol: 'HTTP/2',
		read: (fields: readonly Field[]): RequestHead => http2(fields),
		forwarded: (fields: readonly Field[]): Field[] => fieldsOf(http2(fields).lines),
	},
];

for (const { protocol, read, forwarded } of PROTOCOLS) {
	describe(`a request head in ${protocol}`, () => {
		it('loses fields that only the proxy may set, and hop-by-hop fields, in every spelling', () => {
			for (const name of ['x-proxy-tenant', 'X_Proxy-Tenant', 'X-FORWARDED_FOR', 'te', 'Keep_Alive']) {
				assert.deepEqual(forwarded([[name, 'evil']]), [], name);
			}
			const other: Field = ['x-proxy-tenant-id', 'v'];
			assert.deepEqual(forwarded([other]), [other]);
		});

		it('loses fields that an upstream could read as framing', () => {
			for (const name of ['content_length', 'Content_Length', 'transfer_encoding', 'TRANSFER_ENCODING']) {
				const head = read([[name, 'chunked']]);
				assert.equal(head.lines, '');
				assert.equal(head.bodyLength, 0);
			}
		});

		it('loses every field that Connection names, in any case', () => {
			const fields: Field[] = [
				['X-Secret', '1'],
				['x-keep', '2'],
				['x-other', '3'],
			];
			for (const value of ['x-secret, X-OTHER', 'X-Secret ,\tx-other', 'x-secret,,x-other,']) {
				assert.deepEqual(forwarded([...fields, ['connection', value]]), [['x-keep', '2']], value);
			}
		});

		it('has the same facts if Connection names their fields', () => {
			const head = read([
				['Connection', 'authorization, x-proxy-tenant, x-forwarded-for, host, cookie, expect'],
				['authorization', 'Bearer x'],
				['x-proxy-tenant', 'evil'],
				['x-forwarded-for', '1.1.1.1'],
				['cookie', 'a=1'],
				['expect', '100-continue'],
				['accept', '*/*'],
			]);
			assert.equal(head.authorization, 'Bearer x');
			assert.equal(head.expectsContinue, true);
			assert.deepEqual(fieldsOf(head.lines), [['accept', '*/*']]);
		});

		it('keeps Authorization, and its value is a fact', () => {
			for (const name of ['authorization', 'Authorization', 'AUTHORIZATION']) {
				const head = read([[name, 'Bearer x']]);
				assert.equal(head.authorization, 'Bearer x');
				assert.deepEqual(fieldsOf(head.lines), [[name, 'Bearer x']]);
			}
			assert.equal(read([['x-authorization', 'Bearer x']]).authorization, undefined);
			assert.equal(read([['authorization', '']]).authorization, '');
		});

		it('distinguishes two Authorization fields from one and from none', () => {
			assert.equal(read([]).authorization, undefined);
			for (const values of [
				['Bearer x', 'Bearer x'],
				['Bearer x', ''],
				['', '', ''],
			]) {
				const head = read(values.map((value, i): Field => [i === 0 ? 'authorization' : 'Authorization', value]));
				assert.equal(head.authorization, null);
			}
		});

		it('loses Expect, and 100-continue is a fact', () => {
			for (const [value, expects] of [
				['100-continue', true],
				['100-Continue', true],
				['200-ok', false],
				['', false],
			] as const) {
				const head = read([['Expect', value]]);
				assert.equal(head.expectsContinue, expects, value);
				assert.equal(head.lines, '', value);
			}
			assert.equal(read([]).expectsContinue, false);
		});

		it('asks for an upgrade when it names any protocol but h2c', () => {
			for (const value of ['websocket', 'h2', 'h2c, websocket', 'websocket,h2c', 'h2c2', '']) {
				assert.equal(read([['Upgrade', value]]).wantsUpgrade, true, value);
			}
			for (const value of ['h2c', 'H2C']) assert.equal(read([['Upgrade', value]]).wantsUpgrade, false, value);
			assert.equal(read([]).wantsUpgrade, false);
			for (const order of [
				['h2c', 'websocket'],
				['websocket', 'h2c'],
			]) {
				assert.equal(read(order.map((value): Field => ['upgrade', value])).wantsUpgrade, true);
			}
		});
	});
}

describe('Host', () => {
	it('may be missing in HTTP/1.0', () => {
		assert.ok(!(readHttp1Head([], 0) instanceof Rejection));
	});

	it('is never forwarded: the proxy writes its own', () => {
		for (const name of ['host', 'Host', 'HOST']) assert.equal(http1([[name, 'edge.test']]).lines, '');
		assert.equal(http2([['host', 'edge.test']]).lines, '');
	});

	it('is an authority', () => {
		for (const value of [
			'edge',
			'edge.test',
			'edge.test.',
			'EDGE.test:8443',
			'127.0.0.1',
			'127.0.0.1:1',
			'[::1]',
			'[::1]:8443',
			'[::ffff:127.0.0.1]:65535',
			'xn--bcher-kva.example',
			'a_b',
		]) {
			http1([['Host', value]]);
			http2([], pseudo(':authority', value));
		}
	});

	it('is refused when it is anything else', () => {
		for (const value of [
			'',
			' ',
			'/',
			'edge.test/path',
			'edge test',
			' edge.test',
			'user@edge.test',
			'http://edge.test',
			'edge.test?',
			'edge.test:http',
			'edge.test:80:80',
			'edge.test:123456',
			'::1',
			'[::1',
			'[]',
			'[::1]x',
			'[edge.test]',
			':80',
			'edge\\test',
			'edge\0',
			'edge\r\nx: y',
			'b\u00fccher.example',
			'a<b>',
		]) {
			for (const minor of [0, 1]) http1Refuses([['Host', value]], minor, 'malformed host');
			http2Refuses([], pseudo(':authority', value), 'malformed host');
			http2Refuses([['host', value]], pseudo(':authority', undefined));
		}
	});
});

/** Reasons of `400 bad request`, which clients do not see. */
describe('a refused head in HTTP/1 has a reason', () => {
	for (const [reason, raw, minor = 1] of [
		['no host', []],
		['two hosts', ['Host', 'a', 'host', 'a']],
		['two hosts', ['Host', 'a', 'host', 'b'], 0],
		['malformed content-length', ['Host', 'a', 'Content-Length', '1,1']],
		['malformed content-length', ['Host', 'a', 'Content-Length', '1'.repeat(17)]],
		['two content-lengths', ['Host', 'a', 'Content-Length', '1', 'Content-Length', '1']],
		['two transfer-encodings', ['Host', 'a', 'Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked']],
		['transfer-encoding other than chunked', ['Host', 'a', 'Transfer-Encoding', 'gzip, chunked']],
		['transfer-encoding in HTTP/1.0', ['Transfer-Encoding', 'chunked'], 0],
		['content-length and transfer-encoding', ['Host', 'a', 'Content-Length', '1', 'Transfer-Encoding', 'chunked']],
		['content-length and transfer-encoding', ['Host', 'a', 'Content-Length', '0', 'Transfer-Encoding', 'chunked']],
		// The first fault gives the reason.
		['malformed host', ['Host', '/', 'Content-Length', 'x']],
	] as const) {
		it(`${reason}: ${raw.join(' ')}`, () => {
			assertRefusal(readHttp1Head(raw, minor), BAD_REQUEST, '', reason);
		});
	}
});

describe('the framing of a request in HTTP/1', () => {
	const LENGTHS = ['0', '5', '05', '8388609'];
	const BAD_LENGTHS = ['', '+1', '-1', '1, 1', '0x1', '1 1', '1e1', '18446744073709551616', 'chunked'];
	const CODINGS = ['chunked', 'Chunked', 'CHUNKED'];
	const BAD_CODINGS = [
		'',
		'identity',
		'gzip, chunked',
		'chunked, identity',
		'chunked,',
		'xchunked',
		'chunked;q=1',
		' chunked',
		'chunked\t',
		'chunke\u0501',
	];

	it('is absent without a field', () => {
		assert.equal(http1([]).bodyLength, 0);
	});

	it('is never forwarded as the client wrote it', () => {
		assert.equal(http1([['Content-Length', '5']]).lines, '');
		assert.equal(http1([['Transfer-Encoding', 'chunked']]).lines, '');
	});

	it('is not changed by a Connection that names its fields', () => {
		for (const connection of ['content-length', 'transfer-encoding', 'content-length, transfer-encoding']) {
			const named: Field = ['connection', connection];
			assert.equal(http1([named, ['content-length', '5']]).bodyLength, 5);
			assert.equal(http1([['transfer-encoding', 'chunked'], named]).bodyLength, UNDECLARED);
			http1Refuses([named, ['content-length', '5'], ['transfer-encoding', 'chunked']]);
		}
	});

	it('is one length or chunked; all other fields, and all pairs, are refused', () => {
		const framing: Field[] = [
			...[...LENGTHS, ...BAD_LENGTHS].map((value): Field => ['Content-Length', value]),
			...[...CODINGS, ...BAD_CODINGS].map((value): Field => ['Transfer-Encoding', value]),
			['content-length', '5'],
			['transfer-encoding', 'chunked'],
		];
		for (const minor of [0, 1]) {
			for (const one of framing) {
				for (const two of [undefined, ...framing]) {
					const fields: Field[] = two === undefined ? [one] : [one, ['x-between', '1'], two];
					const wanted = two === undefined ? framedBy(one, minor) : undefined;
					if (wanted === undefined) {
						http1Refuses(fields, minor);
					} else {
						assert.equal(http1(fields, minor).bodyLength, wanted, JSON.stringify(fields));
					}
				}
			}
		}
	});

	/** The length that a single framing field declares; `undefined`: it is refused. */
	function framedBy([name, value]: Field, minor: number): number | undefined {
		if (name.toLowerCase() === 'content-length') return LENGTHS.includes(value) ? Number(value) : undefined;
		return minor === 1 && value.toLowerCase() === 'chunked' ? UNDECLARED : undefined;
	}
});

describe('a refused head in HTTP/2 has a reason', () => {
	const length: Field = ['content-length', '5'];
	for (const [reason, control, fields = [], endStream = true] of [
		['malformed method', pseudo(':method', undefined)],
		['malformed method', pseudo(':method', 'G T')],
		['malformed method', pseudo(':method', 'GET\0')],
		['scheme other than https', pseudo(':scheme', 'ftp')],
		['scheme other than https', pseudo(':scheme', 'HTTPS')],
		['no host', pseudo(':authority', undefined)],
		['two hosts', PSEUDO, [['host', 'other.test']]],
		['two hosts', PSEUDO, [['host', 'edge.test:443']]],
		['malformed host', PSEUDO, [['host', '']]],
		['two hosts', PSEUDO, ['edge.test', 'edge.test'].map((host): Field => ['host', host])],
		...[' a', 'a ', '\ta', 'a\t', ' '].map((value) => {
			return ['whitespace around a field value', PSEUDO, [['x-a', value]]] as const;
		}),
		['transfer-encoding in HTTP/2', PSEUDO, [['transfer-encoding', 'chunked']], false],
		['content-length without a body', PSEUDO, [length]],
		['malformed content-length', PSEUDO, [['content-length', '1, 1']], false],
		['two content-lengths', PSEUDO, [length, length], false],
	] as readonly (readonly [string, readonly Field[], (readonly Field[])?, boolean?])[]) {
		it(`${reason}: ${JSON.stringify([...control, ...fields])}`, () => {
			http2Refuses(fields, control, reason, endStream);
		});
	}
});

describe('a request head in HTTP/2', () => {
	it('has a method and a path, which are not fields', () => {
		const head = http2([], pseudo(':method', 'POST'));
		assert.deepEqual([head.method, head.path, head.lines], ['POST', '/a', '']);
		const named: Field[] = [
			['connection', 'x-a'],
			['x-a', '1'],
			['x-b', '2'],
		];
		assert.deepEqual(fieldsOf(http2(named).lines), [['x-b', '2']]);
	});

	it('is refused with 501 if its method is unknown', () => {
		assert.equal(readHttp2Head(pseudo(':method', 'get').flat(), true), METHOD_NOT_IMPLEMENTED);
	});

	it('has the same name in :authority and in host, in any case', () => {
		http2([['host', 'EDGE.TEST']]);
	});

	it('is refused for a line break or NUL in its control data; `request-fields.ts` refuses them in fields', () => {
		for (const evil of ['\r', '\n', '\0', ' HTTP/1.1\r\nx-admin: 1\r\n']) {
			for (const [name, value] of PSEUDO) {
				// The path is checked by `path.ts`.
				if (name !== ':path') http2Refuses([], pseudo(name, value + evil));
			}
		}
	});

	it('may have blanks inside a value, and an empty value', () => {
		assert.equal(http2([['x-a', 'a \t b']]).lines, 'x-a: a \t b\r\n');
		assert.equal(http2([['x-a', '']]).lines, 'x-a: \r\n');
	});

	it('has a body if the stream goes on, of the declared length if there is one', () => {
		const length: Field = ['content-length', '5'];
		const none: Field = ['content-length', '0'];
		assert.equal(http2([]).bodyLength, 0);
		assert.equal(http2([none]).bodyLength, 0);
		assert.equal(http2([], PSEUDO, false).bodyLength, UNDECLARED);
		assert.equal(http2([length], PSEUDO, false).bodyLength, 5);
		// DATA that breaks the promise may follow until the stream ends.
		assert.equal(http2([none], PSEUDO, false).bodyLength, UNDECLARED);
		assert.equal(http2([length], PSEUDO, false).lines, '');
	});
});

function responseHead(raw: readonly string[]): ResponseHeadReader {
	const reader = new ResponseHeadReader();
	for (let i = 0; i < raw.length; i += 2) reader.field(responseField(raw[i]!), raw[i + 1]!);
	reader.finish();
	return reader;
}

const responseFields = (raw: readonly string[]) => responseHead(raw).fields;

describe('the fields of a response', () => {
	it('have Vary: * if the response varies with a field that only the proxy writes', () => {
		for (const vary of ['Client-Cert', 'accept, client-cert-chain', 'CLIENT-CERT ,accept', 'x-forwarded-client-cert']) {
			assert.deepEqual(responseFields(['Vary', vary, 'x-b', '2']), ['vary', '*', 'x-b', '2'], vary);
		}
		for (const vary of ['accept', '', '*', 'x-client-cert', 'client-cert-x, accept', 'client_cert']) {
			assert.deepEqual(responseFields(['Vary', vary]), ['vary', vary], vary);
		}
	});

	it('agree with the header contract', () => {
		const dropped = [...HOP_BY_HOP, 'connection', 'transfer-encoding', 'content-length'].filter(
			(name) => name !== 'proxy-authorization' && name !== 'http2-settings',
		);
		const name = fc.constantFrom(...dropped, 'x-a', 'x-b', 'set-cookie', 'etag', 'x_a', '__proto__').chain(anyCase);
		const field = fc.oneof(
			fc.tuple(name, fc.constantFrom('', '1', 'close')),
			fc.tuple(fc.constantFrom('connection', 'Connection'), connectionValue),
		);
		fc.assert(
			fc.property(fc.array(field, { maxLength: 10 }), (fields) => {
				assert.deepEqual(responseFields(fields.flat()), returnedByTheContract(fields).flat());
			}),
			{ numRuns: 2000 },
		);
	});
});

describe('the framing of a response', () => {
	it('is a declared length, chunked, or ends with the connection', () => {
		const { length, chunked, malformed } = responseHead(['x-a', '1']);
		assert.deepEqual([length, chunked, malformed], [UNDECLARED, false, undefined]);
		for (const [text, bytes] of [
			['0', 0],
			['5', 5],
			['05', 5],
			['9007199254740991', Number.MAX_SAFE_INTEGER],
		] as const) {
			const head = responseHead(['Content-Length', text]);
			assert.deepEqual([head.length, head.chunked, head.malformed], [bytes, false, undefined]);
		}
		for (const coding of ['chunked', 'Chunked']) {
			const head = responseHead(['Transfer-Encoding', coding]);
			assert.deepEqual([head.length, head.chunked, head.malformed], [UNDECLARED, true, undefined]);
		}
	});

	it('is malformed for a reason', () => {
		for (const [fields, reason] of [
			[['content-length', '5', 'content-length', '5'], 'two content-lengths'],
			[['content-length', '0x5'], 'malformed content-length'],
			[['transfer-encoding', 'gzip'], 'transfer coding other than chunked'],
			[['transfer-encoding', 'chunked', 'transfer-encoding', 'chunked'], 'two transfer codings'],
			[['transfer-encoding', 'chunked', 'content-length', '5'], 'both content-length and transfer-encoding'],
		] as const) {
			assert.equal(responseHead([...fields]).malformed, reason);
		}
	});

	it('is malformed in every form that another reader could read differently', () => {
		const bad = [
			...['', '+1', '-1', '1, 1', '0x1', '1 1', '18446744073709551616'].map((value) => ['content-length', value]),
			...['', 'identity', 'gzip', 'gzip, chunked', 'chunked, chunked', 'chunked;q=1', 'xchunked', ' chunked'].map(
				(value) => ['transfer-encoding', value],
			),
		];
		const framing = [['content-length', '5'], ['content-length', '0'], ['Transfer-Encoding', 'chunked'], ...bad];
		for (const one of bad) assert.ok(responseHead(one).malformed, one.join(': '));
		for (const one of framing) {
			for (const two of framing) {
				assert.ok(responseHead([...one, 'x-a', '1', ...two]).malformed, `${one.join(': ')} and ${two.join(': ')}`);
			}
		}
	});

	it('is not changed by a Connection that names its fields', () => {
		assert.equal(responseHead(['connection', 'content-length', 'content-length', '5']).length, 5);
		assert.equal(responseHead(['transfer-encoding', 'chunked', 'connection', 'transfer-encoding']).chunked, true);
	});

	it('ends the connection when an option of Connection says so', () => {
		for (const value of ['close', 'Close', 'keep-alive, close', 'close,x-a', ' close ', 'x-a,\tCLOSE']) {
			assert.equal(responseHead(['Connection', value]).close, true, value);
		}
		for (const value of ['', 'keep-alive', 'closed', 'x-close', 'close-x', 'not close', '"close"']) {
			assert.equal(responseHead(['Connection', value]).close, false, value);
		}
		assert.equal(responseHead(['connection', 'close', 'connection', 'keep-alive']).close, true);
		assert.equal(responseHead(['proxy-connection', 'close', 'x-connection', 'close']).close, false);
	});

	it('includes how long the upstream keeps an idle connection', () => {
		for (const [value, timeout] of [
			['timeout=5', 5000],
			['timeout=5, max=100', 5000],
			['max=100, Timeout = 7', 7000],
			['timeout=0', 0],
			['max=100', undefined],
			['xtimeout=5', undefined],
			['timeout=-5', undefined],
			['timeout=', undefined],
			['timeout=x', undefined],
			['', undefined],
		] as const) {
			assert.equal(responseHead(['Keep-Alive', value]).keepAliveTimeoutMs, timeout, value);
		}
		assert.equal(responseHead([]).keepAliveTimeoutMs, undefined);
	});
});

function anyCase(name: string): fc.Arbitrary<string> {
	return fc
		.array(fc.boolean(), { minLength: name.length, maxLength: name.length })
		.map((upper) => [...name].map((char, i) => (upper[i] ? char.toUpperCase() : char)).join(''));
}

const connectionValue = fc
	.array(
		fc.constantFrom('close', 'keep-alive', 'x-a', 'X-B', 'set-cookie', 'x_a', 'cookie', 'Authorization', '', 'te'),
		{
			maxLength: 3,
		},
	)
	.map((options) => options.join(', ').trim());

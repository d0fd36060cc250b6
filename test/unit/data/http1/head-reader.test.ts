import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RequestHeadReader } from '../../../../packages/proxy/src/data/http1/head-reader.ts';
import type { RequestHead } from '../../../../packages/proxy/src/gates/headers.ts';

const LIMIT = 1000;

/** Reads one head, all of it at once. */
function read(text: string, reader = new RequestHeadReader(LIMIT)) {
	const end = reader.read(Buffer.from(text, 'latin1'), 0);
	return { end, reader, refusal: reader.refusal?.code, reason: reader.refusal?.reason };
}

function head(lines = 'Host: a\r\n', line = 'GET /a HTTP/1.1') {
	return `${line}\r\n${lines}\r\n`;
}

describe('a request head', () => {
	it('ends after its empty line, whatever follows', () => {
		const text = head();
		const { end, reader } = read(`${text}GET /b`);
		assert.equal(end, text.length);
		assert.deepEqual([reader.method, reader.target, reader.minor], ['GET', '/a', 1]);
	});

	it('is the same wherever it is cut', () => {
		const text = head('Host: a\r\nX-B:  c \t\r\nContent-Length: 5\r\n', 'POST /a?b HTTP/1.0');
		for (let at = 0; at <= text.length; at++) {
			const reader = new RequestHeadReader(LIMIT);
			const bytes = Buffer.from(text, 'latin1');
			if (at < text.length) assert.equal(reader.read(bytes.subarray(0, at), 0), -1, `cut at ${at}`);
			assert.equal(reader.read(bytes, 0), text.length, `cut at ${at}`);
			const { lines, bodyLength } = reader.block.head as RequestHead;
			assert.deepEqual([reader.method, reader.target, reader.minor], ['POST', '/a?b', 0]);
			assert.deepEqual([lines, bodyLength], ['X-B: c\r\n', 5]);
		}
	});

	it('an incomplete head is refused at its first invalid byte', () => {
		for (const [text, reason] of [
			['\r', 'malformed request line'],
			['\n', 'malformed request line'],
			[' ', 'malformed request line'],
			['\x16\x03', 'malformed request line'],
			['GET\t', 'malformed request line'],
			['GET  ', 'malformed request line'],
			['GET a H', undefined],
			['GET /\xe4', 'malformed request target'],
			['GET /a  ', VERSION],
			['GET /a HTTP/2', VERSION],
			['GET /a RTSP', VERSION],
			['GET /a HTTP/1.2', VERSION],
			['GET /a HTTP/1.1\n', VERSION],
			['GET /a HTTP/1.1 ', VERSION],
			['GET a HTTP/1.1\r\n', 'malformed request target'],
			['GET /a HTTP/1.1\r\n ', 'folded field line'],
			['GET /a HTTP/1.1\r\nA: b\r\n\t', 'folded field line'],
			['GET /a HTTP/1.1\r\n:', 'field without a name'],
			['GET /a HTTP/1.1\r\nA ', 'whitespace in a field name'],
			['GET /a HTTP/1.1\r\nA\r', 'field line without a colon'],
			['GET /a HTTP/1.1\r\nA(', 'malformed field name'],
			['GET /a HTTP/1.1\r\nA: \0', 'control byte in a field value'],
			['GET /a HTTP/1.1\r\nA: b\n', 'bare LF in a field line'],
			['GET /a HTTP/1.1\r\nA: b\rc', 'bare CR in a field line'],
			['GET /a HTTP/1.1\r\n\n', 'bare LF in a field line'],
			['GET /a HTTP/1.1\r\n\r\r', 'bare CR in a field line'],
		] as const) {
			const { end, refusal, reason: given } = read(text);
			assert.deepEqual([end, refusal, given], [-1, reason && 'bad-request', reason], JSON.stringify(text));
		}
	});

	it('may be as long as the limit and no longer, however it is cut', () => {
		const fill = (length: number) =>
			head(`Host: a\r\nX: ${'x'.repeat(length - head('Host: a\r\nX: \r\n').length)}\r\n`);
		for (const step of [LIMIT * 2, 7, 1]) {
			for (const length of [LIMIT, LIMIT + 1]) {
				const bytes = Buffer.from(fill(length));
				const reader = new RequestHeadReader(LIMIT);
				let end = -1;
				for (let at = step; end === -1 && reader.refusal === undefined && at < length + step; at += step) {
					end = reader.read(bytes.subarray(0, at), 0);
				}
				assert.deepEqual(
					[end, reader.refusal?.code],
					length === LIMIT ? [LIMIT, undefined] : [-1, 'headers-too-large'],
					`${length} bytes, ${step} at a time`,
				);
			}
		}
		for (const line of [`GET /${'a'.repeat(LIMIT)}`, 'A'.repeat(LIMIT + 1)]) {
			assert.equal(read(line).refusal, 'headers-too-large');
		}
	});

	it('is refused with a tab before or after a framing value', () => {
		for (const line of ['Transfer-Encoding: chunked\t', 'Transfer-Encoding:\tchunked', 'content-length: 5\t']) {
			const { reader } = read(head(`Host: a\r\n${line}\r\n`, 'POST /a HTTP/1.1'));
			assert.equal((reader.block.head as { code?: string }).code, 'bad-request', line);
		}
	});
});

const VERSION = 'malformed request line, or a version other than HTTP/1.0 and HTTP/1.1';

describe('a head on a connection that has brought others', () => {
	it('shares the facts of the last one if its block of fields is the same, byte by byte', () => {
		const reader = new RequestHeadReader(LIMIT);
		read(head('Host: a\r\nAuthorization: Bearer x\r\n'), reader);
		const first = reader.block.head as RequestHead;
		// The second time its texts are copied into one piece each, and stay.
		read(head('Host: a\r\nAuthorization: Bearer x\r\n', 'POST /b HTTP/1.1'), reader);
		const { block } = reader;
		assert.partialDeepStrictEqual({ ...first }, { ...(block.head as RequestHead) });
		read(head('Host: a\r\nAuthorization: Bearer x\r\n', 'POST /c HTTP/1.1'), reader);
		assert.equal(reader.block, block);
		assert.deepEqual([reader.method, reader.target], ['POST', '/c']);
	});

	it('counts the fields that had to be read, also of more lines than are remembered, and none of a repetition', () => {
		const reader = new RequestHeadReader(10_000);
		const ofFields = (count: number) => {
			read(head(`Host: a\r\n${'A: b\r\n'.repeat(count - 1)}`), reader);
			return reader.fields;
		};
		assert.deepEqual([2, 2, 3, 200, 200, 60, 60].map(ofFields), [2, 0, 3, 200, 200, 60, 0]);
		read(head('Host: a\r\nConnection: x-a\r\nX-A: b\r\n'), reader);
		assert.equal(reader.fields, 3);
	});

	it('has no method or target before its request line has come', () => {
		const reader = new RequestHeadReader(LIMIT);
		read(head('Host: a\r\n', 'HEAD /a HTTP/1.1'), reader);
		read('G', reader);
		assert.deepEqual([reader.method, reader.target], ['', '']);
	});

	it('has new facts if a byte, a field or the version differs', () => {
		for (const [lines, line] of [
			['Host: a\r\nAuthorization: Bearer y\r\n', 'GET /a HTTP/1.1'],
			['Host: a\r\nAuthorization: Bearer x\r\nA: b\r\n', 'GET /a HTTP/1.1'],
			['Host: a\r\n', 'GET /a HTTP/1.1'],
			['Host: a\r\nAuthorization: Bearer x\r\n', 'GET /a HTTP/1.0'],
		] as const) {
			const reader = new RequestHeadReader(LIMIT);
			read(head('Host: a\r\nAuthorization: Bearer x\r\n'), reader);
			const { block } = reader;
			const text = head(lines, line);
			assert.equal(read(text, reader).end, text.length);
			assert.notEqual(reader.block, block);
			const alone = read(text).reader.block;
			assert.deepEqual({ ...reader.block, head: { ...reader.block.head } }, { ...alone, head: { ...alone.head } });
		}
	});

	it('has the authority of its own Host field, whatever heads came before', () => {
		const reader = new RequestHeadReader(LIMIT);
		const asked = ['a.test', 'a.test', 'b.test:1', 'a.test', undefined].map((host, i) => {
			const [minor, line] = host === undefined ? [0, ''] : [1, `Host: ${host}\r\n`];
			const bytes = Buffer.from(`GET / HTTP/1.${minor}\r\n${line}X-Number: ${i}\r\n\r\n`);
			assert.equal(reader.read(bytes, 0), bytes.length);
			return (reader.block.head as RequestHead).authority;
		});
		assert.deepEqual(asked, ['a.test', 'a.test', 'b.test:1', 'a.test', undefined]);
	});

	it('is no longer than the limit either if its block of fields is known', () => {
		const reader = new RequestHeadReader(LIMIT);
		const lines = `Host: a\r\nX: ${'x'.repeat(LIMIT / 2)}\r\n`;
		assert.notEqual(read(head(lines), reader).end, -1);
		assert.equal(read(head(lines, `GET /${'a'.repeat(LIMIT / 2)} HTTP/1.1`), reader).refusal, 'headers-too-large');
	});
});

describe('a head that is dripped', () => {
	for (const [part, text] of [
		['method', 'X'.repeat(20_000)],
		['target', `GET /${'x'.repeat(20_000)}`],
		['block of fields', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}`],
	] as const) {
		it(`has each byte of its ${part} looked at once`, () => {
			let looks = 0;
			const bytes = new Proxy(Buffer.from(text), {
				get(target, name) {
					if (typeof name === 'string' && /^\d+$/.test(name)) looks++;
					const value = Reflect.get(target, name, target);
					return typeof value === 'function' ? value.bind(target) : value;
				},
			});
			const reader = new RequestHeadReader(65_536);
			for (let length = 100; length <= text.length; length += 100) {
				const part = new Proxy(bytes, {
					get: (target, name) => (name === 'length' ? length : Reflect.get(target, name, target)),
				});
				assert.equal(reader.read(part, 0), -1);
				assert.equal(reader.refusal, undefined);
			}
			assert.ok(looks < 2 * text.length, `${looks} looks at ${text.length} bytes`);
		});
	}
});

describe('whether a connection stays', () => {
	it('depends on the options of Connection, in any case and number', () => {
		const options = (value: string, more = '') => {
			const { close, keepAlive, upgrade } = read(head(`Host: a\r\nConnection: ${value}\r\n${more}`)).reader.block;
			return { close, keepAlive, upgrade };
		};
		const none = { close: false, keepAlive: false, upgrade: false };
		assert.deepEqual(options('close'), { ...none, close: true });
		assert.deepEqual(options('a , CLOSE,b'), { ...none, close: true });
		assert.deepEqual(options('a', 'connection: Close\r\n'), { ...none, close: true });
		assert.deepEqual(options('Keep-Alive'), { ...none, keepAlive: true });
		assert.deepEqual(options('closed, unclose'), none);
		assert.deepEqual(options('Upgrade'), none);
		assert.deepEqual(options('keep-alive, Upgrade', 'Upgrade: h2c\r\n'), { ...none, keepAlive: true, upgrade: true });
	});
});

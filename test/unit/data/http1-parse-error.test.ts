import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import { type ParseError, refusalOf } from '../../../src/data/http1-parse-error.ts';
import { BAD_REQUEST, HEADERS_TOO_LARGE, METHOD_NOT_IMPLEMENTED } from '../../../src/gates/rejection.ts';

/** What Node's own parser makes of these reads. */
async function errorOf(...reads: string[]): Promise<ParseError> {
	const server = createServer({ maxHeaderSize: 1024 }, (_, res) => res.end());
	const [client, socket] = duplexPair();
	const failed = once(server, 'clientError');
	server.emit('connection', socket);
	for (const read of reads) {
		client.write(read, 'latin1');
		await new Promise(setImmediate);
	}
	const [error] = await failed;
	client.destroy();
	socket.destroy();
	return error;
}

const LINE = ' /a HTTP/1.1\r\nHost: a\r\n\r\n';

describe('bytes that the HTTP/1.1 parser refuses', () => {
	it('are a method that is not implemented, wherever it differs from those that are, and wherever the read ends', async () => {
		for (const method of [
			'FOO',
			'CHECKIN',
			'LABEL',
			'get',
			'GE',
			'GETX',
			'OPTIONSX',
			'M-',
			'!',
			'A1',
			'X'.repeat(3000),
		]) {
			const reads = [
				[`${method}${LINE}`],
				[method.slice(0, 1), `${method.slice(1)}${LINE}`],
				[`GET${LINE}${method}${LINE}`],
			];
			for (const read of reads) {
				if (read[1]?.startsWith(' ')) continue;
				assert.equal(refusalOf(await errorOf(...read)), METHOD_NOT_IMPLEMENTED, JSON.stringify(read).slice(0, 60));
			}
		}
		assert.equal(refusalOf(await errorOf('FO')), METHOD_NOT_IMPLEMENTED);
		assert.equal(
			refusalOf(await errorOf(`POST${LINE.slice(0, -2)}Content-Length: 2\r\n\r\n\0\0FOO${LINE}`)),
			METHOD_NOT_IMPLEMENTED,
		);
	});

	it('are a method of another protocol', async () => {
		const others = [
			'PRI',
			'DESCRIBE',
			'ANNOUNCE',
			'SETUP',
			'PLAY',
			'PAUSE',
			'TEARDOWN',
			'GET_PARAMETER',
			'REDIRECT',
			'FLUSH',
		];
		for (const method of others) {
			assert.equal(refusalOf(await errorOf(`${method}${LINE}`)), METHOD_NOT_IMPLEMENTED, method);
		}
		assert.equal(refusalOf(await errorOf('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')), METHOD_NOT_IMPLEMENTED);
	});

	it('are no HTTP at all', async () => {
		const garbage = [
			'\x16\x03\x01\x02\0',
			'\0',
			`(${LINE}`,
			LINE,
			`G(T${LINE}`,
			`FOO/${LINE}`,
			`GET\t/a`,
			'SSH-2.0-OpenSSH\r\n',
			'FOO\r\n',
			'{"a":1}',
		];
		for (const bytes of garbage) assert.equal(refusalOf(await errorOf(bytes)), BAD_REQUEST, JSON.stringify(bytes));
		for (const head of [
			'GET /a HTTX/1.1\r\n',
			'GET /a\x01 HTTP/1.1\r\n',
			'GET /a HTTP/1.1\r\nx y: z\r\n\r\n',
			'GET /a ICE/1.0\r\n',
		]) {
			assert.equal(refusalOf(await errorOf(head)), BAD_REQUEST, JSON.stringify(head));
		}
	});

	it('are a head that is too large', async () => {
		assert.equal(refusalOf(await errorOf(`GET /a HTTP/1.1\r\nx: ${'x'.repeat(2000)}\r\n`)), HEADERS_TOO_LARGE);
	});
});

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type H1Raw, h1Raw } from '../fixtures/clients.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import type { Exchange } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const MAX_BODY_BYTES = 1_000_000;

let pki: TestPki;
let stage: Stage;

/** Answers with the target, and with the request's body behind it. */
const echo = (exchange: Exchange) =>
	exchange.respond({ body: Buffer.concat([Buffer.from(exchange.request.target), exchange.request.body]) });

before(async () => {
	pki = await testPki();
	stage = await startStage({ limits: { max_request_body_bytes: MAX_BODY_BYTES }, script: echo });
});
after(() => stage.end());

function head(requestLine: string, lines: readonly string[] = [], token = pki.token()): string {
	return `${[requestLine, 'Host: localhost', `Authorization: Bearer ${token}`, ...lines].join('\r\n')}\r\n\r\n`;
}

const WITHOUT_TOKEN = 'POST /a HTTP/1.1\r\nHost: localhost\r\n';

/** Status, body and `Connection` of the next response. */
async function next(connection: H1Raw, method = 'GET'): Promise<[number, string, string | undefined]> {
	const response = await connection.readResponse(method);
	assert.equal(response.ended, 'complete');
	const [says] = headerValues(response.headers, 'connection');
	return [response.status, String(response.body), says];
}

/** Nothing more comes, and the connection ends in order. */
async function assertEnds(connection: H1Raw): Promise<void> {
	assert.equal(String(await connection.readToEnd()), '');
	connection.socket.end();
	assert.equal(await connection.untilClosed(), 'closed');
}

describe('an HTTP/1.1 connection', () => {
	it('ends after the answer to a request with Connection: close', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(head('GET /a HTTP/1.1', ['Connection: x, close']));
		assert.deepEqual(await next(connection), [200, '/a', 'close']);
		await assertEnds(connection);
		await stage.counted({ '200 upstream': 1 });
	});

	it('an HTTP/1.0 connection ends after the first response, unless the client asks for keep-alive', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(head('GET /a HTTP/1.0', ['Connection: keep-alive']));
		assert.deepEqual(await next(connection), [200, '/a', 'keep-alive']);
		connection.send(head('GET /b HTTP/1.0'));
		assert.deepEqual(await next(connection), [200, '/b', 'close']);
		await assertEnds(connection);
		await stage.counted({ '200 upstream': 2 });
	});

	it('an HTTP/1.0 client gets a body without length up to the end of the connection, never in chunks', async () => {
		stage.script((exchange) => exchange.chunked(['some', 'thing']));
		try {
			using connection = await h1Raw(stage.proxy);
			connection.send(head('GET /a HTTP/1.0'));
			const response = await connection.readResponse();
			assert.equal(String(response.body), 'something');
			assert.deepEqual(headerValues(response.headers, 'transfer-encoding'), []);
			await stage.counted({ '200 upstream': 1 });
		} finally {
			stage.script(echo);
		}
	});

	it('does not begin with empty lines, nor does the next request: what stands there may be the end of another one', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(head('GET /a HTTP/1.1'));
		assert.deepEqual(await next(connection), [200, '/a', 'keep-alive']);
		connection.send(`\r\n${head('GET /b HTTP/1.1')}`);
		assert.deepEqual(await next(connection), [400, 'bad request', 'close']);
		await stage.counted({ '200 upstream': 1, 400: 1 });
	});
});

describe('pipelined requests', () => {
	it('are answered in their order, a thousand at once', async () => {
		using connection = await h1Raw(stage.proxy);
		const paths = Array.from({ length: 1000 }, (_, i) => `/${i}`);
		connection.send(paths.map((path) => head(`GET ${path} HTTP/1.1`)).join(''));
		for (const path of paths) assert.deepEqual(await next(connection), [200, path, 'keep-alive']);
		connection.send(head('GET /last HTTP/1.1'));
		assert.deepEqual(await next(connection), [200, '/last', 'keep-alive']);
		await stage.counted({ '200 upstream': 1001 });
	});

	it('may have bodies, and answers of any kind between them', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(
			[
				`${head('POST /1 HTTP/1.1', ['Content-Length: 5'])}hello`,
				`${head('POST /2 HTTP/1.1', ['Transfer-Encoding: chunked'])}5\r\nworld\r\n0\r\n\r\n`,
				`${WITHOUT_TOKEN}Content-Length: 3\r\n\r\nabc`,
				head('HEAD /3 HTTP/1.1'),
				head('TRACE /4 HTTP/1.1'),
				`${head('PUT /5 HTTP/1.1', ['Content-Length: 100000'])}${'x'.repeat(100_000)}`,
				head('GET /6 HTTP/1.1', ['Connection: close']),
			].join(''),
		);
		assert.deepEqual(await next(connection), [200, '/1hello', 'keep-alive']);
		assert.deepEqual(await next(connection), [200, '/2world', 'keep-alive']);
		assert.deepEqual(await next(connection), [401, 'unauthorized', 'keep-alive']);
		assert.deepEqual(await next(connection, 'HEAD'), [200, '', 'keep-alive']);
		assert.deepEqual(await next(connection), [405, 'method not allowed', 'keep-alive']);
		assert.deepEqual(await next(connection), [200, `/5${'x'.repeat(100_000)}`, 'keep-alive']);
		assert.deepEqual(await next(connection), [200, '/6', 'close']);
		await assertEnds(connection);
		await stage.counted({ '200 upstream': 5, 401: 1, missing: 1, 405: 1 });
	});

	it('pipelined requests that wait when the client leaves never reach the upstream', async () => {
		stage.script((exchange) => exchange.stall());
		try {
			const before = stage.upstream.requests.length;
			using connection = await h1Raw(stage.proxy);
			connection.send(head('GET /a HTTP/1.1').repeat(5));
			await stage.upstream.request(before + 1, 'complete');
			connection.close();
			await stage.noConnections();
			await stage.counted({});
			assert.equal(stage.upstream.requests.length, before + 1);
		} finally {
			stage.script(echo);
		}
	});
});

describe('a client that waits for a 100', () => {
	const lines = ['Expect: 100-continue', 'Content-Length: 5'];

	it('gets the refusal instead, and the connection ends, for the body may come or not', async () => {
		const cases: [string, number, Record<string, number>][] = [
			[`${WITHOUT_TOKEN}${lines.join('\r\n')}\r\n\r\n`, 401, { 401: 1, missing: 1 }],
			[head('POST /../a HTTP/1.1', lines), 400, { 400: 1 }],
			[head('POST /a HTTP/1.1', ['Upgrade: x', 'Connection: upgrade', ...lines]), 501, { 501: 1 }],
			[
				head('POST /a HTTP/1.1', [lines[0]!, `Content-Length: ${MAX_BODY_BYTES + 1}`]),
				413,
				{ [BODY_MODE === 'collected' ? '413' : '413 upstream']: 1 },
			],
		];
		for (const [bytes, status, rises] of cases) {
			await stage.refused(rises, async () => {
				using connection = await h1Raw(stage.proxy);
				connection.send(bytes);
				const response = await connection.readResponse();
				assert.equal(response.status, status);
				assert.deepEqual(response.informational, []);
				assert.deepEqual(headerValues(response.headers, 'connection'), ['close']);
				// It sends it after all.
				connection.send('hello');
				await assertEnds(connection);
			});
		}
	});

	it('gets none when it is an HTTP/1.0 client, has sent the body along, or has none', async () => {
		const cases: [string, string][] = [
			[`${head('POST /a HTTP/1.0', lines)}hello`, '/ahello'],
			[head('GET /a HTTP/1.1', ['Expect: 100-continue']), '/a'],
		];
		for (const [bytes, body] of cases) {
			using connection = await h1Raw(stage.proxy);
			connection.send(bytes);
			const response = await connection.readResponse();
			assert.equal(`${response.status} ${response.body}`, `200 ${body}`);
			assert.deepEqual(response.informational, []);
			await stage.counted({ '200 upstream': 1 });
		}
	});
});

describe('an answer before the end of the request', () => {
	/** Sends the head and megabytes behind it, whatever comes back, and only then looks. */
	async function answerToFlood(headBytes: string, chunked: boolean): Promise<H1Raw> {
		const connection = await h1Raw(stage.proxy);
		const piece = Buffer.alloc(64 * 1024, 'x');
		connection.send(headBytes);
		for (let sent = 0; sent < 10_000_000 && !connection.socket.destroyed; sent += piece.length) {
			const bytes = chunked ? Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]) : piece;
			const flushed = new Promise<void>((resolve) => {
				connection.socket.write(bytes, () => resolve());
			});
			await Promise.race([flushed, connection.closed]);
		}
		return connection;
	}

	const tooLarge = BODY_MODE === 'collected' ? '413' : '413 upstream';
	const floods: Record<string, [() => string, number, boolean, Record<string, number>]> = {
		'401, length declared': [
			() => `${WITHOUT_TOKEN}Content-Length: 10000000\r\n\r\n`,
			401,
			false,
			{ 401: 1, missing: 1 },
		],
		'413, in chunks': [() => head('POST /a HTTP/1.1', ['Transfer-Encoding: chunked']), 413, true, { [tooLarge]: 1 }],
		'400 for the framing': [
			() => head('POST /a HTTP/1.1', ['Content-Length: 10000000', 'Content-Length: 10000000']),
			400,
			false,
			{ 400: 1 },
		],
	};
	for (const [what, [bytes, status, chunked, rises]] of Object.entries(floods)) {
		it(`reaches a client that sends megabytes first, and the connection ends in order: ${what}`, async () => {
			using connection = await answerToFlood(bytes(), chunked);
			const response = await connection.readResponse();
			assert.equal(response.status, status);
			assert.equal(response.ended, 'complete');
			assert.deepEqual(headerValues(response.headers, 'connection'), ['close']);
			await assertEnds(connection);
			await stage.counted(rises);
		});
	}

	it('leaves the connection usable when little is left of the request, which is dropped', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(`${WITHOUT_TOKEN}Content-Length: 50000\r\n\r\n`);
		assert.deepEqual(await next(connection), [401, 'unauthorized', 'keep-alive']);
		connection.send('x'.repeat(50_000) + head('GET /a HTTP/1.1'));
		assert.deepEqual(await next(connection), [200, '/a', 'keep-alive']);
		await stage.counted({ 401: 1, missing: 1, '200 upstream': 1 });
	});

	it('an early response with Connection: close reaches a client that sends its small body late', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(`${WITHOUT_TOKEN}Connection: close\r\nContent-Length: 50000\r\n\r\n`);
		await until(() => connection.pending.length > 0, 'the answer');
		for (let i = 0; i < 5; i++) {
			await new Promise<void>((resolve) => {
				connection.socket.write('x'.repeat(10_000), () => resolve());
			});
		}
		assert.deepEqual(await next(connection), [401, 'unauthorized', 'close']);
		await assertEnds(connection);
		await stage.counted({ 401: 1, missing: 1 });
	});
});

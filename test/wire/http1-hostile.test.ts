import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type H1Raw, h1Raw } from '../fixtures/clients.ts';
import { headerValues, type RawResponse } from '../fixtures/http1-message.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE, testOnce } from '../fixtures/proxy.ts';
import { type Rises, type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const MAX_HEADER_BYTES = 16_384;
const MAX_BODY_BYTES = 100_000;

let stage: Stage;
let token: string;

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({ limits: { max_request_body_bytes: MAX_BODY_BYTES } });
});
after(() => stage.end());

/** A complete head with a valid token, to which the test adds a fault. `Host` is added unless the test sets it. */
function head(lines: readonly string[] = [], requestLine = 'GET /a HTTP/1.1'): string {
	const host = lines.some((line) => /^host\b/i.test(line)) ? [] : ['Host: localhost'];
	return `${[requestLine, ...host, `Authorization: Bearer ${token}`, ...lines].join('\r\n')}\r\n\r\n`;
}

interface Refusal {
	readonly status: number;
	readonly body: string;
	/** Default: the status, once. */
	readonly rises?: Rises;
	/** Whether the connection goes with it. Default true. */
	readonly closes?: boolean;
}

const BAD_REQUEST: Refusal = { status: 400, body: 'bad request' };
const BAD_PATH: Refusal = { status: 400, body: 'bad path' };

/** Asserts that it is this answer, and that the connection ends behind it in order, or serves on. */
async function assertRefused(connection: H1Raw, refusal: Refusal, method = 'GET'): Promise<RawResponse> {
	const { status, body, closes = true } = refusal;
	const response = await connection.readResponse(method);
	assert.equal(`${response.status} ${response.body}`, `${status} ${method === 'HEAD' ? '' : body}`);
	assert.deepEqual(headerValues(response.headers, 'content-length'), [String(body.length)]);
	assert.deepEqual(headerValues(response.headers, 'content-type'), ['text/plain; charset=utf-8']);
	assert.equal(headerValues(response.headers, 'connection').includes('close'), closes);
	if (closes) {
		assert.equal(String(await connection.readToEnd()), '', 'more than one answer');
		connection.socket.end();
		assert.equal(await connection.untilClosed(), 'closed');
	}
	return response;
}

/**
 * Sends the bytes on a connection of their own; of several, each on one of its own. All are refused as `Stage.refused`
 * means it.
 */
async function refused(bytes: string | readonly string[], refusal: Refusal = BAD_REQUEST, method = 'GET') {
	const all = typeof bytes === 'string' ? [bytes] : bytes;
	const { status, rises = { [status]: 1 }, closes = true } = refusal;
	const each = closes ? rises : sum(rises, ANOTHER);
	await stage.refused(sum(...all.map(() => each)), async () => {
		for (const one of all) await refusedOne(one, refusal, method);
	});
}

async function refusedOne(bytes: string, refusal: Refusal, method: string): Promise<void> {
	using connection = await h1Raw(stage.proxy);
	connection.send(bytes);
	try {
		await assertRefused(connection, refusal, method);
	} catch (error) {
		throw new Error(`${JSON.stringify(bytes)}: ${(error as Error).message}`, { cause: error });
	}
	if (refusal.closes ?? true) return;
	connection.send('GET /another HTTP/1.1\r\nHost: localhost\r\n\r\n');
	assert.equal((await connection.readResponse()).status, 401, 'the connection does not take another request');
}

/** A request without a token, which the upstream hears nothing of. */
const ANOTHER: Rises = { 401: 1, missing: 1 };

function sum(...all: readonly Rises[]): Rises {
	const total: Record<string, number> = {};
	for (const rises of all) for (const [name, rise] of Object.entries(rises)) total[name] = (total[name] ?? 0) + rise;
	return total;
}

/** What the upstream has got of the request that these bytes make, and the answer to it. */
async function forwarded(bytes: string, method = 'GET') {
	using connection = await h1Raw(stage.proxy);
	const before = stage.upstream.requests.length;
	connection.send(bytes);
	const response = await connection.readResponse(method);
	assert.equal(response.status, 200, `${response.status} ${response.body} for ${JSON.stringify(bytes)}`);
	await stage.counted({ '200 upstream': 1 });
	assert.equal(stage.upstream.requests.length, before + 1);
	return { response, request: stage.upstream.requests[before]! };
}

/** One or two for each rule: unit/data/http1/head-reader.test.ts and unit/gates have all the cases. */
describe('a head that is not HTTP/1.1, or is ambiguous', () => {
	testOnce('refuses a malformed request line, or another version of HTTP', async () => {
		const lines = ['GET /a', 'GET\t/a HTTP/1.1', 'G\x00T /a HTTP/1.1', 'GET /a\nb HTTP/1.1', 'GET /a HTTP/1.2'];
		await refused([...lines, '\x16\x03\x01'].map((line) => head([], line)));
	});

	testOnce('refuses a request target that is not a path, or is ambiguous', async () => {
		const targets = ['*', 'http://user@localhost/a', '//x', '/a\\b', '/a#b', '/a/%2e%2E/b', '/a/.;x/b', '/%00'];
		await refused(
			targets.map((target) => head([], `GET ${target} HTTP/1.1`)),
			BAD_PATH,
		);
		await refused(head([], 'GET localhost:443 HTTP/1.1'));
	});

	testOnce('refuses a folded field line, a bare CR or LF, and an invalid field name or value', async () => {
		const lines = ['X-A: b\r\n c', 'X-A: b\nX-C: d', 'X-A: b\rX-C: d', 'X-A: b\x00c', 'X-A : b', 'X-A', ': b'];
		await refused(lines.map((line) => head([line])));
		await refused([head().replaceAll('\r\n', '\n'), head().replace('\r\n\r\n', '\r\n\n')]);
	});

	testOnce('refuses a head without Host, with two, or with an invalid one', async () => {
		await refused(head().replace('Host: localhost\r\n', ''));
		await refused([['Host: a', 'hOST: a'], ['Host:'], ['Host: a@b']].map((lines) => head(lines)));
	});

	it('refuses ambiguous framing of a body', async () => {
		const framings = [
			['Content-Length: 5', 'Transfer-Encoding: chunked'],
			['Content-Length: 5', 'content-length: 5'],
			['Content-Length: +5'],
			['Content-Length: 5, 5'],
			['Transfer-Encoding: gzip, chunked'],
			['Transfer-Encoding: chunked\x0b'],
			['Transfer-Encoding : chunked'],
			['Transfer-Encoding:', ' chunked'],
		];
		await refused(framings.map((lines) => `${head(lines, 'POST /a HTTP/1.1')}5\r\nhello\r\n0\r\n\r\n`));
		await refused(`${head(['Transfer-Encoding: chunked'], 'POST /a HTTP/1.0')}5\r\nhello\r\n0\r\n\r\n`);
	});

	testOnce('refuses a head above max_header_bytes, whatever it contains', async () => {
		const tooLarge: Refusal = { status: 431, body: 'headers too large' };
		await refused(head([], `GET /${'a'.repeat(MAX_HEADER_BYTES)} HTTP/1.1`), tooLarge);
		// Megabytes that come too late to be needed: the client reads its answer all the same.
		await refused(head([`X-Long: ${'a'.repeat(4_000_000)}`]), tooLarge);
		const { request } = await forwarded(head([`X-Long: ${'a'.repeat(MAX_HEADER_BYTES - 1500)}`]));
		assert.equal(request.header('x-long')?.length, MAX_HEADER_BYTES - 1500);
	});
});

describe('a body that is not HTTP', () => {
	const post = (lines: readonly string[] = ['Transfer-Encoding: chunked']) => head(lines, 'POST /a HTTP/1.1');
	const bodyError: Refusal = { status: 400, body: 'body error' };

	/** The upstream gets nothing, or, where bodies are streamed, a request that is never complete. */
	async function broken(...bodies: string[]): Promise<void> {
		const all = bodies.map((body) => post() + body);
		if (BODY_MODE === 'collected') return await refused(all, bodyError);
		for (const bytes of all) {
			const before = stage.upstream.requests.length;
			using connection = await h1Raw(stage.proxy);
			connection.send(bytes);
			await assertRefused(connection, bodyError);
			await stage.counted({ '400 upstream': 1 });
			if (stage.upstream.requests.length > before) {
				const aborted = () => stage.upstream.requests[before]!.state === 'aborted';
				await stage.upstream.until(aborted, 'the request to be aborted');
			}
		}
	}

	/** unit/data/http1/chunk-decoder.test.ts has all of them. */
	it('refuses a malformed chunk size, end of a chunk or trailer, and a chunk extension of 20 kB', async () => {
		await broken(
			...['0x5', '', '5;a\x00b', `5;${'a'.repeat(20_000)}`].map((size) => `${size}\r\nhello\r\n0\r\n\r\n`),
			...['', 'x\r\n'].map((end) => `5\r\nhello${end}0\r\n\r\n`),
			...['X-A : b', 'X-A: b\nX-C: d'].map((trailer) => `5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`),
		);
	});

	it('a malformed body after the response ends the connection without another response', async () => {
		await stage.refused({ 401: 1, missing: 1 }, async () => {
			using connection = await h1Raw(stage.proxy);
			connection.send('POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n');
			assert.equal((await connection.readResponse()).status, 401);
			connection.socket.end('too little');
			assert.equal(String(await connection.readToEnd()), '');
			await connection.untilClosed();
		});
	});

	it('a body that ends early makes no complete request, and does not count for the breaker', async () => {
		for (const lines of [['Content-Length: 10'], ['Transfer-Encoding: chunked']]) {
			for (const leave of ['end', 'destroy'] as const) {
				const { bytesReceived, requests } = stage.upstream;
				const before = requests.length;
				using connection = await h1Raw(stage.proxy);
				await new Promise<void>((resolve) => {
					connection.socket.write(`${post(lines)}5\r\nhe`, () => resolve());
				});
				if (BODY_MODE === 'streaming') await stage.upstream.request(before + 1);
				connection.socket[leave]();
				await stage.noConnections();
				if (BODY_MODE === 'collected') assert.equal(stage.upstream.bytesReceived, bytesReceived);
				else await stage.upstream.until(() => requests[before]!.state === 'aborted', 'the request to be aborted');
				const answered = BODY_MODE === 'collected' ? '400' : '400 upstream';
				// A client that ends its side in the middle has made an error, and may still be told. One that is gone has not
				// been answered, but that it is gone may be noticed only by answering.
				if (leave === 'end') await stage.counted({ [answered]: 1 });
				else assert.match(JSON.stringify(await stage.whateverCounted()), /^\{("400( upstream)?":1)?\}$/);
				assert.equal(await stage.proxy.metric('proxy_circuit_state'), 0);
			}
		}
	});
});

describe('bytes after a request', () => {
	it('bytes after a request that are not HTTP are refused after its response', async () => {
		for (const garbage of ['garbage\r\n\r\n', '\x00']) {
			using connection = await h1Raw(stage.proxy);
			connection.send(head() + garbage);
			assert.equal((await connection.readResponse()).status, 200);
			await assertRefused(connection, BAD_REQUEST);
			await stage.counted({ '200 upstream': 1, 400: 1 });
		}
	});

	it('bytes after the last request of a connection are dropped', async () => {
		for (const more of ['garbage\r\n\r\n', head()]) {
			using connection = await h1Raw(stage.proxy);
			connection.send(head(['Connection: close']) + more);
			assert.equal((await connection.readResponse()).status, 200);
			assert.equal(String(await connection.readToEnd()), '');
			connection.socket.end();
			assert.equal(await connection.untilClosed(), 'closed');
			await stage.counted({ '200 upstream': 1 });
		}
	});

	it('make no request of what is the body of one', async () => {
		const smuggled = head([], 'GET /smuggled HTTP/1.1');
		const before = stage.upstream.requests.length;
		using connection = await h1Raw(stage.proxy);
		connection.send(head([`Content-Length: ${smuggled.length}`], 'POST /a HTTP/1.1') + smuggled + head());
		for (let i = 0; i < 2; i++) assert.equal((await connection.readResponse()).status, 200);
		await stage.counted({ '200 upstream': 2 });
		const requests = stage.upstream.requests.slice(before);
		assert.deepEqual(
			requests.map(({ target, body }) => [target, body.length]),
			[
				['/a', smuggled.length],
				['/a', 0],
			],
		);
	});
});

describe('CONNECT, HEAD and upgrades', () => {
	const refusal: Refusal = { status: 501, body: 'protocol upgrades are not supported' };
	const websocket = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Key: a', 'Sec-WebSocket-Version: 13'];

	testOnce('CONNECT and an upgrade to another protocol get 501, and the connection ends', async () => {
		await refused(`${head([], 'CONNECT localhost:443 HTTP/1.1')}\x16\x03\x01 and so on`, refusal);
		await refused(`${head(['Content-Length: 5'], 'CONNECT localhost:443 HTTP/1.1')}hello`, refusal);
		await refused(head(['Upgrade: h2c, websocket', 'Connection: Upgrade']), refusal);
		await refused(head(['Upgrade: websocket']), { ...refusal, closes: false });
		await refused(`${head([...websocket, 'Content-Length: 5'], 'POST /a HTTP/1.1')}hello`, refusal);
	});

	testOnce('HEAD gets no body with a refusal, and the next answer follows it at once', async () => {
		const missing = { status: 401, body: 'unauthorized', rises: { 401: 1, missing: 1 }, closes: false };
		await refused('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n', missing, 'HEAD');
		await refused(head(['Host: a', 'Host: b'], 'HEAD /a HTTP/1.1'), BAD_REQUEST, 'HEAD');
	});

	testOnce('an upgrade takes nothing of what follows it for a request, in the same read or later', async () => {
		const h2c = head(['Upgrade: h2c', 'Connection: Upgrade']);
		const h2cPost = `${head(['Upgrade: h2c', 'Connection: Upgrade', 'Content-Length: 5'], 'POST /a HTTP/1.1')}hello`;
		for (const [bytes, status, rises] of [
			[h2c, 200, { '200 upstream': 1 }],
			[h2cPost, 200, { '200 upstream': 1 }],
			[head(websocket), 501, { 501: 1 }],
		] as const) {
			for (const pause of [false, true]) {
				const before = stage.upstream.requests.length;
				using connection = await h1Raw(stage.proxy);
				// The second read begins inside a field: the bytes there are not a request.
				connection.send(`${bytes}GET /first HTTP/1.1\r\nX-A: `);
				if (pause) await until(() => connection.pending.length > 0, 'the answer');
				connection.send(`\r\n${head([], 'GET /second HTTP/1.1')}`);
				assert.equal((await connection.readResponse()).status, status);
				assert.equal(String(await connection.readToEnd()), '');
				connection.socket.end();
				assert.equal(await connection.untilClosed(), 'closed');
				await stage.counted(rises);
				const targets = stage.upstream.requests.slice(before).map(({ target }) => target);
				assert.deepEqual(targets, status === 200 ? ['/a'] : []);
			}
		}
	});
});

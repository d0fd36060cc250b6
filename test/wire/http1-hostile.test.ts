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

/** One for each rule: unit/data/http1/head-reader.test.ts and unit/gates have all the cases. */
describe('a request line is refused', () => {
	testOnce('refuses a malformed request line, or another version of HTTP', async () => {
		await refused(
			[
				...['HTTP/0.9', 'HTTP/2.0', 'HTTP/1.2', 'HTTP/11'].map((version) => `GET /a ${version}`),
				...['GET /a', ' GET /a HTTP/1.1', 'GET\t/a HTTP/1.1', 'GET /a HTTP/1.1 ', 'GET /a b HTTP/1.1'],
				...['G\x00T /a HTTP/1.1', 'GET: /a HTTP/1.1', '\x16\x03\x01', 'HTTP/1.1 200 OK'],
				...['/a\x00b', '/a\x7fb', '/a\rb', '/a\nb', '/\xff'].map((target) => `GET ${target} HTTP/1.1`),
			].map((line) => head([], line)),
		);
		await refused('GET /a\r\n\r\n');
	});

	testOnce('refuses a request target that is not a path, or is ambiguous', async () => {
		await refused(
			[
				...['*', 'ftp://localhost/a', 'http://user@localhost/a', 'http://a/../b'],
				...['//x', '/a\\b', '/a#b', '/%', '/a/%2e%2E/b', '/a/../b', '/a/.;x/b', '/a/%252e/b', '/%00'],
			].map((target) => head([], `GET ${target} HTTP/1.1`)),
			BAD_PATH,
		);
		await refused(head([], 'OPTIONS * HTTP/1.1'), BAD_PATH);
		await refused(['a', 'localhost:443', '?a', ''].map((target) => head([], `GET ${target} HTTP/1.1`)));
	});
});

describe('a head is refused', () => {
	testOnce('refuses a folded field line, and a bare CR or LF', async () => {
		await refused(
			[['X-A: b', ' c'], [' X-A: b'], ['X-A: b\nX-C: d'], ['X-A: b\rX-C: d'], ['X-A: b\n'], ['\rX-A: b']].map((lines) =>
				head(lines),
			),
		);
		await refused([
			head().replaceAll('\r\n', '\n'),
			head().replace('\r\n\r\n', '\n\n'),
			head().replace('\r\n\r\n', '\r\n\n'),
			head().replace('HTTP/1.1\r\n', 'HTTP/1.1\n'),
		]);
	});

	testOnce('refuses an invalid field name, and a control character in a value', async () => {
		await refused(
			['X-A: b\x00c', 'X-A: b\x7fc', 'X\x00A: b', ': b', 'X-A : b', 'X A: b', 'X-A', 'X-Ä: b', '"X": b'].map((line) =>
				head([line]),
			),
		);
	});

	testOnce('refuses a head without Host, with two, or with an invalid one', async () => {
		await refused(head().replace('Host: localhost\r\n', ''));
		await refused(
			[
				['Host: a', 'hOST: a'],
				...['', ' a b', ' http://a', ' a@b', ' a:b', ' [::1'].map((host) => [`Host:${host}`]),
			].map((lines) => head(lines)),
		);
	});

	it('refuses ambiguous framing of a body', async () => {
		await refused(
			[
				['Content-Length: 5', 'Transfer-Encoding: chunked'],
				['Transfer-Encoding: chunked', 'Content-Length: 5'],
				['Content-Length: 5', 'content-length: 5'],
				...['+5', '5, 5', '', '0x5', '5 5', '00000000000000005', '9'.repeat(400)].map((length) => [
					`Content-Length: ${length}`,
				]),
				...['xchunked', 'chunked, chunked', 'gzip, chunked', 'identity', '', 'chunked\x0b'].map((coding) => [
					`Transfer-Encoding: ${coding}`,
				]),
				['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
				['Transfer-Encoding : chunked'],
				['Transfer-Encoding:', ' chunked'],
			].map((lines) => `${head(lines, 'POST /a HTTP/1.1')}5\r\nhello\r\n0\r\n\r\n`),
		);
		await refused(`${head(['Transfer-Encoding: chunked'], 'POST /a HTTP/1.0')}5\r\nhello\r\n0\r\n\r\n`);
	});

	testOnce('refuses a head above max_header_bytes, whatever it contains', async () => {
		const tooLarge: Refusal = { status: 431, body: 'headers too large' };
		await refused(head([`X-Long: ${'a'.repeat(MAX_HEADER_BYTES)}`]), tooLarge);
		await refused(head([], `GET /${'a'.repeat(MAX_HEADER_BYTES)} HTTP/1.1`), tooLarge);
		await refused(head([`${'a'.repeat(MAX_HEADER_BYTES)}: b`]), tooLarge);
		await refused(head(Array.from({ length: MAX_HEADER_BYTES / 8 }, (_, i) => `x${i}: abcdef`)), tooLarge);
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

	it('refuses a malformed chunk size', async () => {
		const sizes = ['0x5', '+5', '5 ', '', 'ffffffffffffffffff', '5\n', '5;a\x00b'];
		await broken(...sizes.map((size) => `${size}\r\nhello\r\n0\r\n\r\n`), '5\nhello\n0\n\n');
	});

	it('refuses a malformed end of a chunk', async () => {
		await broken(...['', '\n', '\r', 'x\r\n', '\n\r'].map((end) => `5\r\nhello${end}0\r\n\r\n`));
	});

	it('refuses a chunk extension of 20 kB', async () => {
		await broken(`5;${'a'.repeat(20_000)}\r\nhello\r\n0\r\n\r\n`);
	});

	it('refuses malformed trailers', async () => {
		const trailers = ['X A: b', 'X-A : b', 'X-A: b\x00', 'X-A: b\nX-C: d', ' X-A: b', `X-A: ${'a'.repeat(20_000)}`];
		await broken(...trailers.map((trailer) => `5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`));
	});

	it('refuses a malformed chunk after a valid one', async () => {
		await broken('5\r\nhello\r\n5\r\nworld\r\nx\r\n');
	});

	it('refuses a malformed body of a pipelined request after the response to the request before it', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(`${head()}${post()}5\r\nhello\r\nx\r\n`);
		assert.equal((await connection.readResponse()).status, 200);
		await assertRefused(connection, bodyError);
		await stage.counted({ '200 upstream': 1, [BODY_MODE === 'collected' ? '400' : '400 upstream']: 1 });
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
		for (const garbage of ['garbage\r\n\r\n', '\x00', 'GET / HTTP/9.9\r\n\r\n', ': \r\n\r\n']) {
			using connection = await h1Raw(stage.proxy);
			connection.send(head() + garbage);
			assert.equal((await connection.readResponse()).status, 200);
			await assertRefused(connection, BAD_REQUEST);
			await stage.counted({ '200 upstream': 1, 400: 1 });
		}
	});

	it('bytes after the last request of a connection are dropped', async () => {
		for (const more of ['garbage\r\n\r\n', head(), '\x00'.repeat(100_000)]) {
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

describe('a method', () => {
	testOnce('CONNECT gets 501 as its answer, and the connection ends', async () => {
		const refusal = { status: 501, body: 'protocol upgrades are not supported' };
		await refused(head([], 'CONNECT localhost:443 HTTP/1.1'), refusal);
		await refused(`${head([], 'CONNECT localhost:443 HTTP/1.1')}\x16\x03\x01 and so on`, refusal);
		await refused(`${head(['Content-Length: 5'], 'CONNECT localhost:443 HTTP/1.1')}hello`, refusal);
		await refused(`${head(['Transfer-Encoding: chunked'], 'CONNECT localhost:443 HTTP/1.1')}0\r\n\r\n`, refusal);
		const unauthorized = { status: 401, body: 'unauthorized', rises: { 401: 1, missing: 1 } };
		await refused('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', unauthorized);
	});

	testOnce('CONNECT waits for its turn', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(`${head()}${head()}${head([], 'CONNECT localhost:443 HTTP/1.1')}`);
		for (let i = 0; i < 2; i++) assert.equal((await connection.readResponse()).status, 200);
		await assertRefused(connection, { status: 501, body: 'protocol upgrades are not supported' });
		await stage.counted({ '200 upstream': 2, 501: 1 });
	});

	testOnce('HEAD gets no body with a refusal, and the next answer follows it at once', async () => {
		const missing = { status: 401, body: 'unauthorized', rises: { 401: 1, missing: 1 }, closes: false };
		await refused('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n', missing, 'HEAD');
		await refused(head([], 'HEAD /../a HTTP/1.1'), BAD_PATH, 'HEAD');
		await refused(head(['Host: a', 'Host: b'], 'HEAD /a HTTP/1.1'), BAD_REQUEST, 'HEAD');
	});
});

describe('an upgrade', () => {
	const refusal: Refusal = { status: 501, body: 'protocol upgrades are not supported' };
	const websocket = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Key: a', 'Sec-WebSocket-Version: 13'];

	testOnce('an upgrade to another protocol gets 501', async () => {
		await refused(
			['websocket', 'WebSocket', 'TLS/1.3', 'HTTP/2.0', 'h2c, websocket', 'anything'].map((protocol) =>
				head([`Upgrade: ${protocol}`, 'Connection: Upgrade']),
			),
			refusal,
		);
		await refused(head(['Upgrade: websocket']), { ...refusal, closes: false });
		await refused(`${head([...websocket, 'Content-Length: 5'], 'POST /a HTTP/1.1')}hello`, refusal);
		await refused(
			`${head([...websocket, 'Transfer-Encoding: chunked'], 'POST /a HTTP/1.1')}5\r\nhello\r\n0\r\n\r\n`,
			refusal,
		);
	});

	testOnce('takes nothing of what follows it for a request, in the same read or later', async () => {
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

	testOnce('a pipelined upgrade waits until the requests before it have their responses', async () => {
		using connection = await h1Raw(stage.proxy);
		connection.send(head().repeat(3) + head(websocket) + head());
		for (let i = 0; i < 3; i++) {
			const { status, headers } = await connection.readResponse();
			assert.equal(status, 200);
			assert.deepEqual(headerValues(headers, 'connection'), ['keep-alive']);
		}
		await assertRefused(connection, refusal);
		await stage.counted({ '200 upstream': 3, 501: 1 });
	});
});

describe('fields and forms that a client may not send', () => {
	testOnce("an absolute target gives the path, and Host is the proxy's own", async () => {
		for (const target of ['http://evil.test/a?b=c', 'https://evil.test:99/a?b=c', 'HTTP://evil.test/a?b=c']) {
			const { request } = await forwarded(head([], `GET ${target} HTTP/1.1`));
			assert.equal(request.target, '/a?b=c');
			assert.equal(request.header('host'), stage.upstream.authority);
		}
	});

	testOnce('thousands of fields reach the upstream, none of them lost', async () => {
		const lines = Array.from({ length: 2300 }, (_, i) => `x${i.toString(36)}:`);
		const { request } = await forwarded(head(lines));
		assert.equal(request.headers.filter(([, value]) => value === '').length, 2300);
	});
});

describe('a client that reads nothing', () => {
	it('a client that pipelines and reads no response is not read either', async () => {
		const before = stage.upstream.requests.length;
		let release = () => {};
		const held = new Promise<void>((resolve) => {
			release = resolve;
		});
		stage.script(async (exchange) => {
			await held;
			exchange.respond({ body: 'ok' });
		});
		try {
			using connection = await h1Raw(stage.proxy);
			const batch = head().repeat(100);
			const batches = 1000;
			let taken = 0;
			// One after the other, so that each is told when it is taken.
			const write = () => connection.socket.write(batch, () => ++taken < batches && write());
			write();
			await stage.upstream.request(before + 1);
			let last = -1;
			const stopped = async () => {
				last = taken;
				await new Promise((resolve) => setTimeout(resolve, 400));
				return taken === last;
			};
			await until(stopped, 'the proxy to stop reading');
			assert.ok(taken < batches / 2, `${taken} of ${batches} batches were read`);
			assert.ok((await stage.proxy.metric('process_resident_memory_bytes')) < 350e6);
		} finally {
			release();
			stage.script((exchange) => exchange.respond({ body: 'ok' }));
		}
		await stage.noConnections();
		// However many were answered until the proxy noticed that the client was gone.
		await stage.whateverCounted();
	});
});

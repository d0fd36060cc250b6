import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { h2Connect, h2Raw } from '../fixtures/clients.ts';
import { ERROR_CODE, FRAME, headersFrame, requestFields, SETTING, windowUpdateFrame } from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import type { Exchange } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const MAX_BODY_BYTES = 1_000_000;

let stage: Stage;
let token: string;

/** Answers with the target, and with the request's body behind it. */
const echo = (exchange: Exchange) =>
	exchange.respond({ body: Buffer.concat([Buffer.from(exchange.request.target), exchange.request.body]) });

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({ limits: { max_request_body_bytes: MAX_BODY_BYTES }, script: echo });
});
after(() => stage.end());

const head = (method: string, path: string) => requestFields(method, path, token);

describe('an HTTP/2 connection', () => {
	it('serves many requests side by side, as many as are allowed at any time, each with its own answer', async () => {
		await using connection = await h2Connect(stage.proxy);
		// From then on the client knows the limit, and keeps what goes beyond it waiting.
		assert.equal((await connection.request()).status, 200);
		await stage.counted({ '200 upstream': 1 });
		const paths = Array.from({ length: 300 }, (_, i) => `/${i}`);
		const answers = await Promise.all(
			paths.map((path) => connection.request({ path, method: 'PUT', body: `:${path}` })),
		);
		assert.deepEqual(
			answers.map(({ status, text, ended }) => [status, text, ended]),
			paths.map((path) => [200, `${path}:${path}`, 'complete']),
		);
		await stage.counted({ '200 upstream': paths.length });
	});
});

describe('an answer over HTTP/2 before the end of the request', () => {
	const tooLarge = BODY_MODE === 'collected' ? '413' : '413 upstream';

	async function* megabytes() {
		for (let sent = 0; sent < 10_000_000; sent += 65_536) yield Buffer.alloc(65_536, 'x');
	}

	it('reaches a client that goes on sending; the connection stays', async () => {
		await using connection = await h2Connect(stage.proxy);
		for (const [headers, status, rises] of [
			[{ authorization: 'Bearer no' }, 401, { 401: 1, invalid: 1 }],
			[{ 'content-length': '10000000' }, 413, { [tooLarge]: 1 }],
			[{}, 413, { [tooLarge]: 1 }],
		] as const) {
			const answer = await connection.request({ method: 'POST', headers, body: megabytes() });
			assert.equal(answer.status, status);
			assert.equal(answer.ended, 'complete');
			assert.notEqual(answer.text, '');
			await stage.counted(rises);
			assert.equal((await connection.request({ path: '/next' })).text, '/next');
			await stage.counted({ '200 upstream': 1 });
		}
	});
});

describe('a window of nothing', () => {
	const BODY = 3_000_000;
	/** Room for one body and not for two. */
	const ROOM = 5_000_000;
	/** A busy machine has to make an answer of `BODY` bytes in that time, too. */
	const LIMIT_MS = 1500;
	let narrow: Stage;
	before(async () => {
		narrow = await startStage({
			limits: { upstream_timeout_secs: LIMIT_MS / 1000, max_buffered_bytes: ROOM },
			script: (exchange) => exchange.respond({ body: Buffer.alloc(BODY, 'x') }),
		});
	});
	// What clients of earlier tests hold leaves no room for a body.
	beforeEach(() => narrow.noConnections());
	after(async () => {
		await narrow.noConnections();
		await narrow[Symbol.asyncDispose]();
	});

	it('a window of 0 on a response ends the stream at the limit, and releases its memory', async () => {
		using connection = await h2Raw(narrow.proxy, { settings: [[SETTING.INITIAL_WINDOW_SIZE, 0]] });
		const begun = performance.now();
		connection.send(headersFrame(1, head('GET', '/a')));
		await connection.frameOf(FRAME.HEADERS, 1);
		assert.equal(await connection.resetCode(1), ERROR_CODE.INTERNAL_ERROR);
		const ms = performance.now() - begun;
		assert.ok(ms >= LIMIT_MS - 10 && ms < LIMIT_MS + 6000, `reset after ${ms} ms`);
		assert.equal(connection.frames.filter(({ type }) => type === FRAME.DATA).length, 0);
		await narrow.counted({ '200 upstream': 1 });
		// The upstream is not to blame, and is not kept waiting.
		await until(() => narrow.upstream.openConnections.length <= 1, 'the upstream to be let go');
		await using other = await h2Connect(narrow.proxy);
		assert.equal((await other.request()).body.length, BODY);
		await narrow.counted({ '200 upstream': 1 });
	});

	it('a connection window of 0, and a client that reads nothing, end at the limit and release their memory', async () => {
		using connection = await h2Raw(narrow.proxy, { settings: [[SETTING.INITIAL_WINDOW_SIZE, 0x7fffffff]] });
		connection.send(headersFrame(1, head('GET', '/a')));
		assert.equal(await connection.resetCode(1), ERROR_CODE.INTERNAL_ERROR);
		await narrow.counted({ '200 upstream': 1 });
		using deaf = await h2Raw(narrow.proxy, { settings: [[SETTING.INITIAL_WINDOW_SIZE, 0x7fffffff]] });
		deaf.send(windowUpdateFrame(0, 0x7fff0000));
		deaf.socket.pause();
		for (let id = 1; id < 20; id += 2) {
			deaf.send(headersFrame(id, head('GET', '/a')));
			await until(async () => Object.keys(await narrow.whateverCounted()).length > 0, 'the answer to begin');
		}
		await using other = await h2Connect(narrow.proxy);
		const served = async () => (await other.request()).status === 200;
		await until(served, 'room for another body');
		await narrow.whateverCounted();
	});
});

/** Upstreams that violate the protocol, close in the middle of a response, or stop sending. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { heldBody } from '../fixtures/bodies.ts';
import { type Answer, connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { ERROR_CODE } from '../fixtures/h2-frames.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { BODY_MODE, startProxy } from '../fixtures/proxy.ts';
import { CIRCUIT, type Lane, startLanes } from '../fixtures/stage.ts';
import type { Script } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const COLLECTED = BODY_MODE === 'collected';
const UPSTREAM_MS = 800;
const [edge, impatient] = await Promise.all([
	startLanes({ lanes: 30, workers: 1, config: { default_cooldown_secs: 3600 } }),
	startLanes({
		lanes: 8,
		workers: 1,
		config: { default_cooldown_secs: 3600 },
		limits: { upstream_timeout_secs: UPSTREAM_MS / 1000, request_body_timeout_secs: UPSTREAM_MS / 1000 },
	}),
]);
const { proxy } = edge;
after(() => Promise.all([edge.close(), impatient.close()]));

const OK = 'HTTP/1.1 200 OK\r\n';

/**
 * Heads of which no part may reach the client. Behind each comes what would make it a whole answer. All that are refused are in
 * unit/data/upstream/response-parser.test.ts.
 */
const MALFORMED_HEADS: Readonly<Record<string, string>> = {
	'one Content-Length twice': `${OK}content-length: 4\r\ncontent-length: 4\r\n\r\nevil`,
	'a folded line': `${OK}x-a: 1\r\n 2\r\ncontent-length: 4\r\n\r\nevil`,
	'101 that nobody asked for': 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nevil',
};

/** What goes wrong behind a good head: the client may have part of it, and must see that it is a part. */
const BROKEN_BODIES: Readonly<Record<string, Script>> = {
	'is reset in the middle of its length': (exchange) => exchange.truncate(10, { body: 'half', by: 'reset' }),
	'ends between two chunks': (exchange) => {
		exchange.startChunked();
		exchange.chunk('half');
		exchange.end();
	},

	'is reset while its end is to tell its length': (exchange) => {
		exchange.write(Buffer.concat([exchange.head({ headers: [['connection', 'close']] }), Buffer.from('half')]));
		exchange.socket.write('', () => exchange.reset());
	},
	'has a chunk without its CRLF': (exchange) => {
		exchange.startChunked();
		exchange.chunk('half');
		exchange.write('4\r\nevil0\r\n\r\n');
	},
};

for (const protocol of PROTOCOLS) {
	const ask = ({ path }: Lane, options = {}): Promise<Answer> => edge.request(protocol, { path, ...options });

	/** The upstream failed: its breaker is open, and it is let go. What was counted of it is this and no more. */
	const assertOpened = async (lane: Lane, counted: Record<number, number>) => {
		deepEqual(await lane.look(), { circuit: CIRCUIT.open, counted });
		await lane.upstream.until(
			({ trafficConnections }) => trafficConnections.every(({ socket }) => socket.destroyed),
			'the connection to be dropped',
		);
		equal(lane.upstream.requests.length, 1, 'requests at the upstream');
	};

	/** The client's answer is an error where it has been collected, and otherwise visibly a part. */
	const assertBrokenOff = (answer: Answer, status = 502, body = 'bad gateway') => {
		if (COLLECTED) return assertOwnAnswer(answer, status, body);
		// 0 where the reset has overtaken the head.
		ok(answer.status === 200 || answer.status === 0, `${answer.status}`);
		notEqual(answer.ended, 'complete', 'it looks whole');
		if (protocol === 'h2') equal(answer.resetCode, ERROR_CODE.INTERNAL_ERROR);
	};
	const COUNTED_BROKEN_OFF = COLLECTED ? { 502: 1 } : { 200: 1 };

	describe(`malformed answers over ${protocol}`, () => {
		for (const [what, bytes] of Object.entries(MALFORMED_HEADS)) {
			test(`${what} is 502, opens the breaker, and nothing of it passes`, async () => {
				const lane = edge.lane();
				lane.upstream.script = (exchange) => exchange.write(bytes);
				assertOwnAnswer(await ask(lane), 502, 'bad gateway');
				await assertOpened(lane, { 502: 1 });
			});
		}

		test('a connection that ends without a byte is 502, also for POST, which is sent once', async () => {
			const lane = edge.lane();
			lane.upstream.script = (exchange) => exchange.end();
			assertOwnAnswer(await ask(lane, { method: 'POST', body: 'once' }), 502, 'bad gateway');
			await assertOpened(lane, { 502: 1 });
		});
	});

	describe(`answers that break off, over ${protocol}`, () => {
		for (const [what, script] of Object.entries(BROKEN_BODIES)) {
			test(`a body that ${what} never looks whole, and opens the breaker`, async () => {
				const lane = edge.lane();
				lane.upstream.script = script;
				assertBrokenOff(await ask(lane, { method: 'POST', body: 'once' }));
				await assertOpened(lane, COUNTED_BROKEN_OFF);
			});
		}

		test('the next request is not served from what is left of the broken answer', async () => {
			const lane = edge.lane();
			const other = edge.lane();
			lane.upstream.script = BROKEN_BODIES['has a chunk without its CRLF']!;
			assertBrokenOff(await ask(lane));
			equal((await ask(other)).text, 'ok');
		});
	});

	describe(`silence, over ${protocol}`, { concurrency: 8 }, () => {
		const askAlone = ({ path }: Lane, options = {}) => request(protocol, impatient.proxy, { path, ...options });

		test('a head that comes byte by byte is 504 at the limit', async () => {
			const lane = impatient.lane();
			lane.upstream.script = (exchange) => exchange.drip(`${OK}x-a: ${'a'.repeat(400)}\r\n\r\n`, 20);
			const startedAt = performance.now();
			assertOwnAnswer(await askAlone(lane), 504, 'upstream timeout');
			ok(performance.now() - startedAt >= UPSTREAM_MS);
			await assertOpened(lane, { 504: 1 });
		});

		test('a body that stops in the middle is 504 if it is collected, and broken off if it streams', async () => {
			const lane = impatient.lane();
			lane.upstream.script = (exchange) => {
				exchange.startChunked();
				exchange.chunk('half');
			};
			const startedAt = performance.now();
			assertBrokenOff(await askAlone(lane), 504, 'upstream timeout');
			ok(performance.now() - startedAt >= UPSTREAM_MS);
			await assertOpened(lane, COLLECTED ? { 504: 1 } : { 200: 1 });
		});

		test('a body that takes longer than the limit is 504 if it is collected, and passes if it streams', async () => {
			const lane = impatient.lane();
			lane.upstream.script = async (exchange) => {
				exchange.startChunked();
				await exchange.drip('1\r\nx\r\n'.repeat(40), 10);
				exchange.lastChunk();
			};
			const startedAt = performance.now();
			const answer = await askAlone(lane);
			ok(performance.now() - startedAt > UPSTREAM_MS, 'the upstream was too fast for this test');
			if (COLLECTED) {
				assertOwnAnswer(answer, 504, 'upstream timeout');
				return assertOpened(lane, { 504: 1 });
			}
			equal(answer.text, 'x'.repeat(40));
			equal(answer.ended, 'complete');
			equal(await lane.circuit(), CIRCUIT.closed);
		});

		test('an answer that begins while its client stops uploading does not make the upstream the culprit', async () => {
			const lane = impatient.lane();
			lane.upstream.early = true;
			lane.upstream.script = (exchange) => {
				exchange.startChunked();
				exchange.chunk('first');
			};
			const answer = await askAlone(lane, { method: 'POST', body: heldBody('half') });
			if (COLLECTED) {
				assertOwnAnswer(answer, 408, 'slow client');
			} else {
				equal(answer.text, 'first');
				notEqual(answer.ended, 'complete', 'it looks whole');
			}
			equal(await lane.circuit(), CIRCUIT.closed);
		});
	});

	describe(`connections that fail, over ${protocol}`, () => {
		test('an upstream that fails in the middle of the upload is 502 and opens the breaker', async () => {
			const lane = edge.lane();
			lane.upstream.early = true;
			lane.upstream.script = (exchange) => exchange.reset();
			const body = COLLECTED ? 'whole' : heldBody('half');
			const answer = await request(protocol, proxy, { method: 'POST', path: lane.path, body });
			assertOwnAnswer(answer, 502, 'bad gateway');
			await assertOpened(lane, { 502: 1 });
		});
	});

	describe(`clients that leave, over ${protocol}`, () => {
		const assertLetGo = async (lane: Lane, gone: Promise<Answer>) => {
			notEqual((await gone).ended, 'complete');
			await lane.upstream.until(
				({ trafficConnections }) => trafficConnections.every(({ socket }) => socket.destroyed),
				'the upstream to be let go',
			);
			const { authority } = lane.upstream;
			await until(
				async () => (await proxy.metric('proxy_upstream_connections', { upstream: authority })) === 0,
				'the gauges of connections to fall',
			);
			equal(await lane.circuit(), CIRCUIT.closed);
			lane.upstream.script = (exchange) => exchange.respond({ body: 'ok' });
			lane.upstream.early = false;
			equal((await ask(lane)).status, 200);
		};

		test('a client that leaves before the response cancels its request, and nothing counts for the breaker', async () => {
			const lane = edge.lane();
			lane.upstream.script = (exchange) => exchange.stall();
			await using client = await connect(protocol, proxy);
			const gone = client.request({ method: 'POST', path: lane.path, body: 'whole' });
			await lane.upstream.request(1, 'complete');
			client.socket.destroy();
			await assertLetGo(lane, gone);
			deepEqual(await lane.counted(), { 200: 1 }, 'the request that came after');
		});

		test('a client that leaves during the response cancels its request, and nothing counts for the breaker', async () => {
			const lane = edge.lane();
			const sent = Promise.withResolvers<void>();
			lane.upstream.script = async (exchange) => {
				exchange.startChunked();
				exchange.chunk(Buffer.alloc(200_000));
				sent.resolve();
				await exchange.stall();
			};
			await using client = await connect(protocol, proxy);
			const gone = client.request({ path: lane.path });
			await sent.promise;
			if (!COLLECTED) {
				const { authority } = lane.upstream;
				const answered = { upstream: authority, status: '200' };
				await until(() => proxy.metric('proxy_requests_total', answered), 'the answer to begin');
			}
			client.socket.destroy();
			await assertLetGo(lane, gone);
		});
	});
}

test('a name that does not resolve and an address without a host are 502 or 504, and 503 while the breaker is open', async () => {
	await using lost = await startProxy({
		config: { health_interval_secs: 3600, default_cooldown_secs: 1 },
		limits: { upstream_timeout_secs: 1 },
		routes: [
			{ prefix: '/name', upstream: 'http://nowhere.invalid:80' },
			{ prefix: '/port', upstream: 'http://127.0.0.1:1' },
		],
	});
	for (const protocol of PROTOCOLS) {
		for (const path of ['/name', '/port']) {
			const answer = await until(async () => {
				const answer = await request(protocol, lost, { path });
				return answer.status === 503 ? undefined : answer;
			}, 'the cooldown to be over');
			if (path === '/port' || answer.status === 502) assertOwnAnswer(answer, 502, 'bad gateway');
			else assertOwnAnswer(answer, 504, 'upstream timeout');
			assertOwnAnswer(await request(protocol, lost, { path }), 503, 'upstream unavailable');
		}
	}
});

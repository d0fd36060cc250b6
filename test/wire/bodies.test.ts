/** Request bodies: size, time, framing, and `Expect: 100-continue`. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { countedBytes, heldBody, inPieces } from '../fixtures/bodies.ts';
import { connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { BODY_MODE, startProxy } from '../fixtures/proxy.ts';
import { CIRCUIT, type Lane, startLanes } from '../fixtures/stage.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const LIMIT = 100_000;
const BODY_MS = 1000;
const UPSTREAM_MS = 1500;
const COLLECTED = BODY_MODE === 'collected';

const edge = await startLanes({
	lanes: 24,
	// One pool of connections, so that a test knows when there is an idle one.
	workers: 1,
	limits: {
		max_request_body_bytes: LIMIT,
		request_body_timeout_secs: BODY_MS / 1000,
		upstream_timeout_secs: UPSTREAM_MS / 1000,
	},
});
after(() => edge.close());
const { proxy } = edge;

/** The client was at fault, or left: the breaker counts nothing, and the upstream sees each body as broken off. */
async function assertUntouched({ circuit, path, upstream }: Lane): Promise<void> {
	equal(await circuit(), CIRCUIT.closed);
	equal((await request('h2', proxy, { path: `${path}/next` })).status, 200, 'the next request');
	await upstream.until(
		({ requests }) => requests.every(({ method, state }) => state === (method === 'POST' ? 'aborted' : 'complete')),
		'bodies to be broken off',
	);
	if (COLLECTED) ok(!upstream.requests.some(({ method }) => method === 'POST'), 'a part of a body was delivered');
}

for (const protocol of PROTOCOLS) {
	describe(`request bodies over ${protocol}`, () => {
		test('a body of exactly the limit passes, with and without a declared length', async () => {
			const { path, upstream } = edge.lane();
			const body = countedBytes(LIMIT);
			for (const sent of [body, inPieces(body, 1, 16_384, 7, 40_000)]) {
				equal((await request(protocol, proxy, { method: 'POST', path, body: sent })).status, 200);
				const received = upstream.requests.at(-1)!;
				ok(received.body.equals(body), 'the body has changed on its way');
				const declared = COLLECTED || sent === body;
				equal(received.header('content-length'), declared ? String(LIMIT) : undefined);
				equal(received.header('transfer-encoding'), declared ? undefined : 'chunked');
			}
		});

		test('a declared length of one byte more is refused before the upstream hears of it', async () => {
			const lane = edge.lane();
			const { path, upstream } = lane;
			const counted = await edge.during(async () => {
				const body = Buffer.alloc(LIMIT + 1);
				const answer = await request(protocol, proxy, { method: 'POST', path, body });
				assertOwnAnswer(answer, 413, 'payload too large');
			});
			deepEqual(counted, COLLECTED ? { 413: 1 } : { '413 upstream': 1 });
			equal(upstream.bytesReceived, 0);
			await assertUntouched(lane);
		});

		test('an undeclared body of one byte more is cut and refused, and the upstream never gets a whole request', async () => {
			const lane = edge.lane();
			const { path } = lane;
			const counted = await edge.during(async () => {
				const body = inPieces(Buffer.alloc(LIMIT + 1), 10_000);
				assertOwnAnswer(await request(protocol, proxy, { method: 'POST', path, body }), 413, 'payload too large');
			});
			deepEqual(counted, COLLECTED ? { 413: 1 } : { '413 upstream': 1 });
			await assertUntouched(lane);
		});

		test('a body of any method is forwarded, in one piece or in many', async () => {
			const { path, upstream } = edge.lane();
			for (const method of ['GET', 'DELETE', 'PUT']) {
				for (const body of [Buffer.from('four'), inPieces(Buffer.from('four'), 1)]) {
					equal((await request(protocol, proxy, { method, path, body })).status, 200, method);
					equal(upstream.requests.at(-1)!.method, method);
					equal(String(upstream.requests.at(-1)!.body), 'four', method);
				}
			}
		});

		test('a client that stops in the middle of its body is cut off at the limit', async () => {
			const lane = edge.lane();
			const { path } = lane;
			const startedAt = performance.now();
			const counted = await edge.during(async () => {
				const answer = await request(protocol, proxy, { method: 'POST', path, body: heldBody('half') });
				if (COLLECTED) assertOwnAnswer(answer, 408, 'slow client');
				else assertOwnAnswer(answer, 504, 'upstream timeout');
			});
			const elapsed = performance.now() - startedAt;
			ok(elapsed >= (COLLECTED ? BODY_MS : UPSTREAM_MS), `after ${elapsed} ms`);
			ok(elapsed < UPSTREAM_MS + 6000, `only after ${elapsed} ms`);
			deepEqual(counted, COLLECTED ? { 408: 1 } : { '504 upstream': 1 });
			await assertUntouched(lane);
		});

		test('100 Continue comes when the gates before the body have passed, and the upstream is not asked for it', async () => {
			const { path, upstream } = edge.lane();
			const options = { method: 'POST', path, headers: { expect: '100-continue' }, body: 'four' };
			const answer = await request(protocol, proxy, options);
			equal(answer.status, 200);
			deepEqual(answer.informational, [100]);
			equal(upstream.requests[0]!.header('expect'), undefined);
			equal(String(upstream.requests[0]!.body), 'four');
		});

		test('100 Continue does not come where a gate before the body refuses', async () => {
			const { path } = edge.lane();
			const headers = { expect: '100-continue' };
			const large = Buffer.alloc(LIMIT + 1);
			const refusals: [number, Parameters<typeof request>[2]][] = [
				[401, { path, token: null, body: 'x' }],
				[400, { path: '/x/..', body: 'x' }],
				[405, { path, method: 'TRACE', body: 'x' }],
				[413, { path, body: large }],
				...(COLLECTED ? [] : ([[404, { path: '/nowhere', body: 'x' }]] as [number, object][])),
			];
			for (const [status, options] of refusals) {
				const answer = await request(protocol, proxy, { method: 'POST', headers, ...options });
				equal(answer.status, status);
				deepEqual(answer.informational, [], String(status));
			}
		});
	});
}

const PROTOCOL_LABEL = { h1: 'http/1.1', h2: 'h2' };

describe('max_buffered_bytes', async () => {
	const tight = await startLanes({ lanes: 8, limits: { max_buffered_bytes: 4 * 1024 * 1024 } });
	after(() => tight.close());
	const body = countedBytes(500_000);
	const tooMuch = Buffer.alloc(5_000_000);

	for (const protocol of PROTOCOLS) {
		const post = (path: string, body: Buffer | AsyncIterable<Buffer>) =>
			request(protocol, tight.proxy, { method: 'POST', path, body });

		test(`a request body beyond it gets 503 overloaded if bodies are collected, over ${protocol}`, async () => {
			const { path, circuit } = tight.lane();
			const counted = await tight.during(async () => {
				const answer = await post(path, tooMuch);
				if (COLLECTED) assertOwnAnswer(answer, 503, 'overloaded');
				else equal(answer.status, 200);
			});
			deepEqual(counted, COLLECTED ? { 503: 1 } : { '200 upstream': 1 });
			equal(await circuit(), CIRCUIT.closed);
		});

		test(`a response body beyond it gets 503 overloaded if bodies are collected, over ${protocol}`, async () => {
			const { path, circuit, upstream } = tight.lane();
			upstream.script = (exchange) => exchange.respond({ body: tooMuch });
			const counted = await tight.during(async () => {
				const answer = await request(protocol, tight.proxy, { path });
				if (COLLECTED) assertOwnAnswer(answer, 503, 'overloaded');
				else equal(answer.body.length, tooMuch.length);
			});
			deepEqual(counted, { [`${COLLECTED ? 503 : 200} upstream`]: 1 });
			equal(await circuit(), CIRCUIT.closed, 'the memory is ours, and so is the lack of it');
			upstream.script = (exchange) => exchange.respond();
			equal((await request(protocol, tight.proxy, { path })).status, 200);
		});

		test(`it counts all bodies that are held at once, and gets back what they took, over ${protocol}`, async () => {
			const { path, upstream } = tight.lane();
			const half = body.subarray(0, 250_000);
			const headers = { 'content-length': String(body.length) };
			// Sixteen of half a megabyte: more than there is room for.
			const held = Array.from({ length: 16 }, () => heldBody(half));
			const clients = await Promise.all(held.map(() => connect(protocol, tight.proxy)));
			const sent = clients.map((client, i) => client.request({ method: 'POST', path, headers, body: held[i]! }));
			if (COLLECTED) await Promise.any(sent.map(async (one) => equal((await one).status, 503)));
			else await until(() => upstream.requests.filter(({ body }) => body.length === half.length).length === 16, 'all');
			for (const one of held) one.finish(body.subarray(half.length));
			const statuses = (await Promise.all(sent)).map(({ status }) => status);
			const served = statuses.filter((status) => status === 200).length;
			equal(served + statuses.filter((status) => status === 503).length, 16);
			if (COLLECTED) ok(served >= 4 && served <= 13, `${served} of 16 were served`);
			else equal(served, 16);
			await Promise.all(clients.map((client) => client.close()));
			for (let i = 0; i < 5; i++) equal((await post(path, body)).status, 200);
			for (const received of upstream.requests) ok(received.body.equals(body), 'the body has changed on its way');
		});

		test(`bodies that are refused, broken off or not answered give back what they took, over ${protocol}`, async () => {
			const { path, upstream } = tight.lane();
			upstream.script = (exchange) => exchange.respond({ body });
			for (let i = 0; i < 9; i++) {
				equal((await post('/nowhere', body)).status, 404);
				await using client = await connect(protocol, tight.proxy);
				const gone = client.request({ method: 'POST', path, body: heldBody(body) });
				await until(
					async () => (await tight.proxy.metric('proxy_connections', { protocol: PROTOCOL_LABEL[protocol] })) > 0,
					'the connection',
				);
				client.socket.destroy();
				await gone;
				equal((await post(path, body)).body.length, body.length);
			}
		});
	}
});

describe('limits that a route sets itself', () => {
	/** What the routes say in place of `[limits]`. */
	const OWN = {
		'/plain': {},
		'/small': { max_body_bytes: 500 },
		'/large': { max_body_bytes: '2kB' },
		'/quick': { upstream_timeout_secs: 0.2, body_timeout_secs: 0.2 },
		'/patient': { upstream_timeout_secs: '1m', body_timeout_secs: '1m' },
	};
	const routesOf = (own: object, url: string) =>
		Object.entries(own).map(([prefix, keys]) => ({ prefix, upstream: url, failures: 100, ...keys }));

	async function start() {
		const upstream = await startUpstream();
		const proxy = await startProxy({
			workers: 1,
			config: { health_interval_secs: 3600 },
			limits: { max_request_body_bytes: 1000, request_body_timeout_secs: 1.5, upstream_timeout_secs: 1.5 },
			routes: routesOf(OWN, upstream.url),
		});
		return { proxy, upstream };
	}
	const started = start();
	after(async () => {
		const { proxy, upstream } = await started;
		await proxy[Symbol.asyncDispose]();
		await upstream.close();
	});

	for (const protocol of PROTOCOLS) {
		/** Statuses for bodies of each length, declared and undeclared. */
		const takes = async (path: string, bytes: number) => {
			const { proxy } = await started;
			const bodies = [Buffer.alloc(bytes), inPieces(Buffer.alloc(bytes), 400)];
			const answers = bodies.map((body) => request(protocol, proxy, { method: 'POST', path, body }));
			return (await Promise.all(answers)).map(({ status }) => status);
		};

		test(`bodies of a route pass up to its own max_body_bytes, and get 413 above it, over ${protocol}`, async () => {
			for (const [path, most] of Object.entries({ '/small': 500, '/plain': 1000, '/large': 2000 })) {
				deepEqual(await takes(path, most), [200, 200], path);
				deepEqual(await takes(path, most + 1), [413, 413], path);
			}
			deepEqual(await takes('/nowhere', 1001), COLLECTED ? [413, 413] : [404, 404]);
			deepEqual(await takes('/nowhere', 1000), [404, 404]);
		});

		test(`an upstream has the upstream_timeout_secs of its route, over ${protocol}`, async () => {
			const { proxy, upstream } = await started;
			const others = Promise.withResolvers<void>();
			upstream.script = async (exchange) => {
				if (!exchange.request.target.startsWith('/patient')) return exchange.stall();
				await others.promise;
				exchange.respond();
			};
			const patient = request(protocol, proxy, { path: '/patient' });
			const quick = await request(protocol, proxy, { path: '/quick' });
			assertOwnAnswer(quick, 504, 'upstream timeout');
			await proxy.waitForLog(({ reason }) => reason === 'no response within 0.2 s');
			assertOwnAnswer(await request(protocol, proxy, { path: '/plain' }), 504, 'upstream timeout');
			others.resolve();
			equal((await patient).status, 200, 'it has had more than the time of [limits]');
			upstream.script = (exchange) => exchange.respond();
		});

		test(`a client has the body_timeout_secs of its route if bodies are collected, over ${protocol}`, async () => {
			const { proxy } = await started;
			const body = heldBody('half');
			const patient = request(protocol, proxy, { method: 'POST', path: '/patient', body });
			const refusals = ['/quick', '/plain'].map((path) =>
				request(protocol, proxy, { method: 'POST', path, body: heldBody('half') }),
			);
			for (const refusal of refusals) equal((await refusal).status, COLLECTED ? 408 : 504);
			body.finish(' and half');
			equal((await patient).status, 200);
		});
	}
});

import assert from 'node:assert/strict';
import { connect as connectTcp, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { heldBody } from '../fixtures/bodies.ts';
import { type Answer, connect, h1Raw, h2Raw, PROTOCOLS, request, type TlsOptions } from '../fixtures/clients.ts';
import { FRAME, headersFrame, SETTING } from '../fixtures/h2-frames.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { EchoUpstream, Load } from '../fixtures/load.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { HAS_PROC, isStopped, unacceptedConnections } from '../fixtures/proc.ts';
import { BODY_MODE, type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Exchange, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

/** The long form is `bench/reload-drain.ts`. */
const DRAINS = 4;
/** For as long an idle connection may go on bringing a request once the drain has begun, ms. */
const GRACE_MS = 500;
/** Far below `shutdown_drain_secs`, 25 s by default, which a drain takes that anything holds up, ms. */
const DRAIN_MS = 15_000;

let pki: TestPki;
let upstream: Upstream;
before(async () => {
	[pki, upstream] = await Promise.all([testPki(), startUpstream({ script: onPurpose })]);
});
after(() => upstream.close());

/** By path: `/held…` answers when the test says so, `/stuck` never does, all others at once. */
async function onPurpose(exchange: Exchange): Promise<void> {
	const { target } = exchange.request;
	if (target === '/stuck') return exchange.stall();
	if (target.startsWith('/held')) await gate(target).promise;
	exchange.respond({ body: target });
}

const gates = new Map<string, PromiseWithResolvers<void>>();
function gate(target: string): PromiseWithResolvers<void> {
	const known = gates.get(target) ?? Promise.withResolvers<void>();
	gates.set(target, known);
	return known;
}

let held = 0;
/** A path of its own, and what lets it be answered. */
function heldPath(): { path: string; arrived: () => Promise<unknown>; release: () => void } {
	const path = `/held/${held++}`;
	const arrived = () => upstream.until(({ requests }) => requests.some(({ target }) => target === path), path);
	return { path, arrived, release: () => gate(path).resolve() };
}

function start(options: ProxyOptions = {}): Promise<ProxyProcess> {
	return startProxy({ config: { tenant_rps: 0 }, routes: [{ prefix: '/', upstream: upstream.url }], ...options });
}

/** SIGTERM; resolves when the proxy has begun to drain. */
async function terminate(proxy: ProxyProcess): Promise<void> {
	proxy.signal('SIGTERM');
	await proxy.waitForLog('draining');
}

/** SIGTERM; resolves when all clients have been told. Only with one worker, since one client speaks for all. */
async function terminateAndTell(proxy: ProxyProcess): Promise<void> {
	using told = await h2Raw(proxy);
	told.send(headersFrame(1, [...pseudo('/told'), ['authorization', `Bearer ${pki.token()}`]]));
	await told.frameOf(FRAME.DATA, 1);
	proxy.signal('SIGTERM');
	await told.goawayCode();
}

/** Until connecting is refused. */
async function untilRefused(proxy: ProxyProcess): Promise<void> {
	const { port } = proxy;
	await until(async () => (await tcpOutcome(port)) === 'ECONNREFUSED', 'connections to be refused');
}

function tcpOutcome(port: number): Promise<string> {
	return new Promise((resolve) => {
		const socket = connectTcp(port, '127.0.0.1');
		socket.on('connect', () => resolve('connected'));
		socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code!));
		socket.on('connect', () => socket.destroy());
	});
}

/** The drain ends with 0, long before its limit, and says so. */
async function endsInOrder(proxy: ProxyProcess): Promise<void> {
	assert.equal(await within(proxy.exited, () => `the end of the drain${proxy.output()}`, DRAIN_MS), 0);
	assert.ok(
		proxy.logs.some(({ message }) => message === 'drained'),
		proxy.output(),
	);
	assert.equal(proxy.stderr, '');
	await proxy.kill();
}

function assertWhole({ status, text, ended }: Answer, body: string): void {
	assert.deepEqual([status, text, ended], [200, body, 'complete']);
}

// Most of their time is the grace.
describe('a drain', { concurrency: 3 }, () => {
	for (const signal of ['SIGTERM', 'SIGINT'] as const) {
		test(`by ${signal} refuses connections, lets requests in flight finish, and ends with 0`, async () => {
			await using proxy = await start();
			const requests = await Promise.all(
				[...PROTOCOLS, ...PROTOCOLS].map(async (protocol) => {
					const connection = await connect(protocol, proxy);
					const { path, arrived, release } = heldPath();
					const answer = connection.request({ path });
					await arrived();
					return { connection, path, answer, release };
				}),
			);
			proxy.signal(signal);
			assert.equal((await proxy.waitForLog('draining')).signal, signal);
			await untilRefused(proxy);
			// Metrics go on: who waits for what can be seen until the end.
			assert.equal(await proxy.metric('proxy_connections'), 4);
			assert.equal(await proxy.metric('proxy_workers'), 0, 'no worker accepts connections');
			for (const { release } of requests) release();
			for (const { connection, path, answer } of requests) {
				const { headers, ...rest } = await answer;
				assertWhole({ headers, ...rest }, path);
				assert.equal(headers.connection, connection.protocol === 'h1' ? 'close' : undefined);
				await within(connection.closed, 'the connection to end');
			}
			await endsInOrder(proxy);
		});
	}

	test('lets a request body that is on its way arrive', async () => {
		await using proxy = await start();
		const uploads = await Promise.all(
			PROTOCOLS.map(async (protocol) => {
				const body = heldBody('first, ');
				const connection = await connect(protocol, proxy);
				const answer = connection.request({ method: 'POST', path: `/${protocol}`, body });
				return { protocol, body, answer };
			}),
		);
		if (BODY_MODE === 'streaming') {
			await upstream.until(({ requests }) => requests.some(({ target }) => target === '/h2'), 'the upload');
		} else {
			await until(async () => (await proxy.metric('proxy_connections', { protocol: 'h2' })) === 1, 'the connection');
		}
		await terminate(proxy);
		await untilRefused(proxy);
		await sleep(GRACE_MS);
		for (const { body } of uploads) body.finish('last');
		for (const { protocol, answer } of uploads) assertWhole(await answer, `/${protocol}`);
		const bodies = upstream.requests.filter(({ target }) => /^\/h[12]$/.test(target)).map(({ body }) => String(body));
		assert.deepEqual(bodies, ['first, last', 'first, last']);
		await endsInOrder(proxy);
	});

	test('ends idle connections in order, and with the last of them the process', async () => {
		await using proxy = await start();
		using h1 = await h1Raw(proxy);
		using h2 = await h2Raw(proxy);
		await h2.frameOf(FRAME.SETTINGS);
		const silent = await Promise.all(Array.from({ length: 3 }, () => tcp(proxy)));
		await terminate(proxy);
		assert.equal(await h1.untilClosed(), 'closed');
		assert.equal(await h2.goawayCode(), 0);
		assert.equal(await h2.untilClosed(), 'closed');
		await endsInOrder(proxy);
		for (const socket of silent) socket.destroy();
	});

	test('tells h2 clients which stream was the last; what comes after that is never delivered', async () => {
		await using proxy = await start();
		using h2 = await h2Raw(proxy);
		const send = (stream: number, path: string) =>
			h2.send(headersFrame(stream, [...pseudo(path), ['authorization', `Bearer ${pki.token()}`]]));
		const { path, arrived, release } = heldPath();
		send(1, '/');
		send(3, path);
		await arrived();
		await terminate(proxy);
		await h2.goawayCode();
		// The client knows, and has said so: what it opens from here on is not served.
		const lastStreams = () =>
			h2.frames.filter(({ type }) => type === FRAME.GOAWAY).map(({ payload }) => payload.readInt32BE(0));
		await until(() => lastStreams().length === 2, 'the second GOAWAY');
		send(5, '/disowned');
		release();
		assert.equal(String((await h2.frameOf(FRAME.DATA, 3)).payload), path);
		await h2.untilClosed();
		assert.deepEqual(lastStreams(), [2 ** 31 - 1, 3]);
		assert.ok(!upstream.requests.some(({ target }) => target === '/disowned'));
		await endsInOrder(proxy);
	});

	test('serves the h2 stream that was on its way when the client was told', async () => {
		await inGrace(async (grace) => {
			await using proxy = await start();
			using h2 = await h2Raw(proxy, { acknowledge: false, settings: [[SETTING.HEADER_TABLE_SIZE, 0]] });
			const send = (stream: number, path: string) =>
				h2.send(headersFrame(stream, [...pseudo(path), ['authorization', `Bearer ${pki.token()}`]]));
			send(1, '/first');
			await h2.frameOf(FRAME.DATA, 1);
			grace.begins();
			await terminate(proxy);
			const { payload } = await h2.frameOf(FRAME.GOAWAY);
			assert.equal(payload.readInt32BE(0), 2 ** 31 - 1);
			// The client has not answered the ping behind it: for all that is known, this was sent before.
			send(3, '/on-its-way');
			grace.used();
			assert.equal(String((await h2.frameOf(FRAME.DATA, 3)).payload), '/on-its-way');
			// Without an answer the second one comes with the end of the grace.
			await h2.untilClosed();
			assert.equal(
				h2.frames
					.filter(({ type }) => type === FRAME.GOAWAY)
					.at(-1)!
					.payload.readInt32BE(0),
				3,
			);
			await endsInOrder(proxy);
		});
	});

	test('lets an h2 client that has only just connected send what it came for', async () => {
		await inGrace(async (grace) => {
			await using proxy = await start();
			using h2 = await h2Raw(proxy);
			await h2.frameOf(FRAME.SETTINGS);
			grace.begins();
			await terminate(proxy);
			await untilRefused(proxy);
			h2.send(headersFrame(1, [...pseudo('/first'), ['authorization', `Bearer ${pki.token()}`]]));
			grace.used();
			assert.equal(String((await h2.frameOf(FRAME.DATA, 1)).payload), '/first');
			assert.equal(await h2.goawayCode(), 0);
			await endsInOrder(proxy);
		});
	});

	test('serves a request that comes on an idle connection in the meantime, as its last', async () => {
		await inGrace(async (grace) => {
			await using proxy = await start();
			using raw = await h1Raw(proxy);
			grace.begins();
			await terminate(proxy);
			await untilRefused(proxy);
			raw.send(get('/late'));
			grace.used();
			const { status, body, headers } = await raw.readResponse();
			assert.deepEqual([status, String(body), headerValues(headers, 'connection')], [200, '/late', ['close']]);
			assert.equal(await raw.untilClosed(), 'closed');
			await endsInOrder(proxy);
		});
	});

	test('waits for the rest of a request whose head has begun to come', async () => {
		await using proxy = await start({ workers: 1 });
		using raw = await h1Raw(proxy);
		const head = get('/in-pieces');
		raw.send(head.slice(0, 10));
		await terminateAndTell(proxy);
		raw.send(head.slice(10, 20));
		await sleep(2 * GRACE_MS);
		raw.send(head.slice(20));
		assert.equal(String((await raw.readResponse()).body), '/in-pieces');
		await endsInOrder(proxy);
	});

	/** What a connection has served before half a head comes on it. */
	const servedBefore: [what: string, requests: () => string[]][] = [
		['a new connection', () => []],
		['a connection that has served a request', () => [get('/before')]],
		['a connection that has served a request with a body', () => [post('/before')]],
		[
			'a connection that has served a chunked body and more',
			() => [get('/1'), postChunked('/2'), get('/3'), post('/4')],
		],
	];
	for (const [what, requests] of servedBefore) {
		test(`waits for the rest of a head, of which nothing comes for longer than the grace, on ${what}`, async () => {
			await using proxy = await start({ workers: 1 });
			using raw = await h1Raw(proxy);
			for (const request of requests()) {
				raw.send(request);
				assert.equal((await raw.readResponse()).status, 200);
			}
			const head = get('/late-rest');
			raw.send(head.slice(0, 30));
			await terminateAndTell(proxy);
			await untilRefused(proxy);
			await graceOver();
			raw.send(head.slice(30));
			const { status, body, headers } = await raw.readResponse();
			assert.deepEqual([status, String(body), headerValues(headers, 'connection')], [200, '/late-rest', ['close']]);
			assert.equal(await raw.untilClosed(), 'closed');
			await endsInOrder(proxy);
		});

		test(`ends with the grace, when nothing comes, ${what}`, async () => {
			await using proxy = await start({ workers: 1 });
			using raw = await h1Raw(proxy);
			for (const request of requests()) {
				raw.send(request);
				assert.equal((await raw.readResponse()).status, 200);
			}
			await terminateAndTell(proxy);
			assert.equal(String(await raw.readToEnd()), '');
			assert.equal(await raw.untilClosed(), 'closed');
			await endsInOrder(proxy);
		});
	}

	for (const [method, make] of [
		['GET', get],
		['POST', post],
	] as const) {
		test(`waits for the rest of a head that has begun to come while a ${method} was being served`, async () => {
			await using proxy = await start({ workers: 1 });
			using raw = await h1Raw(proxy);
			const { path, arrived, release } = heldPath();
			const head = get('/late-rest');
			raw.send(make(path));
			await arrived();
			raw.send(head.slice(0, 30));
			// What another client gets answered afterwards was read afterwards.
			assert.equal((await request('h1', proxy, { path: '/turn' })).status, 200);
			release();
			assert.equal((await raw.readResponse()).status, 200);
			await terminateAndTell(proxy);
			await untilRefused(proxy);
			await graceOver();
			raw.send(head.slice(30));
			assert.equal((await raw.readResponse()).status, 200);
			await endsInOrder(proxy);
		});
	}

	test('ends a connection with the grace whose last answer came before the body that nobody wanted', async () => {
		await using proxy = await start({ workers: 1 });
		using raw = await h1Raw(proxy);
		raw.send('POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\n');
		assert.equal((await raw.readResponse()).status, 401);
		raw.send('later');
		assert.equal((await request('h1', proxy, { path: '/turn' })).status, 200);
		await terminateAndTell(proxy);
		assert.equal(await raw.untilClosed(), 'closed');
		await endsInOrder(proxy);
	});

	test('serves the request behind an answer that had begun too early to say that it was the last', async () => {
		await using proxy = await start({ workers: 1 });
		using raw = await h1Raw(proxy);
		const { path, arrived, release } = heldPath();
		// With its head, and in streaming mode with it on the way to the client, before the drain begins.
		upstream.script = (exchange) => {
			if (exchange.request.target !== '/begun') return onPurpose(exchange);
			exchange.startChunked();
			exchange.chunk('begun, ');
			return gate('/begun').promise.then(() => {
				exchange.chunk('done');
				exchange.lastChunk();
			});
		};
		raw.send(get('/begun'));
		await upstream.until(({ requests }) => requests.some(({ target }) => target === '/begun'), 'the request');
		if (BODY_MODE === 'streaming') await until(() => raw.pending.length > 0, 'the head of the answer');
		await terminateAndTell(proxy);
		await sleep(GRACE_MS);
		gate('/begun').resolve();
		const first = await raw.readResponse();
		assert.equal(String(first.body), 'begun, done');
		const announced = headerValues(first.headers, 'connection').includes('close');
		assert.equal(announced, BODY_MODE === 'collected');
		if (!announced) {
			raw.send(get(path));
			await arrived();
			release();
			const second = await raw.readResponse();
			assert.deepEqual([String(second.body), headerValues(second.headers, 'connection')], [path, ['close']]);
		}
		assert.equal(await raw.untilClosed(), 'closed');
		await endsInOrder(proxy);
	});

	test('serves all that was pipelined before it answered "close"', async () => {
		await using proxy = await start({ workers: 1 });
		using raw = await h1Raw(proxy);
		const { path, arrived, release } = heldPath();
		raw.send(get('/one') + get(path));
		await arrived();
		await terminateAndTell(proxy);
		release();
		assert.equal(String((await raw.readResponse()).body), '/one');
		const { body, headers } = await raw.readResponse();
		assert.deepEqual([String(body), headerValues(headers, 'connection')], [path, ['close']]);
		await endsInOrder(proxy);
	});

	for (const workers of [1, 2]) {
		test(`serves every connection that the kernel has accepted for it (${workers} workers)`, async (t) => {
			if (!HAS_PROC) return t.skip('reads /proc');
			await using proxy = await start({ workers });
			await freeze(proxy);
			const clients = Array.from({ length: 20 }, async (_, i) => {
				return (await request(PROTOCOLS[i % 2]!, proxy, { path: `/${i}` })).text;
			});
			// All of them are up for the kernel; the proxy knows of none.
			await until(() => unacceptedConnections(proxy.port) === 20, 'the connections');
			proxy.signal('SIGTERM');
			proxy.signal('SIGCONT');
			assert.deepEqual(
				await Promise.all(clients),
				clients.map((_, i) => `/${i}`),
			);
			await endsInOrder(proxy);
		});
	}

	test('serves every request that has reached it when the grace ends, however busy it was', async (t) => {
		if (!HAS_PROC) return t.skip('reads /proc');
		await inGrace(async (grace) => {
			await using proxy = await start();
			const connections = await Promise.all(Array.from({ length: 8 }, () => h1Raw(proxy)));
			grace.begins();
			await terminate(proxy);
			await untilRefused(proxy);
			await freeze(proxy);
			grace.used();
			for (const raw of connections) raw.send(get('/in-the-buffer'));
			// It wakes up when everything is due at once: the end of the grace, and the requests.
			await sleep(2 * GRACE_MS);
			proxy.signal('SIGCONT');
			for (const raw of connections) assert.equal(String((await raw.readResponse()).body), '/in-the-buffer');
			await endsInOrder(proxy);
		});
	});

	test('does not wait long for clients that do not hang up after their last answer', async () => {
		await inGrace(async (grace) => {
			await using proxy = await start();
			const sockets = await Promise.all(Array.from({ length: 4 }, () => h1Raw(proxy, { tls: HALF_OPEN })));
			grace.begins();
			await terminate(proxy);
			await untilRefused(proxy);
			for (const raw of sockets) raw.send(get('/'));
			grace.used();
			for (const raw of sockets) assert.equal((await raw.readResponse()).status, 200);
			await endsInOrder(proxy);
			for (const raw of sockets) raw.close();
		});
	});

	test('is bounded by shutdown_drain_secs, whatever an upstream or a client does not do', async () => {
		await using proxy = await start({ limits: { shutdown_drain_secs: 1 } });
		const stuck = PROTOCOLS.map((protocol) => request(protocol, proxy, { path: '/stuck' }));
		await upstream.until(({ requests }) => requests.filter(({ target }) => target === '/stuck').length === 2, '/stuck');
		using h2 = await h2Raw(proxy, { acknowledge: false });
		await h2.frameOf(FRAME.SETTINGS);
		const begun = performance.now();
		proxy.signal('SIGTERM');
		assert.equal(await within(proxy.exited, 'the end', DRAIN_MS), 0);
		const took = performance.now() - begun;
		assert.ok(took >= 900, `${took} ms`);
		assert.ok(proxy.logs.some(({ message }) => message.startsWith('drain limit reached')));
		for (const answer of await Promise.all(stuck)) assert.equal(answer.status, 0, 'no answer rather than a wrong one');
		await proxy.kill();
	});

	for (const [first, second] of [
		['SIGTERM', 'SIGTERM'],
		['SIGTERM', 'SIGINT'],
		['SIGINT', 'SIGTERM'],
	] as const) {
		test(`ends at once, with 1, when ${first} is followed by ${second}`, async () => {
			await using proxy = await start();
			const stuck = request('h1', proxy, { path: '/stuck' }).catch(() => {});
			const { length } = upstream.requests;
			await upstream.until(
				({ requests }) => requests.slice(length).some(({ target }) => target === '/stuck'),
				'/stuck',
			);
			proxy.signal(first);
			await proxy.waitForLog('draining');
			proxy.signal(second);
			assert.equal(await within(proxy.exited, 'the end', DRAIN_MS), 1);
			await stuck;
			await proxy.kill();
		});
	}

	test('during a reload that takes its time ends as if there were none', async () => {
		const health = Promise.withResolvers<void>();
		await using slow = await startUpstream({
			health: async (exchange) => {
				await health.promise;
				exchange.respond();
			},
		});
		await using proxy = await start();
		const { path, arrived, release } = heldPath();
		const answer = request('h2', proxy, { path });
		await arrived();
		proxy.writeConfig({ routes: [{ prefix: '/', upstream: slow.url }] });
		proxy.signal('SIGUSR1');
		await until(() => slow.healthProbes > 0, 'the reload to be under way');
		await terminate(proxy);
		health.resolve();
		const { cause } = await proxy.waitForLog('route reload failed; keeping old table');
		assert.equal(cause, 'the proxy is shutting down');
		release();
		assertWhole(await answer, path);
		await endsInOrder(proxy);
	});

	test('takes no notice of SIGUSR1', async () => {
		await using proxy = await start();
		const { path, arrived, release } = heldPath();
		const answer = request('h1', proxy, { path });
		await arrived();
		await terminate(proxy);
		for (let i = 0; i < 5; i++) proxy.signal('SIGUSR1');
		proxy.writeConfig('broken');
		assert.equal(await proxy.metric('proxy_config_generation'), 1);
		release();
		assertWhole(await answer, path);
		await endsInOrder(proxy);
	});

	test('is not held up by a worker that does nothing any more', async () => {
		await using proxy = await start({ env: INSPECTABLE, limits: { shutdown_drain_secs: 2.5 } });
		const inspector = await WorkerInspector.attach(proxy, 2);
		inspector.run(0, 'for (;;);');
		const { path, arrived, release } = heldPath();
		// A connection that the stuck worker gets is not answered; one of the others soon is.
		const answer = Promise.any(Array.from({ length: 24 }, () => request('h1', proxy, { path, ms: DRAIN_MS })));
		answer.catch(() => {});
		await arrived();
		// Node would wait for the debugger to leave.
		inspector[Symbol.dispose]();
		proxy.signal('SIGTERM');
		release();
		assertWhole(await answer, path);
		assert.equal(await within(proxy.exited, 'the end', DRAIN_MS), 0);
		await proxy.kill();
	});

	for (let round = 0; round < DRAINS; round++) {
		test(`under load loses no request, and resets nobody (${round + 1} of ${DRAINS})`, async () => {
			await using echo = await EchoUpstream.start();
			await using proxy = await start({ routes: [{ prefix: '/', upstream: echo.url }] });
			await using load = new Load(proxy, { h1: 10, h2: 3, streams: 8 });
			await load.answers(200);
			proxy.signal('SIGTERM');
			const { losses, sent, answered, disowned, announced, connections, refused } = await load.refused();
			assert.deepEqual(losses, []);
			assert.equal(answered + disowned, sent);
			assert.equal(announced, connections, 'each connection was told');
			assert.equal(refused, 13);
			await endsInOrder(proxy);
		});
	}
});

/**
 * For what a client does within the grace. Where this machine was too busy for that, the attempt proves nothing, and
 * there is another one.
 */
async function inGrace(attempt: (grace: { begins(): void; used(): void }) => Promise<void>): Promise<void> {
	for (let attempts = 1; ; attempts++) {
		let begun = 0;
		let took = 0;
		const begins = () => {
			begun = performance.now();
		};
		const used = () => {
			took = performance.now() - begun;
		};
		try {
			return await attempt({ begins, used });
		} catch (error) {
			if (took < GRACE_MS || attempts === 5) throw error;
		}
	}
}

/** The server's end is not the client's; the types do not know this option of `tls.connect`. */
const HALF_OPEN = { allowHalfOpen: true } as NonNullable<TlsOptions['tls']>;

function pseudo(path: string): [string, string][] {
	return [
		[':method', 'GET'],
		[':scheme', 'https'],
		[':authority', 'localhost'],
		[':path', path],
	];
}

function get(path: string): string {
	return `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token()}\r\n\r\n`;
}

function post(path: string): string {
	return get(path).replace('GET', 'POST').replace('\r\n\r\n', '\r\nContent-Length: 4\r\n\r\nbody');
}

function postChunked(path: string): string {
	const head = get(path).replace('GET', 'POST').replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\n');
	return `${head}4\r\nbody\r\n0\r\n\r\n`;
}

/** Until whoever has brought nothing by then is closed, and a while longer. */
async function graceOver(): Promise<void> {
	const from = performance.now();
	await until(() => performance.now() > from + 2 * GRACE_MS, 'the grace to be over');
}

function tcp({ port }: ProxyProcess): Promise<Socket> {
	return new Promise((resolve, reject) => {
		const socket = connectTcp(port, '127.0.0.1', () => resolve(socket.on('error', () => {})));
		socket.once('error', reject);
	});
}

/** Stops the whole process, as a machine does that is suspended or too busy. Undone by SIGCONT. */
async function freeze(proxy: ProxyProcess): Promise<void> {
	proxy.signal('SIGSTOP');
	await until(() => isStopped(proxy.pid), 'the process to be stopped');
}

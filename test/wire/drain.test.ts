import assert from 'node:assert/strict';
import { connect as connectTcp } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
	type Answer,
	connect,
	connectPlain,
	type H1Raw,
	h1Raw,
	h2Raw,
	PROTOCOLS,
	request,
	type TlsOptions,
} from '../fixtures/clients.ts';
import { FRAME, headersFrame, requestFields, SETTING } from '../fixtures/h2-frames.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { EchoUpstream, Load } from '../fixtures/load.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { HAS_PROC, isStopped, unacceptedConnections } from '../fixtures/proc.ts';
import { BODY_MODE, type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Exchange, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

/** For as long an idle connection may go on bringing a request once the drain has begun, ms. */
const GRACE_MS = 500;
/** Far below `shutdown_drain_secs`, 25 s by default, which a drain takes that anything holds up, ms. */
const DRAIN_MS = 24_000;

let pki: TestPki;
let upstream: Upstream;
before(async () => {
	[pki, upstream] = await Promise.all([testPki(), startUpstream({ script: onPurpose })]);
});
after(() => upstream.close());

/** By path: `/held…` answers when the test says so, `/begun` begins and then does, `/stuck…` never does, all others at once. */
async function onPurpose(exchange: Exchange): Promise<void> {
	const { target } = exchange.request;
	if (target.startsWith('/stuck')) return exchange.stall();
	if (target === '/begun') {
		exchange.startChunked();
		exchange.chunk('begun, ');
		await gate(target).promise;
		exchange.chunk('done');
		return exchange.lastChunk();
	}
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
/** A separate path, and a function that lets its upstream respond. */
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
	told.send(headersFrame(1, requestFields('GET', '/told', pki.token())));
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
	test('refuses connections, lets requests in flight finish, and ends with 0', async () => {
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
		proxy.signal('SIGTERM');
		assert.equal((await proxy.waitForLog('draining')).signal, 'SIGTERM');
		await untilRefused(proxy);
		// Metrics go on: who waits for what can be seen until the end.
		await until(
			async () => (await proxy.metric('proxy_connections')) === 4,
			'those that asked whether it listens to be gone',
		);
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

	test('ends idle connections in order, and with the last of them the process', async () => {
		await using proxy = await start();
		using h1 = await h1Raw(proxy);
		using h2 = await h2Raw(proxy);
		await h2.frameOf(FRAME.SETTINGS);
		const silent = await Promise.all(Array.from({ length: 3 }, () => connectPlain(proxy)));
		await terminate(proxy);
		assert.equal(await h1.untilClosed(), 'closed');
		assert.equal(await h2.goawayCode(), 0);
		assert.equal(await h2.untilClosed(), 'closed');
		await endsInOrder(proxy);
		for (const socket of silent) socket.destroy();
	});

	test('serves requests of clients that have not seen it during its grace, and waits for no client to close', async () => {
		await inGrace(async (grace) => {
			await using proxy = await start();
			const token = pki.token();
			using told = await h2Raw(proxy, { acknowledge: false, settings: [[SETTING.HEADER_TABLE_SIZE, 0]] });
			told.send(headersFrame(1, requestFields('GET', '/first', token)));
			await told.frameOf(FRAME.DATA, 1);
			using fresh = await h2Raw(proxy);
			await fresh.frameOf(FRAME.SETTINGS);
			using idle = await h1Raw(proxy);
			const halfOpen = await Promise.all(Array.from({ length: 4 }, () => h1Raw(proxy, { tls: HALF_OPEN })));
			grace.begins();
			await terminate(proxy);
			await untilRefused(proxy);
			const { payload } = await told.frameOf(FRAME.GOAWAY);
			assert.equal(payload.readInt32BE(0), 2 ** 31 - 1);
			// The client has not answered the ping behind it: for all that is known, this was sent before.
			told.send(headersFrame(3, requestFields('GET', '/on-its-way', token)));
			// A client that has just connected still sends its request.
			fresh.send(headersFrame(1, requestFields('GET', '/first', token)));
			for (const raw of [idle, ...halfOpen]) raw.send(get('/late'));
			grace.used();
			assert.equal(String((await told.frameOf(FRAME.DATA, 3)).payload), '/on-its-way');
			assert.equal(String((await fresh.frameOf(FRAME.DATA, 1)).payload), '/first');
			for (const raw of [idle, ...halfOpen]) {
				const { status, body, headers } = await raw.readResponse();
				assert.deepEqual([status, String(body), headerValues(headers, 'connection')], [200, '/late', ['close']]);
			}
			assert.equal(await idle.untilClosed(), 'closed');
			assert.equal(await fresh.goawayCode(), 0);
			// Without an answer the second one comes with the end of the grace.
			await told.untilClosed();
			const last = told.frames.filter(({ type }) => type === FRAME.GOAWAY).at(-1)!;
			assert.equal(last.payload.readInt32BE(0), 3);
			await endsInOrder(proxy);
			for (const raw of halfOpen) raw.close();
		});
	});

	test('treats each connection by what has come on it', { concurrency: true }, async (t) => {
		await using proxy = await start({ workers: 1 });
		using open = new DisposableStack();
		const connections = [
			...servedBefore.flatMap((served) => [restOfHead(...served), nothingMore(...served)]),
			answerTooEarly(),
			pipelined(),
		];
		const begun: { what: string; rest: Rest }[] = [];
		for (const { what, begin } of connections) {
			begun.push({ what, rest: await begin(open.use(await h1Raw(proxy)), proxy) });
		}
		await terminateAndTell(proxy);
		await untilRefused(proxy);
		const graceIsOver = graceOver();
		await Promise.all(begun.map(({ what, rest }) => t.test(what, () => rest(graceIsOver))));
		await endsInOrder(proxy);
	});

	test('serves every connection that the kernel has accepted for it', async (t) => {
		if (!HAS_PROC) return t.skip('reads /proc');
		await using proxy = await start();
		await freeze(proxy);
		const clients = Array.from({ length: 20 }, async (_, i) => {
			return (await request(PROTOCOLS[i % 2]!, proxy, { path: `/${i}` })).text;
		});
		// All of them are up for the kernel; the proxy knows of none.
		await until(() => unacceptedConnections(proxy.port) === 20, 'the connections');
		proxy.signal('SIGTERM');
		proxy.signal('SIGCONT');
		const begun = performance.now();
		const answers = await Promise.all(clients);
		// On a busy machine the grace may end before an HTTP/2 client has sent its request: then the proxy sends GOAWAY.
		const isLate = performance.now() - begun > GRACE_MS;
		assert.deepEqual(
			answers,
			answers.map((text, i) => (isLate && i % 2 === 1 && text === '' ? '' : `/${i}`)),
		);
		await endsInOrder(proxy);
	});

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

	test('is bounded by shutdown_drain_secs, even if upstreams or clients hang', async () => {
		await using proxy = await start({ limits: { shutdown_drain_secs: 1 }, config: { log: { access: 'all' } } });
		const stuck = PROTOCOLS.map((protocol) => request(protocol, proxy, { path: '/stuck/bounded' }));
		const arrived = ({ requests }: Upstream) => requests.filter(({ target }) => target === '/stuck/bounded').length;
		await upstream.until((upstream) => arrived(upstream) === 2, 'both requests');
		using h2 = await h2Raw(proxy, { acknowledge: false });
		await h2.frameOf(FRAME.SETTINGS);
		const begun = performance.now();
		proxy.signal('SIGTERM');
		assert.equal(await within(proxy.exited, 'the end', DRAIN_MS), 0);
		const took = performance.now() - begun;
		assert.ok(took >= 900, `${took} ms`);
		assert.ok(proxy.logs.some(({ message }) => message.startsWith('drain limit reached')));
		for (const { status, body } of await Promise.all(stuck)) {
			assert.deepEqual([status, String(body)], [503, 'upstream unavailable']);
		}
		const lines = proxy.logs.filter(({ target }) => target === 'proxy::access');
		const reason = 'the drain reached its limit';
		assert.deepEqual(
			lines.map((line) => [line.status, line.reason]),
			[503, 503].map((status) => [status, reason]),
		);
		await proxy.kill();
	});

	test('is not held up by a worker that does nothing any more', async () => {
		await using proxy = await start({ env: INSPECTABLE, limits: { shutdown_drain_secs: 6 } });
		const inspector = await WorkerInspector.attach(proxy, 2);
		// It waits for ever, and uses no CPU meanwhile.
		inspector.run(0, 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);');
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

	// The long form is bench/reload-drain.ts.
	test('under load loses no request, and resets no client', async () => {
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
});

/** What is left to happen on a connection once the drain has begun. */
type Rest = (graceIsOver: Promise<void>) => Promise<void>;

/** A connection, up to the drain and from there on. */
interface InDrain {
	readonly what: string;
	begin(raw: H1Raw, proxy: ProxyProcess): Promise<Rest>;
}

/** What a connection has served before the drain. */
const servedBefore: [what: string, requests: () => string[]][] = [
	['a new connection', () => []],
	['a connection that has served a chunked body and more', () => [get('/1'), postChunked('/2'), get('/3'), post('/4')]],
];

async function serve(raw: H1Raw, requests: string[]): Promise<void> {
	for (const request of requests) {
		raw.send(request);
		assert.equal((await raw.readResponse()).status, 200);
	}
}

async function assertLastAnswer(raw: H1Raw, body: string): Promise<void> {
	const answer = await raw.readResponse();
	assert.deepEqual(
		[answer.status, String(answer.body), headerValues(answer.headers, 'connection')],
		[200, body, ['close']],
	);
	assert.equal(await raw.untilClosed(), 'closed');
}

function restOfHead(what: string, requests: () => string[]): InDrain {
	return {
		what: `waits for the rest of a head, of which nothing comes for longer than the grace, on ${what}`,
		async begin(raw) {
			await serve(raw, requests());
			const head = get('/late-rest');
			raw.send(head.slice(0, 30));
			return async (graceIsOver) => {
				await graceIsOver;
				raw.send(head.slice(30));
				await assertLastAnswer(raw, '/late-rest');
			};
		},
	};
}

function nothingMore(what: string, requests: () => string[]): InDrain {
	return {
		what: `ends with the grace, when nothing comes, ${what}`,
		async begin(raw) {
			await serve(raw, requests());
			return async () => {
				assert.equal(String(await raw.readToEnd()), '');
				assert.equal(await raw.untilClosed(), 'closed');
			};
		},
	};
}

/** With its head, and in streaming mode with it on the way to the client, before the drain begins. */
function answerTooEarly(): InDrain {
	return {
		what: 'serves the request behind an answer that had begun too early to say that it was the last',
		async begin(raw) {
			raw.send(get('/begun'));
			await upstream.until(({ requests }) => requests.some(({ target }) => target === '/begun'), 'the request');
			if (BODY_MODE === 'streaming') await until(() => raw.pending.length > 0, 'the head of the answer');
			return async (graceIsOver) => {
				await graceIsOver;
				gate('/begun').resolve();
				const first = await raw.readResponse();
				assert.equal(String(first.body), 'begun, done');
				const announced = headerValues(first.headers, 'connection').includes('close');
				assert.equal(announced, BODY_MODE === 'collected');
				if (!announced) {
					const { path, arrived, release } = heldPath();
					raw.send(get(path));
					await arrived();
					release();
					await assertLastAnswer(raw, path);
				}
				assert.equal(await raw.untilClosed(), 'closed');
			};
		},
	};
}

function pipelined(): InDrain {
	return {
		what: 'serves all that was pipelined before it answered "close"',
		async begin(raw) {
			const { path, arrived, release } = heldPath();
			raw.send(get('/one') + get(path));
			await arrived();
			return async () => {
				release();
				assert.equal(String((await raw.readResponse()).body), '/one');
				await assertLastAnswer(raw, path);
			};
		},
	};
}

/**
 * For what a client does within the grace. Where this machine was too busy for that, the attempt proves nothing, and
 * there is another one.
 */
async function inGrace(attempt: (grace: { begins(): void; used(): void }) => Promise<void>): Promise<void> {
	for (let attempts = 1; ; attempts++) {
		let begun = 0;
		// As long as it is not used, it was too short.
		let took = Number.POSITIVE_INFINITY;
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

/** Longer than the time until silent connections are closed. */
async function graceOver(): Promise<void> {
	const from = performance.now();
	await until(() => performance.now() > from + 2 * GRACE_MS, 'the grace to be over');
}

/** Stops the whole process, as a machine does that is suspended or too busy. Undone by SIGCONT. */
async function freeze(proxy: ProxyProcess): Promise<void> {
	proxy.signal('SIGSTOP');
	await until(() => isStopped(proxy.pid), 'the process to be stopped');
}

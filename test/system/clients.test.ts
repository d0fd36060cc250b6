/**
 * Third-party clients in front of the real command, over both protocols: bodies of 1 MiB each way, many requests on one connection, and a
 * drain. A client that is not installed is skipped; with PROXY_TEST_ALL_CLIENTS that is a failure.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type Connection, connect, PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { BODY_MODE, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Exchange, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';
import { CLIENTS, type Client, GRPC } from './clients/clients.ts';
import { h2load, h2loadPreload } from './clients/commands.ts';
import { type Edge, edgeFiles, runs } from './clients/process.ts';
import { EXCHANGE, MIB, type Report, SMALL } from './clients/requests.ts';

/** After SIGTERM, connections are told to end once no new one has arrived for this time, ms. */
const QUIET_MS = 1_000;
/**
 * Requests besides the held ones that must arrive before SIGTERM: the first of each loop, which then go on. httpx over HTTP/2 is the
 * exception: a request that waits for its response keeps others from reading theirs.
 */
const BEFORE = 5;
/** For a client that compiles first, on a busy machine, ms. */
const START_MS = 60_000;

let pki: TestPki;
before(async () => {
	pki = await testPki();
});

function start(upstream: Upstream): Promise<ProxyProcess> {
	return startProxy({
		config: { tenant_rps: 0 },
		// No drain may end by its time limit, however busy the machine is.
		limits: { shutdown_drain_secs: 600 },
		log: { access: 'all' },
		routes: [{ prefix: '/', upstream: upstream.url }],
	});
}

/** The response to `/mib` has 1 MiB, that to a POST its own body, and any other its path; `/held` waits for `release`. */
function script(release?: Promise<void>) {
	return async (exchange: Exchange): Promise<void> => {
		const { method, target, body } = exchange.request;
		if (target.includes('/held/')) await release;
		exchange.respond({ body: answerTo(method, target, body) });
	};
}

function answerTo(method: string, target: string, body: Buffer): string | Buffer {
	if (target.endsWith('/mib')) return MIB;
	return method === 'POST' ? body : target;
}

function edgeOf(proxy: ProxyProcess, protocol: Protocol, path: string): Edge {
	return { base: `https://127.0.0.1:${proxy.port}${path}`, protocol, pki };
}

function isWhole({ request, status, digest, error }: Report): boolean {
	if (error !== undefined || status !== 200) return false;
	const [method, target] = request.split(' ') as [string, string];
	const body = answerTo(method, target, target.endsWith('/echo') ? MIB : SMALL);
	return digest === undefined || digest === createHash('sha256').update(body).digest('hex');
}

function accessLines(proxy: ProxyProcess, path: string): LogLine[] {
	return proxy.logs.filter((line) => line.target === 'proxy::access' && String(line.path).startsWith(`${path}/`));
}

/** For `node:test`: `false`, or the reason why a test cannot run here. */
function missing(isThere: boolean, packages: string): string | false {
	if (isThere) return false;
	if (process.env.PROXY_TEST_ALL_CLIENTS) throw new Error(`not installed: ${packages}`);
	return `not installed: ${packages}`;
}

const installed = CLIENTS.map((client) => ({ ...client, skip: missing(client.isThere(), client.packages) }));
const noH2load = missing(runs('h2load', '--version') && runs('gcc', '--version'), 'nghttp2-client, gcc, libssl-dev');

function eachClient(body: (client: (typeof installed)[number], protocol: Protocol, path: string) => void): void {
	for (const client of installed) {
		for (const protocol of client.protocols) {
			body(client, protocol, `/${client.name.replaceAll(/[^A-Za-z]/g, '')}-${protocol}`);
		}
	}
}

describe('whole answers to many requests on one connection, with 1 MiB each way:', () => {
	let upstream: Upstream;
	let proxy: ProxyProcess;
	let handshakes = 0;
	before(async () => {
		upstream = await startUpstream({ script: script() });
		proxy = await start(upstream);
	});
	after(async () => {
		await proxy[Symbol.asyncDispose]();
		await upstream.close();
	});

	/** TLS connections since the last call. */
	async function newConnections(): Promise<number> {
		const before = handshakes;
		handshakes = await proxy.metric('proxy_tls_handshake_seconds_count');
		return handshakes - before;
	}

	eachClient((client, protocol, path) => {
		test(`${client.name} over ${protocol}`, { skip: client.skip }, async () => {
			await newConnections();
			const reports = await client.exchange(edgeOf(proxy, protocol, path));
			const wanted = EXCHANGE.map((request) => request.replace(' ', ` ${path}`));
			assert.deepEqual(
				reports.filter((report) => !isWhole(report)),
				[],
			);
			assert.deepEqual(reports.map(({ request }) => request).sort(), wanted.toSorted());
			assert.equal(await newConnections(), client.connections);
			await until(() => accessLines(proxy, path).length === wanted.length, 'the access log');
			const protocols = new Set(accessLines(proxy, path).map((line) => line.protocol));
			assert.deepEqual([...protocols], [protocol === 'h1' ? 'http/1.1' : 'h2']);
		});
	});

	for (const protocol of PROTOCOLS) {
		test(`h2load over ${protocol}`, { skip: noH2load }, async () => {
			await newConnections();
			const preload = await h2loadPreload();
			const edge = edgeOf(proxy, protocol, `/h2load-${protocol}`);
			const load = ['--clients=4', '--max-concurrent-streams=16'];
			const gets = await h2load(edge, preload, [...load, '--requests=2000'], '/get');
			assert.deepEqual(gets, { answered: 2000, failed: 0 });
			assert.equal(await newConnections(), 4);
			const posts = await h2load(edge, preload, [...load, '--requests=40', `--data=${edgeFiles(edge).mib}`], '/echo');
			assert.deepEqual(posts, { answered: 40, failed: 0 });
		});
	}
});

describe('an upload that is answered before its end gets the status of its refusal:', () => {
	/** Body size, and the tenant: `busy` already has the one request in flight that its limit allows. */
	const UPLOADS: Record<number, [bytes: number, tenant: string | undefined]> = {
		401: [20 << 20, undefined],
		413: [20 << 20, 'calm'],
		429: [20 << 20, 'busy'],
		// Collected: beyond `max_buffered_bytes`. Streaming: the upstream refuses it once it has the head.
		503: [6 << 20, 'calm'],
	};
	/** For clients that declare no length: a body over its limit is a 413 before it is a 503. */
	const SHORT = '/short';
	/** What a gRPC client gets instead of an HTTP status. */
	const GRPC_STATUSES: Record<string, readonly [code: string, message: string]> = {
		401: ['UNAUTHENTICATED', 'unauthorized'],
		413: ['RESOURCE_EXHAUSTED', 'payload too large'],
		429: ['RESOURCE_EXHAUSTED', 'rate limited'],
		503: ['UNAVAILABLE', BODY_MODE === 'collected' ? 'overloaded' : ''],
	};
	let upstream: Upstream;
	let proxy: ProxyProcess;
	let holder: Connection;
	before(async () => {
		upstream = await startUpstream({
			early: true,
			script: (exchange) => {
				const { target } = exchange.request;
				if (target === '/held' || target.startsWith(`${SHORT}/`)) return exchange.stall();
				exchange.respond({ status: 503, body: 'not now' });
			},
		});
		proxy = await startProxy({
			config: { tenant_rps: 0 },
			limits: { max_buffered_bytes: 1 << 20, upstream_timeout_secs: 600 },
			tenants: [{ name: 'busy', concurrency: 1 }],
			routes: [
				{ prefix: '/', upstream: upstream.url },
				{ prefix: SHORT, upstream: upstream.url, max_body_bytes: 65_536 },
			],
		});
		holder = await connect('h2', proxy);
		holder.request({ path: '/held', token: pki.token('busy') }).catch(() => {});
		await upstream.until(({ requests }) => requests.length === 1, 'the held request');
	});
	after(async () => {
		await holder.close();
		await proxy[Symbol.asyncDispose]();
		await upstream.close();
	});

	eachClient((client, protocol, path) => {
		if (client.upload === undefined) return;
		for (const [status, [bytes, tenant]] of Object.entries(UPLOADS)) {
			test(`${client.name} over ${protocol} sees ${status}`, { skip: client.skip }, async () => {
				const token = tenant === undefined ? 'none' : pki.token(tenant);
				const reports = await client.upload!({ ...edgeOf(proxy, protocol, path), token }, bytes);
				assert.deepEqual(
					reports.map(({ digest, ...report }) => report),
					[{ request: `POST ${path}/upload`, status: Number(status) }],
				);
			});
		}
	});

	for (const [status, [bytes, tenant]] of Object.entries(UPLOADS)) {
		const [code, message] = GRPC_STATUSES[status]!;
		test(`gRPC sees ${status} as ${code}`, { skip: missing(GRPC.isThere(), GRPC.packages) }, async () => {
			const token = tenant === undefined ? 'none' : pki.token(tenant);
			const path = status === '413' ? SHORT : '/grpc';
			const { details, ...call } = await GRPC.upload({ ...edgeOf(proxy, 'h2', path), token }, bytes);
			assert.deepEqual(call, { request: `POST ${path}/upload`, code }, details);
			// The 503 of streaming mode is the upstream's, which does not speak gRPC.
			if (message !== '') assert.equal(details, message);
		});
	}
});

describe('a drain loses no request that is in flight:', { concurrency: 2 }, () => {
	eachClient((client, protocol, path) => {
		test(`${client.name} over ${protocol}`, { skip: client.skip }, async (t) => {
			const release = Promise.withResolvers<void>();
			await using upstream = await startUpstream({ script: script(release.promise) });
			await using proxy = await start(upstream);
			const running = client.drain(edgeOf(proxy, protocol, path));
			// Its end is awaited later, and must not be an unhandled rejection before that.
			running.catch(() => {});
			await upstream.until(
				({ requests }) => {
					const here = requests.filter(({ target, state }) => target.includes('/held/') && state === 'complete');
					return here.length === client.held.length && requests.length >= here.length + BEFORE;
				},
				'requests in flight',
				START_MS,
			);
			proxy.signal('SIGTERM');
			await proxy.waitForLog('draining');
			await untilQuiet(upstream);
			release.resolve();
			const note = assertNothingLost(await running, upstream, client, protocol, path);
			if (note !== undefined) t.diagnostic(note);
			assert.equal(await within(proxy.exited, () => `the end of the drain${proxy.output()}`), 0);
			await proxy.kill();
		});
	});

	for (const protocol of PROTOCOLS) {
		test(`h2load over ${protocol}`, { skip: noH2load }, async () => {
			await using upstream = await startUpstream({ script: script() });
			await using proxy = await start(upstream);
			const edge = edgeOf(proxy, protocol, '/h2load');
			const load = ['--clients=2', '--max-concurrent-streams=8', '--requests=50000'];
			const running = h2load(edge, await h2loadPreload(), load, '/get');
			running.catch(() => {});
			await upstream.until(({ requests }) => requests.length >= BEFORE, 'requests in flight');
			assert.equal(await proxy.stop(), 0);
			assert.equal((await running).answered, upstream.requests.length);
		});
	}
});

async function untilQuiet(upstream: Upstream): Promise<void> {
	let seen = -1;
	let since = 0;
	await until(() => {
		const now = performance.now();
		if (upstream.requests.length !== seen) [seen, since] = [upstream.requests.length, now];
		return now >= since + QUIET_MS;
	}, 'the last request');
}

/**
 * Each request that reached the upstream has its complete response at the client. Others may be sent elsewhere. Some clients give up all
 * requests of a connection at any GOAWAY: then they must report that themselves.
 */
function assertNothingLost(
	reports: readonly Report[],
	upstream: Upstream,
	{ held, gaveUp }: Client,
	protocol: Protocol,
	path: string,
): string | undefined {
	const whole = new Set(reports.filter(isWhole).map(({ request }) => request));
	const came = upstream.requests.map(({ method, target }) => `${method} ${target}`);
	assert.equal(new Set(came).size, came.length, 'none came twice');
	for (const request of held) assert.ok(came.includes(request.replace(' ', ` ${path}`)), request);
	const lost = came.filter((request) => !whole.has(request));
	const reasons = reports.filter(({ request }) => lost.includes(request));
	const forgiven = protocol === 'h2' && gaveUp !== undefined && reasons.length === lost.length;
	if (forgiven && reasons.every(({ error = '' }) => gaveUp.error.test(error))) {
		return lost.length === 0 ? undefined : `${lost.length} of ${came.length} given up by the client: ${gaveUp.why}`;
	}
	assert.equal(lost.length, 0, `of ${came.length} ${lost.slice(0, 10)} have no answer: ${JSON.stringify(reasons)}`);
	return undefined;
}

/** `protocol = "auto"`: upstreams over TLS that choose between HTTP/2 and HTTP/1.1 in each handshake. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { StatusPage } from '../../packages/proxy/src/control/status/view.ts';
import { type AlpnUpstream, type Spoken, startAlpnUpstream } from '../fixtures/alpn-upstream.ts';
import { countedBytes } from '../fixtures/bodies.ts';
import {
	type Answer,
	type Connection,
	connect,
	PROTOCOLS,
	type Protocol,
	type RequestOptions,
} from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { sampleSum } from '../fixtures/prometheus.ts';
import { ASKED_ONCE, startProxy, testOnce } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';
import { openWebSocket, refusal } from '../fixtures/web-socket-client.ts';

const pki = await testPki();
const identity = { cert: pki.server.certPem, key: pki.server.keyPem };
const group = (name: string, authority: string, more: object = {}) => ({
	...{ name, addresses: [authority], protocol: 'auto', tls: { ca_path: pki.caPath } },
	...more,
});

const newer = await startAlpnUpstream(identity, 'h2');
const older = await startAlpnUpstream(identity, 'http/1.1');
const changing = await startAlpnUpstream(identity, 'h2');
/** Takes WebSockets over HTTP/1.1 only. */
const halfway = await startAlpnUpstream(identity, 'h2');
halfway.takesHttp1 = true;
/** Takes HTTP/2 only, no WebSockets, and one connection at most. */
const modern = await startAlpnUpstream(identity, 'h2');
/** As `halfway`, with one connection at most. */
const single = await startAlpnUpstream(identity, 'h2');
single.takesHttp1 = true;
const few = await startAlpnUpstream(identity, 'http/1.1');
/** Knows nothing of ALPN. */
const ancient = await startUpstream({ tls: identity });
const names = { newer, older, changing, few, ancient, halfway, modern, single };
const proxy = await startProxy({
	upstreams: [
		...Object.entries({ newer, older, changing, ancient, halfway }).map(([name, { authority }]) =>
			group(name, authority),
		),
		...Object.entries({ modern, single }).map(([name, { authority }]) =>
			group(name, authority, { max_connections: 1, queue: 100, queue_timeout_secs: 60 }),
		),
		group('few', few.authority, { max_connections: 2, queue: 100, queue_timeout_secs: 60 }),
	],
	// A single failure would open the breaker of `modern`.
	routes: Object.keys(names).map((name) => ({
		...{ prefix: `/${name}`, upstream: name, websocket: true },
		...(name === 'modern' && { failures: 1 }),
	})),
	log: { access: 'all' },
	workers: 1,
	config: { ...ASKED_ONCE, tenant_rps: 0 },
});
/** Clients' connections, used again: this file does not test their handshakes. */
const idle: Record<Protocol, Connection[]> = { h1: [], h2: [] };
after(async () => {
	for (const client of Object.values(idle).flat()) await client.close();
	await proxy.stop();
	for (const upstream of [newer, older, changing, few, halfway, modern, single]) await upstream.stop();
	await ancient.close();
});
await until(
	async () => (await proxy.metric('proxy_upstream_alive')) === Object.keys(names).length,
	'every upstream to pass its health check, over the protocol that it has chosen',
);

const body = countedBytes(200_000);

async function request(protocol: Protocol, options: RequestOptions): Promise<Answer> {
	const known = idle[protocol].pop();
	const isUsable = known?.socket.readable && known.socket.writable;
	const client = isUsable ? known : await connect(protocol, proxy);
	const answer = await client.request(options);
	if (answer.ended === 'complete' && answer.headers.connection !== 'close') idle[protocol].push(client);
	else await client.close();
	return answer;
}

/** Requests of clients of both protocols at once. @param method GET: they can be repeated. @returns their outcomes. */
async function ask(path: string, requests: number, method = 'POST'): Promise<string[]> {
	const answers = await Promise.all(
		Array.from({ length: requests }, (_, i) => {
			const own = body.subarray(0, method === 'GET' ? 0 : i % 4 === 0 ? body.length : i);
			const sent = method === 'GET' ? {} : { body: own };
			return request(PROTOCOLS[i % 2]!, { method, path, ...sent, ms: 60_000 }).then(
				(answer) => (answer.status === 200 && !answer.body.equals(own) ? 'another body' : String(answer.status)),
				(error: Error) => error.message,
			);
		}),
	);
	return [...new Set(answers)];
}

/** How many connections have chosen it since the health check. */
const chosen = (upstream: AlpnUpstream, spoken: Spoken) =>
	upstream.chosen.slice(1).filter((one) => one === spoken).length;
const spokenTo = (upstream: AlpnUpstream) => [...new Set(upstream.requests)].sort();

describe('an upstream with protocol = "auto"', () => {
	test('is spoken to in HTTP/2 if it chooses that: all requests share a connection', async () => {
		// Where the upstream is slow to take uploads, or to answer at all, another connection is made: so a busy machine has a few.
		deepEqual(await ask('/newer', 40, 'GET'), ['200']);
		ok(chosen(newer, 'h2') <= 3, `${chosen(newer, 'h2')} connections`);
		deepEqual(await ask('/newer', 40), ['200']);
		deepEqual(spokenTo(newer), ['h2 /newer']);
		await proxy.atRest();
	});

	testOnce('has what it has chosen on the status page, for the connections that are open', async () => {
		deepEqual(await ask('/newer', 1), ['200']);
		const answer = await fetch(`http://127.0.0.1:${proxy.metricsPort}/status.json`);
		const { upstreams } = (await answer.json()) as StatusPage;
		const found = upstreams.items.find(({ upstream }) => upstream === newer.authority)!;
		deepEqual([found.protocol, found.chosen], ['auto', ['h2']]);
	});

	test('is spoken to in HTTP/1.1 if it chooses that, or knows nothing of ALPN', async () => {
		deepEqual(await ask('/older', 12), ['200']);
		deepEqual(await ask('/older', 12), ['200']);
		deepEqual(spokenTo(older), ['http/1.1 /older']);
		ok(chosen(older, 'http/1.1') <= 12, 'connections are used again');
		equal((await request('h2', { path: '/ancient' })).text, 'ok');
		await proxy.atRest();
	});

	testOnce('may change its mind in both directions, under load, and no request is lost', async () => {
		for (const spoken of ['http/1.1', 'h2', 'http/1.1', 'h2'] as const) {
			const before = changing.requests.length;
			const asked = ask('/changing', 60, 'GET');
			await until(() => changing.requests.length > before, 'the load to begin');
			changing.restart(spoken);
			deepEqual(await asked, ['200'], `to ${spoken}`);
			// A connection that was in use at that moment may have one more request.
			await until(async () => {
				const from = changing.requests.length;
				deepEqual(await ask('/changing', 10, 'GET'), ['200']);
				return changing.requests.slice(from).every((one) => one === `${spoken} /changing`);
			}, `all requests to be of ${spoken}`);
		}
		const last = chosen(changing, 'h2');
		deepEqual(await ask('/changing', 40, 'GET'), ['200']);
		ok(chosen(changing, 'h2') <= last + 3, 'requests share a connection again');
		await proxy.atRest();
	});

	test('opens no breaker, and fails no health check', async () => {
		const scrape = await proxy.metrics();
		equal(sampleSum(scrape, 'proxy_upstream_alive'), Object.keys(names).length);
		equal(sampleSum(scrape, 'proxy_circuit_transitions_total', { to: 'open' }), 0);
	});
});

for (const protocol of PROTOCOLS) {
	describe(`a WebSocket over ${protocol} to an upstream that chooses HTTP/2 without the extended CONNECT`, () => {
		test('gets a separate connection over HTTP/1.1, and requests go on over HTTP/2', async () => {
			const path = `/halfway/${protocol}`;
			equal((await request(protocol, { path })).status, 200);
			await using client = await openWebSocket(protocol, proxy, { path });
			client.ws.send('hello');
			equal(await client.text(), 'hello');
			equal((await request(protocol, { path })).status, 200);
			client.ws.close(4001);
			equal(await client.closed, 4001);
			const asked = halfway.requests.filter((one) => one.endsWith(path));
			deepEqual(asked, [`h2 ${path}`, `WebSocket ${path}`, `h2 ${path}`]);
		});

		test('gets 502 if the upstream takes no HTTP/1.1, which is no failure for the breaker', async () => {
			const path = `/modern/${protocol}`;
			equal((await refusal(openWebSocket(protocol, proxy, { path }))).status, 502);
			const line = await proxy.waitForLog((one) => one.target === 'proxy::access' && one.path === path);
			ok(String(line.reason).endsWith('(no SETTINGS_ENABLE_CONNECT_PROTOCOL), and no HTTP/1.1'), String(line.reason));
			equal((await request(protocol, { path })).status, 200);
			await proxy.atRest();
		});

		test('keeps to max_connections: an idle connection makes room, a busy one means 503', async () => {
			const path = `/single/${protocol}`;
			{
				await using client = await openWebSocket(protocol, proxy, { path });
				client.ws.send('hello');
				equal(await client.text(), 'hello');
				const open = await proxy.samples('proxy_upstream_connections');
				const own = open.filter(({ labels }) => labels.upstream === single.authority);
				equal(
					own.reduce((sum, { value }) => sum + value, 0),
					1,
				);
			}
			const held = `${path}/held`;
			const answer = request(protocol, { path: held, ms: 60_000 });
			await until(() => single.requests.includes(`h2 ${held}`), 'the request to wait at the upstream');
			equal((await refusal(openWebSocket(protocol, proxy, { path: `${path}/second` }))).status, 503);
			const line = await proxy.waitForLog((one) => one.target === 'proxy::access' && one.path === `${path}/second`);
			ok(String(line.reason).endsWith('(max_connections)'), String(line.reason));
			single.release();
			equal((await answer).status, 200);
			await proxy.atRest();
		});
	});
}

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type RecordedRequest, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const INTERVAL_MS = 150;
const CONFIG = {
	health_interval_secs: INTERVAL_MS / 1000,
	health_timeout_secs: 15,
	// Only a probe that passes closes a breaker.
	default_cooldown_secs: 3600,
	tenant_rps: 0,
};

describe('the health check', () => {
	let upstream: Upstream;
	let other: Upstream;
	let proxy: ProxyProcess;
	const open = new AsyncDisposableStack();
	before(async () => {
		[upstream, other] = [open.use(await startUpstream()), open.use(await startUpstream())];
		const routes = [
			{ prefix: '/', upstream: upstream.url },
			{ prefix: '/other', upstream: other.url },
			{ prefix: '/patient', upstream: upstream.url, cooldown_secs: 3600 },
		];
		proxy = open.use(await startProxy({ config: CONFIG, routes }));
	});
	after(() => open.disposeAsync());

	const alive = () => proxy.metric('proxy_upstream_alive', { upstream: upstream.authority });
	const circuit = () => proxy.metric('proxy_circuit_state', { upstream: upstream.authority });
	const becomes = (healthy: boolean) =>
		until(
			async () => (await alive()) === Number(healthy) && (await circuit()) === Number(!healthy),
			`the upstream to be ${healthy ? 'healthy' : 'unhealthy'}`,
		);

	test('is one GET /health an interval, on its own connection, without authorization or tenant', async () => {
		const seen: { at: number; request: RecordedRequest }[] = [];
		upstream.setHealth((exchange) => {
			seen.push({ at: performance.now(), request: exchange.request });
			exchange.respond();
		});
		const connections = upstream.connections.length;
		// The gaps between them differ as the machine is busy; on average, over some more of them, they do not.
		const mean = () => (seen.at(-1)!.at - seen[0]!.at) / (seen.length - 1);
		await until(
			() => seen.length >= 6 && mean() > 0.7 * INTERVAL_MS,
			() => `six probes; there was one in ${mean()} ms`,
		);
		upstream.setHealth(200);
		for (const { request } of seen) {
			assert.equal(request.startLine, 'GET /health HTTP/1.1');
			assert.equal(request.header('host'), upstream.authority);
			assert.deepEqual([request.header('authorization'), request.header('x-proxy-tenant')], [undefined, undefined]);
		}
		assert.ok(new Set(seen.map(({ request }) => request.connection)).size === seen.length);
		// The first probe may have had its connection before.
		assert.ok(upstream.connections.length >= connections + seen.length - 1);
	});

	test('is failed by a redirect, opens a breaker that was closed, and keeps every request away', async () => {
		upstream.setHealth(200);
		await becomes(true);
		const { length } = upstream.requests;
		upstream.setHealth((exchange) => exchange.respond({ status: 301, headers: [['location', '/elsewhere']] }));
		await becomes(false);
		for (const protocol of PROTOCOLS) {
			const { status, text } = await request(protocol, proxy);
			assert.equal(`${status} ${text}`, '503 upstream unavailable');
			assert.equal((await request(protocol, proxy, { path: '/other' })).status, 200, 'another upstream');
		}
		assert.equal(upstream.requests.length, length, 'neither a request nor a redirect gets there');
	});

	test('fails if nothing listens, and passes when something does again', async () => {
		const { port } = other;
		const state = () => proxy.metric('proxy_upstream_alive', { upstream: other.authority });
		await other.stop();
		await until(async () => (await state()) === 0, 'the verdict');
		const { text } = await request('h1', proxy, { path: '/other' });
		assert.equal(text, 'upstream unavailable');
		await using again = await startUpstreamOn(port);
		await until(async () => (await request('h1', proxy, { path: '/other' })).status === 200, 'the upstream');
		assert.equal(again.requests.length, 1);
	});
});

async function startUpstreamOn(port: number): Promise<Upstream> {
	const upstream = await startUpstream();
	await upstream.stop();
	await upstream.listen(port);
	return upstream;
}

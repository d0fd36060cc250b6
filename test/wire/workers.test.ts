import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { heldBody } from '../fixtures/bodies.ts';
import { type Connection, connect, connectTls, PROTOCOLS, request } from '../fixtures/clients.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { BODY_MODE, type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

const CONFIG = { health_interval_secs: 3600, health_timeout_secs: 15, tenant_rps: 0 };

let pki: TestPki;
let upstream: Upstream;
before(async () => {
	[pki, upstream] = await Promise.all([testPki(), startUpstream()]);
});
beforeEach(() => {
	upstream.script = (exchange) => exchange.respond({ body: 'ok' });
});
after(() => upstream.close());

interface Rig extends AsyncDisposable {
	readonly proxy: ProxyProcess;
	readonly inspector: WorkerInspector;
	/** Ends the thread of a worker by an error that nothing catches; resolves when its place is taken. */
	kill(worker: number): Promise<void>;
}

async function startRig(workers: number, options: ProxyOptions = {}): Promise<Rig> {
	const routes = [{ prefix: '/', upstream: upstream.url }];
	const proxy = await startProxy({ workers, env: INSPECTABLE, config: CONFIG, routes, ...options });
	const inspector = await WorkerInspector.attach(proxy, workers);
	let deaths = 0;
	return {
		proxy,
		inspector,
		kill: async (worker) => {
			const logged = proxy.logs.length;
			await inspector.ready(worker);
			inspector.run(worker, `throw new Error('killed by the test, ${++deaths}')`);
			await proxy.waitForLog(
				({ message, worker: index }) => message === 'worker replaced' && index === worker,
				undefined,
				logged,
			);
		},
		[Symbol.asyncDispose]: async () => {
			inspector[Symbol.dispose]();
			await proxy[Symbol.asyncDispose]();
		},
	};
}

describe('a worker that dies', () => {
	test('is replaced, and only its own connections notice', async () => {
		await using rig = await startRig(2);
		const { proxy, inspector } = rig;
		const connections = await Promise.all(Array.from({ length: 24 }, (_, i) => connect(PROTOCOLS[i % 2]!, proxy)));
		for (const connection of connections) assert.equal((await connection.request()).status, 200);
		const gone = new Set<Connection>();
		for (const connection of connections) void connection.closed.then(() => gone.add(connection));
		const before = await proxy.metrics();

		await rig.kill(0);
		await until(
			async () => (await proxy.metric('proxy_connections')) === connections.length - gone.size,
			'the lost connections to be counted no more',
		);
		assert.ok(gone.size > 0 && gone.size < connections.length, `${gone.size} connections were lost`);
		for (const connection of connections) {
			if (!gone.has(connection)) assert.equal((await connection.request()).status, 200, 'of the other worker');
		}
		for (const protocol of PROTOCOLS) assert.equal((await request(protocol, proxy)).status, 200);
		assert.equal(await proxy.metric('proxy_workers'), 2);
		const died = await proxy.waitForLog('worker died; replacing it');
		assert.deepEqual([died.level, died.worker, died.cause], ['error', 0, 'killed by the test, 1']);

		const after = await proxy.metrics();
		for (const [name, { type, samples }] of before) {
			if (type !== 'counter' || name.startsWith('process_')) continue;
			for (const { labels, value } of samples) {
				const same = (sample: { labels: unknown }) => JSON.stringify(sample.labels) === JSON.stringify(labels);
				const now = after.get(name)!.samples.find(same)!.value;
				assert.ok(now >= value, `${name} ${JSON.stringify(labels)} fell from ${value} to ${now}`);
			}
		}
		const served = connections.length + (connections.length - gone.size) + PROTOCOLS.length;
		assert.equal(await proxy.metric('proxy_requests_total', { status: '200' }), served);
		const timed = () => proxy.metric('proxy_request_duration_seconds_count');
		await until(async () => (await timed()) === served, 'each round trip to be counted');
		assert.equal(await proxy.metric('proxy_tls_handshake_seconds_count'), connections.length + PROTOCOLS.length);
		await inspector.ready(0);
		for (const connection of connections) await connection.close();
		await until(async () => (await proxy.metric('proxy_connections')) === 0, 'all connections to be gone');
	});

	test('begins anew with the configuration in force, not with that of the start', async () => {
		await using rig = await startRig(1);
		const { proxy } = rig;
		const server = await pki.issueServer('in-force');
		proxy.writeConfig({
			tls: { cert_path: server.certPath, key_path: server.keyPath },
			routes: [{ prefix: '/new', upstream: upstream.url }],
		});
		await proxy.reload();
		proxy.writeConfig('what is in the file now counts for nothing');
		await rig.kill(0);
		const socket = await connectTls(proxy);
		assert.equal(socket.getPeerCertificate().serialNumber, server.serialNumber);
		socket.destroy();
		assert.equal((await request('h1', proxy, { path: '/new' })).status, 200);
		assert.equal((await request('h1', proxy, { path: '/' })).status, 404);
		const { tls } = await proxy.reload();
		assert.equal(tls.message, 'mTLS reload failed; keeping old');
	});

	test('refills no tenant', async () => {
		const RPS = 50;
		await using rig = await startRig(1, { config: { ...CONFIG, tenant_rps: RPS } });
		let admitted = 0;
		const ask = async () => {
			await using connection = await connect('h2', rig.proxy);
			const answers = await Promise.all(Array.from({ length: 60 }, () => connection.request()));
			const statuses = answers.map(({ status }) => status);
			assert.ok(statuses.every((status) => status === 200 || status === 429));
			admitted += statuses.filter((status) => status === 200).length;
		};
		const begun = performance.now();
		await ask();
		await rig.kill(0);
		await ask();
		const due = ((performance.now() - begun) / 1000) * RPS;
		assert.ok(admitted >= RPS && admitted <= RPS + due + 1, `${admitted} admitted, ${due} refilled`);
	});

	test('closes no breaker, and gives back the connections that it held', async () => {
		await using rig = await startRig(1, {
			config: { ...CONFIG, default_cooldown_secs: 60 },
			limits: { max_connections: 3 },
		});
		const { proxy } = rig;
		const held = await Promise.all([1, 2, 3].map(() => connectTls(proxy)));
		for (const socket of held) socket.on('error', () => {});
		await until(async () => (await proxy.metric('proxy_connections')) === 3, 'the connections');
		await rig.kill(0);
		upstream.script = (exchange) => exchange.respond({ status: 503 });
		for (const socket of await Promise.all([1, 2].map(() => connectTls(proxy)))) socket.destroy();
		assert.equal((await request('h1', proxy)).text, '');
		assert.equal(await proxy.metric('proxy_circuit_state'), 1);
		await rig.kill(0);
		assert.equal(await proxy.metric('proxy_circuit_state'), 1);
		assert.equal((await request('h1', proxy)).text, 'upstream unavailable');
	});

	test('gives back what its tenants held of the memory for bodies', { skip: BODY_MODE !== 'collected' }, async () => {
		await using rig = await startRig(1, {
			limits: { max_buffered_bytes: 16_000_000, max_buffered_bytes_per_tenant: 6_000_000 },
		});
		const { proxy } = rig;
		// Two of them and what a third one takes are more than the share; one alone never is, also while its buffer grows.
		const body = Buffer.alloc(2_500_000);
		const statusOf = async (token: string) => (await request('h1', proxy, { method: 'POST', body, token })).status;
		const holders = await Promise.all([1, 2].map(() => connect('h1', proxy)));
		const gone = holders.map((holder) =>
			holder.request({
				method: 'POST',
				body: heldBody(body.subarray(0, 1_500_000)),
				headers: { 'content-length': '2000000' },
			}),
		);
		// What has arrived from the holders, the worker has read before it serves these.
		for (let i = 0; i < 5; i++) assert.equal(await statusOf(pki.token('other')), 200);
		await until(async () => (await statusOf(pki.token('tenant'))) === 503, 'its tenant to hold its share');
		await rig.kill(0);
		for (const answer of await Promise.all(gone)) assert.equal(answer.status, 0);
		for (const holder of holders) await holder.close();
		for (let i = 0; i < 3; i++) assert.equal(await statusOf(pki.token('tenant')), 200);
	});

	test('a worker that dies ends its requests in flight, and closes their upstream connections', async () => {
		const gate = Promise.withResolvers<void>();
		let aborted = 0;
		await using slow = await startUpstream({
			script: async (exchange) => {
				void exchange.closed.then(() => aborted++);
				await gate.promise;
			},
		});
		await using rig = await startRig(1, { routes: [{ prefix: '/', upstream: slow.url }] });
		const answers = PROTOCOLS.map((protocol) => request(protocol, rig.proxy));
		await slow.request(2, 'complete');
		await rig.kill(0);
		for (const answer of await Promise.all(answers)) assert.equal(answer.status, 0);
		await until(() => aborted === 2, 'the upstream connections to be closed');
		gate.resolve();
		const left = () => rig.proxy.metric('proxy_upstream_connections');
		await until(async () => (await left()) === 0, 'no connection to be counted any more');
	});

	test('is not replaced during a drain, and does not hold it up', async () => {
		await using rig = await startRig(2);
		const { proxy, inspector } = rig;
		const gate = Promise.withResolvers<void>();
		upstream.script = async (exchange) => {
			await gate.promise;
			exchange.respond({ body: 'late' });
		};
		const answers = Array.from({ length: 24 }, () => request('h1', proxy));
		await until(async () => (await proxy.metric('proxy_upstream_connections', { state: 'active' })) === 24, 'requests');
		const exited = proxy.stop();
		await proxy.waitForLog('draining');
		inspector.run(0, `throw new Error('killed by the test')`);
		await proxy.waitForLog('worker failed');
		inspector[Symbol.dispose]();
		gate.resolve();
		const texts = (await Promise.all(answers)).map(({ text }) => text);
		assert.ok(texts.includes('late') && texts.includes(''), texts.join());
		assert.equal(await within(exited, 'the end of the drain'), 0);
		assert.ok(!proxy.logs.some(({ message }) => message === 'worker replaced'));
	});
});

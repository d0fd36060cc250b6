/** Limits of an upstream: requests in flight, connections, and pending requests, in turns by tenant. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Answer, type Connection, connect, h2Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import { dataFrame, FRAME, headersFrame, requestFields, statusOf } from '../fixtures/h2-frames.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { BODY_MODE, type ProxyProcess, startProxy, testOnce } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

/** Requests under way, and those that may wait. */
const [MOST, QUEUE] = [2, 3];
/** What one tenant may hold of the memory for bodies, bytes. */
const SHARE = 300_000;

let pki: TestPki;
let upstream: Upstream;
let proxy: ProxyProcess;
/** The most that the upstream has had at once. */
let most = 0;
let atOnce = 0;
/** Answers all requests, from now on at once. */
let release: () => void;
let released: Promise<void>;

const NAMES = ['busy', 'hasty', 'narrow', 'fair'] as const;

before(async () => {
	[pki, upstream] = await Promise.all([testPki(), startUpstream()]);
	const limits = {
		busy: { max_requests: MOST, queue: QUEUE, queue_timeout_secs: 60 },
		hasty: { max_requests: 1, queue: 1, queue_timeout_secs: 0.2 },
		narrow: { max_connections: 1, queue: 50, queue_timeout_secs: 60 },
		fair: { max_requests: 1, queue: 50, queue_timeout_secs: 60 },
	};
	proxy = await startProxy({
		workers: 2,
		config: { health_interval_secs: 3600 },
		log: { access: 'all' },
		limits: { max_buffered_bytes_per_tenant: SHARE },
		upstreams: NAMES.map((name) => ({ name, addresses: [upstream.authority], ...limits[name] })),
		routes: NAMES.map((name) => ({ prefix: `/${name}`, upstream: name })),
	});
});
after(async () => {
	await proxy[Symbol.asyncDispose]();
	await upstream.close();
});

function hold(): void {
	({ promise: released, resolve: release } = Promise.withResolvers<void>());
	[most, atOnce] = [0, 0];
	upstream.requests.length = 0;
	upstream.script = async (exchange) => {
		most = Math.max(most, ++atOnce);
		await released;
		atOnce--;
		exchange.respond({ body: 'ok' });
	};
}

const waiting = (group: string) => proxy.metric('proxy_upstream_queue_length', { group });
const queued = (group: string, result: string) => proxy.metric('proxy_upstream_queued_total', { group, result });

for (const protocol of PROTOCOLS) {
	describe(`an upstream with limits, over ${protocol}`, () => {
		const ask = (path: string, tenant = 'tenant', body?: string): Promise<Answer> =>
			request(protocol, proxy, { path, token: pki.token(tenant), ms: 60_000, ...(body && { method: 'POST', body }) });

		test('gets no more at once, across all threads; others wait, and what is over that is 503 with Retry-After', async () => {
			hold();
			const under = [ask('/busy/1'), ask('/busy/2')];
			await upstream.request(MOST);
			const behind = ['a', 'b', 'c'].map((tenant) => ask('/busy/3', tenant, 'body'));
			await until(async () => (await waiting('busy')) === QUEUE, 'the queue to be full');
			const refused = await ask('/busy/4');
			assertOwnAnswer(refused, 503, 'overloaded');
			equal(refused.headers['retry-after'], '1');
			equal(upstream.requests.length, MOST);
			release();
			for (const answer of await Promise.all([...under, ...behind]))
				deepEqual([answer.status, answer.text], [200, 'ok']);
			equal(most, MOST);
			equal(await waiting('busy'), 0);
			const line = await proxy.waitForLog((one) => one.target === 'proxy::access' && Number(one.queue_ms) > 0);
			ok(Number(line.duration_ms) >= Number(line.queue_ms));
		});

		testOnce('refuses a request that has waited for queue_timeout_secs', async () => {
			hold();
			const before = await queued('hasty', 'timeout');
			const under = ask('/hasty/1');
			await upstream.request(1);
			assertOwnAnswer(await ask('/hasty/2', 'tenant', 'body'), 503, 'overloaded');
			await until(async () => (await queued('hasty', 'timeout')) === before + 1, 'it to be counted');
			equal(upstream.requests.length, 1);
			release();
			equal((await under).status, 200);
			equal((await ask('/hasty/3')).status, 200);
		});

		testOnce('a client that leaves the queue causes no request to the upstream', async () => {
			hold();
			const before = await queued('fair', 'gone');
			const under = ask('/fair/1');
			await upstream.request(1);
			const client = await connect(protocol, proxy);
			void client.request({ path: '/fair/2', token: pki.token('tenant'), ms: 60_000 }).catch(() => {});
			await until(async () => (await waiting('fair')) === 1, 'the request to wait');
			await client[Symbol.asyncDispose]();
			await until(async () => (await queued('fair', 'gone')) === before + 1, 'the client to be gone');
			equal(await waiting('fair'), 0);
			release();
			equal((await under).status, 200);
			equal(upstream.requests.length, 1);
		});

		testOnce('shares one connection among threads: none is kept idle that another one waits for', async () => {
			hold();
			release();
			const open = () => upstream.openConnections.filter(({ bytes }) => bytes > 0).length;
			upstream.closeConnections();
			await until(() => open() === 0, 'no connection');
			const clients: Connection[] = await Promise.all(Array.from({ length: 8 }, () => connect(protocol, proxy)));
			for (let round = 0; round < 3; round++) {
				const answers = clients.map((client) =>
					client.request({ path: '/narrow', token: pki.token('tenant'), ms: 60_000 }),
				);
				for (const { status } of await Promise.all(answers)) equal(status, 200);
			}
			equal(most, 1);
			await until(() => open() <= 1, 'one connection');
			for (const client of clients) await client[Symbol.asyncDispose]();
		});
	});
}

test('uploads over HTTP/2 that wait in the queue count as memory of their tenant', async (t) => {
	if (BODY_MODE !== 'streaming') return t.skip('collected bodies are counted as they are read');
	const held = () => proxy.metric('proxy_body_memory_bytes');
	hold();
	const under = request('h2', proxy, { path: '/fair/1', token: pki.token('first'), ms: 60_000 });
	await upstream.request(1);
	{
		using client = await h2Raw(proxy);
		const upload = (id: number, tenant: string) => {
			const head = requestFields('POST', '/fair/upload', pki.token(tenant));
			const pieces = Array.from({ length: 4 }, () => dataFrame(id, Buffer.alloc(15_000)));
			client.send(headersFrame(id, head, { endStream: false }), ...pieces);
		};
		for (let id = 1; id <= 19; id += 2) upload(id, 'hoarder');
		const refused = await client.frameOf(FRAME.HEADERS, undefined);
		equal(statusOf(refused), 503);
		const line = await proxy.waitForLog(({ path, status }) => path === '/fair/upload' && Number(status) === 503);
		equal(line.reason, 'this tenant holds its share of max_buffered_bytes');
		upload(21, 'other');
		await until(async () => (await held()) > SHARE, "the other one's upload to be held");
		ok((await held()) < SHARE + 65_536);
		const statuses = () => client.frames.filter(({ type }) => type === FRAME.HEADERS);
		await until(() => statuses().length > 5, 'what is beyond the share to be refused');
		const most = 10 - statuses().length;
		ok(most >= 3 && most < 5, `${most} uploads of 60,000 bytes are held`);
		equal(await waiting('fair'), most + 1);
		release();
		equal((await under).status, 200);
	}
	await until(async () => (await held()) === 0, 'the memory to be given back');
	await until(async () => (await waiting('fair')) === 0, 'nobody to wait');
});

testOnce('a tenant that fills the queue from one thread keeps no small tenant of any thread out', async (t) => {
	const SMALL = 12;
	await using own = await startProxy({
		workers: 2,
		config: { health_interval_secs: 3600, tenant_rps: 100_000 },
		upstreams: [{ name: 'up', addresses: [upstream.authority], max_requests: 2, queue: 20, queue_timeout_secs: 60 }],
		routes: [{ prefix: '/', upstream: 'up' }],
	});
	upstream.script = async (exchange) => {
		await new Promise((done) => setTimeout(done, 2));
		exchange.respond({ body: 'ok' });
	};
	const send = (client: Connection, tenant: string) => client.request({ token: pki.token(tenant), ms: 60_000 });
	const greedy = await connect('h2', own);
	let [isOver, greedyRefused] = [false, 0];
	const burst = Array.from({ length: 60 }, async () => {
		while (!isOver) if ((await send(greedy, 'greedy')).status === 503) greedyRefused++;
	});
	await until(async () => (await own.metric('proxy_upstream_queue_length', { group: 'up' })) >= 20, 'a full queue');
	// The kernel spreads connections over the threads.
	const statuses = await Promise.all(
		Array.from({ length: SMALL }, async (_, i) => {
			await using small = await connect('h2', own);
			const answers: number[] = [];
			for (let round = 0; round < 10; round++) answers.push((await send(small, `small-${i}`)).status);
			return answers;
		}),
	);
	isOver = true;
	await Promise.all(burst);
	const lost = statuses.flat().filter((status) => status !== 200).length;
	t.diagnostic(`${lost} of ${SMALL * 10} requests of small tenants lost, ${greedyRefused} of the greedy one`);
	equal(lost, 0);
	ok(greedyRefused > 0);
});

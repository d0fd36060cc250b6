/** Quotas: `[[tenants]]`, `rate_claim`, a route's `rps`, `concurrency`, and what answers say of them. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type Answer, type Connection, connect, PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const WORKERS = 2;
const LIMITED_ROUTE = { prefix: '/limited', rps: 1, burst: 2 };
/** A tenant of each kind for each protocol, so that neither test spends what the other one needs. */
const TENANTS = PROTOCOLS.flatMap((protocol) => [
	{ name: `slow-${protocol}`, rps: 1, burst: 3 },
	{ name: `deep-${protocol}`, rps: 1, burst: 20 },
	{ name: `free-${protocol}`, rps: 0 },
	{ name: `busy-${protocol}`, rps: 0, concurrency: 2 },
	{ name: `orphan-${protocol}`, rps: 0, concurrency: 3 },
]);

let pki: TestPki;
let upstream: Upstream;
let proxy: ProxyProcess;
/** The same quotas, with `RateLimit` fields in all responses. */
let telling: ProxyProcess;
/** Answers all waiting requests for `/hold`. */
let release: () => void;
let released: Promise<void>;

before(async () => {
	[pki, upstream] = await Promise.all([testPki(), startUpstream()]);
	const routes = [
		{ prefix: '/', upstream: upstream.url },
		{ ...LIMITED_ROUTE, upstream: upstream.url },
	];
	const common = {
		routes,
		tenants: TENANTS,
		config: { health_interval_secs: 3600, health_timeout_secs: 15, tenant_rps: 5 },
		jwt: { rate_claim: 'rps', max_rps: 2 },
		breaker: { failures: 100 },
	};
	[proxy, telling] = await Promise.all([
		startProxy({ ...common, workers: WORKERS, env: INSPECTABLE, log: { access: 'all' } }),
		startProxy({ ...common, workers: 1, limits: { rate_limit_headers: true } }),
	]);
});
beforeEach(() => {
	({ promise: released, resolve: release } = Promise.withResolvers<void>());
	upstream.script = async (exchange) => {
		const { target } = exchange.request;
		if (target === '/hold') await released;
		if (target === '/die') return void exchange.socket.destroy();
		exchange.respond({
			headers: [
				['ratelimit-policy', '"upstream";q=1;w=1'],
				['ratelimit', 'limit=1, remaining=0, reset=9'],
			],
		});
	};
});
after(async () => {
	release();
	await Promise.all([proxy[Symbol.asyncDispose](), telling[Symbol.asyncDispose]()]);
	await upstream.close();
});

/** Sends requests one after the other. @returns also the elapsed seconds, in which the bucket may have refilled. */
async function ask(connection: Connection, requests: number, path: string, token: string) {
	const begun = performance.now();
	const answers: Answer[] = [];
	for (let i = 0; i < requests; i++) answers.push(await connection.request({ path, token }));
	return { answers, seconds: (performance.now() - begun) / 1000 };
}

/** Asserts that a burst was admitted, and beyond it only the tokens that came back in the meantime. */
function assertBurst({ answers, seconds }: Awaited<ReturnType<typeof ask>>, burst: number, rps: number): Answer[] {
	const admitted = answers.filter(({ status }) => status === 200).length;
	const refused = answers.filter(({ status }) => status === 429);
	assert.equal(admitted + refused.length, answers.length);
	assert.ok(admitted >= burst && admitted <= burst + seconds * rps + 1, `${admitted} admitted in ${seconds} s`);
	assert.ok(refused.length > 0, 'nothing was refused');
	return refused;
}

/** Begins requests that the upstream holds, and waits until they are there. No GET: that would be tried once more. */
async function hold(protocol: Protocol, count: number, token: string, at = proxy) {
	const arrived = () => upstream.requests.filter(({ target }) => target === '/hold').length;
	const wanted = arrived() + count;
	const connections = await Promise.all(Array.from({ length: count }, () => connect(protocol, at)));
	const answers = connections.map((connection) => connection.request({ method: 'POST', path: '/hold', token }));
	for (const answer of answers) answer.catch(() => {});
	await until(async () => arrived() >= wanted, 'the requests to arrive');
	return { connections, answers };
}

for (const protocol of PROTOCOLS) {
	describe(`quotas over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, proxy);
		});
		after(() => client.close());

		test('[[tenants]] goes before the claim of the token, and that, capped, before tenant_rps', async () => {
			const [slow, free] = [`slow-${protocol}`, `free-${protocol}`];
			assertBurst(await ask(client, 10, '/', pki.token(slow, { rps: 2 })), 3, 1);
			const { answers } = await ask(client, 20, '/', pki.token(free, { rps: 1 }));
			assert.ok(answers.every(({ status }) => status === 200));
			assertBurst(await ask(client, 6, '/', pki.token(`claims-${protocol}`, { rps: 1 })), 1, 1);
			assertBurst(await ask(client, 8, '/', pki.token(`capped-${protocol}`, { rps: 4 })), 2, 2);
			assertBurst(await ask(client, 25, '/', pki.token(`default-${protocol}`)), 5, 5);
		});

		test('a 429 says the limit and the true time, whether or not other answers do', async () => {
			const token = pki.token(`slow-${protocol}`);
			const { answers } = await ask(client, 10, '/', token);
			const refused = answers.find(({ status }) => status === 429)!;
			assert.equal(refused.headers['ratelimit-policy'], '"tenant";q=3;w=3');
			assert.equal(refused.headers.ratelimit, '"tenant";r=0;t=1');
			assert.equal(refused.headers['retry-after'], '1');
			assert.equal(refused.text, 'rate limited');
			const served = await client.request({ path: '/', token: pki.token(`free-${protocol}`) });
			// The upstream's fields: the proxy adds none.
			assert.equal(served.headers.ratelimit, 'limit=1, remaining=0, reset=9');
		});

		test("a route's rps holds in addition, for each tenant by itself, and is given back nowhere else", async () => {
			const token = pki.token(`free-${protocol}`);
			const counted = await proxy.metric('proxy_ratelimit_refusals_total', { reason: 'route' });
			const refused = assertBurst(await ask(client, 8, '/limited/x', token), 2, 1);
			assert.equal(refused[0]!.headers['ratelimit-policy'], '"route";q=2;w=2;pk=:L2xpbWl0ZWQ=:');
			assert.equal(refused[0]!.headers.ratelimit, '"route";r=0;t=1;pk=:L2xpbWl0ZWQ=:');
			assert.equal(refused[0]!.headers['retry-after'], '1');
			assert.equal(await proxy.metric('proxy_ratelimit_refusals_total', { reason: 'route' }), counted + refused.length);
			assert.equal((await client.request({ path: '/', token })).status, 200);
			const other = await client.request({ path: '/limited', token: pki.token(`neighbour-${protocol}`) });
			assert.equal(other.status, 200);
			await proxy.waitForLog(({ target, reason }) => target === 'proxy::access' && reason === "over the route's rps");
		});

		test('concurrency is given back in every ending, and only once', async () => {
			const token = pki.token(`busy-${protocol}`);
			const full = async () => {
				const { status, headers, text } = await client.request({ path: '/', token });
				if (status !== 429 || headers.ratelimit !== '"concurrency";r=0') return false;
				assert.equal(text, 'rate limited');
				assert.equal(headers['ratelimit-policy'], '"concurrency";q=2;qu="concurrent-requests"');
				assert.equal(headers['retry-after'], '1');
				return true;
			};
			const endings = {
				answered: async ({ answers }: Awaited<ReturnType<typeof hold>>) => {
					release();
					for (const answer of answers) assert.equal((await answer).status, 200);
				},
				'client gone': async ({ connections }: Awaited<ReturnType<typeof hold>>) => {
					for (const { socket } of connections) socket.destroy();
				},
				'upstream gone': async ({ answers }: Awaited<ReturnType<typeof hold>>) => {
					upstream.closeConnections();
					for (const answer of answers) assert.equal((await answer).status, 502);
				},
			};
			for (const [name, end] of Object.entries(endings)) {
				({ promise: released, resolve: release } = Promise.withResolvers<void>());
				await until(async () => (await client.request({ path: '/', token })).status === 200, `room before ${name}`);
				const held = await hold(protocol, 2, token);
				await until(full, `no third request before ${name}`);
				await end(held);
				// Both are back, and no more than both.
				await until(async () => (await client.request({ path: '/', token })).status === 200, `room after ${name}`);
				for (const connection of held.connections) await connection.close().catch(() => {});
			}
			// A request that fails releases its share, too.
			for (let i = 0; i < 4; i++) {
				await until(
					async () => (await client.request({ path: '/die', token })).status === 502,
					'an upstream that dies',
				);
			}
			({ promise: released, resolve: release } = Promise.withResolvers<void>());
			const held = await hold(protocol, 2, token);
			await until(full, 'exactly two again');
			release();
			for (const connection of held.connections) await connection.close();
			assert.ok((await proxy.metric('proxy_ratelimit_refusals_total', { reason: 'concurrency' })) > 0);
		});

		test('all answers say what is left with rate_limit_headers, instead of what the upstream says', async () => {
			await using asking = await connect(protocol, telling);
			const token = pki.token(`deep-${protocol}`);
			const first = await asking.request({ path: '/limited', token });
			assert.equal(first.headers['ratelimit-policy'], '"tenant";q=20;w=20, "route";q=2;w=2;pk=:L2xpbWl0ZWQ=:');
			assert.equal(first.headers.ratelimit, '"tenant";r=19;t=1, "route";r=1;t=1;pk=:L2xpbWl0ZWQ=:');
			assert.equal(first.headers['retry-after'], undefined);
			// The proxy's own answers behind the limits, too.
			const busy = await asking.request({ path: '/x/../y', token: pki.token(`busy-${protocol}`) });
			assert.equal(busy.status, 400);
			assert.equal(busy.headers['ratelimit-policy'], '"concurrency";q=2;qu="concurrent-requests"');
			assert.equal(busy.headers.ratelimit, '"concurrency";r=1');
			await using again = await connect(protocol, telling);
			const unlimited = await again.request({ path: '/', token: pki.token(`free-${protocol}`) });
			// Without limits the proxy adds nothing, and the upstream's fields stay.
			assert.equal(unlimited.headers.ratelimit, 'limit=1, remaining=0, reset=9');
		});
	});
}

describe('a reload of quotas', () => {
	test('changes rates without refilling a bucket, keeps counting requests in flight, and Retry-After follows a smaller burst', async () => {
		for (const protocol of PROTOCOLS) {
			await using client = await connect(protocol, proxy);
			const deep = pki.token(`deep-${protocol}`);
			assertBurst(await ask(client, 30, '/', deep), 20, 1);
			const held = await hold(protocol, 3, pki.token(`orphan-${protocol}`));
			const changed = TENANTS.map((tenant) =>
				tenant.name.startsWith('deep') ? { ...tenant, rps: 1, burst: 10 } : tenant,
			);
			proxy.writeConfig({ tenants: changed });
			await proxy.reload();
			const { status, headers } = await client.request({ path: '/', token: deep });
			assert.equal(status, 429, 'it was refilled');
			const wait = Number(headers['retry-after']);
			// It owes about twenty seconds, and may owe ten less one request.
			assert.ok(wait >= 5 && wait <= 11, `come again in ${wait} s`);
			assert.equal(headers['ratelimit-policy'], '"tenant";q=10;w=10');
			const busy = await client.request({ path: '/', token: pki.token(`orphan-${protocol}`) });
			assert.deepEqual([busy.status, busy.headers.ratelimit], [429, '"concurrency";r=0']);
			release();
			for (const answer of held.answers) assert.equal((await answer).status, 200);
			for (const connection of held.connections) await connection.close();
			({ promise: released, resolve: release } = Promise.withResolvers<void>());
			proxy.writeConfig({ tenants: TENANTS });
			await proxy.reload();
			// The larger burst applies again, and spent tokens stay spent.
			assertBurst(await ask(client, 20, '/', deep), 0, 10);
		}
		assert.ok(!proxy.logs.some(({ message }) => message === 'identity reload failed; keeping old'));
	});
});

test('a worker that dies gives back what its requests had taken of the concurrency', async () => {
	using inspector = await WorkerInspector.attach(proxy, WORKERS);
	const token = pki.token('orphan-h2');
	const held = await hold('h2', 3, token);
	for (const worker of Array.from({ length: WORKERS }, (_, i) => i)) {
		const logged = proxy.logs.length;
		await inspector.ready(worker);
		inspector.run(worker, "throw new Error('killed by the test')");
		await proxy.waitForLog(
			({ message, worker: index }) => message === 'worker replaced' && index === worker,
			undefined,
			logged,
		);
	}
	release();
	for (const { socket } of held.connections) socket.destroy();
	({ promise: released, resolve: release } = Promise.withResolvers<void>());
	// All three, and no fourth.
	const again = await hold('h2', 3, token);
	await using client = await connect('h2', proxy);
	const { status, headers } = await client.request({ path: '/', token });
	assert.deepEqual([status, headers.ratelimit], [429, '"concurrency";r=0']);
	release();
	for (const connection of again.connections) await connection.close();
});

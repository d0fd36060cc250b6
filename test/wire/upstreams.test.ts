/** `[[upstreams]]`: several addresses behind one name, spread, retried and reloaded. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { after, describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { countedBytes, heldBody } from '../fixtures/bodies.ts';
import { type Connection, connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { EchoUpstream, Load } from '../fixtures/load.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import type { LogLine } from '../fixtures/program.ts';
import { BODY_MODE, startProxy, testOnce } from '../fixtures/proxy.ts';
import { CIRCUIT } from '../fixtures/stage.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

/** Groups, and how many addresses each of them has. Each protocol has its own. */
const GROUPS = {
	turns: { addresses: 3, keys: { balance: 'round-robin' } },
	least: { addresses: 2, keys: {} },
	refused: { addresses: 2, keys: { balance: 'round-robin' } },
	streamed: { addresses: 2, keys: { balance: 'round-robin' } },
	stale: { addresses: 2, keys: { balance: 'round-robin' } },
	often: { addresses: 3, keys: { balance: 'round-robin', retries: 2 } },
	none: { addresses: 2, keys: { balance: 'round-robin' } },
	silent: { addresses: 2, keys: { balance: 'round-robin', connect_timeout_secs: 0.3, health: false } },
	budget: { addresses: 2, keys: { balance: 'round-robin' } },
} as const;
type GroupName = keyof typeof GROUPS;

interface Group {
	readonly name: string;
	readonly path: string;
	readonly upstreams: readonly Upstream[];
}

/** A listener that accepts nothing and whose backlog is full: connecting never ends. */
async function startSilent(): Promise<{ authority: string; close: () => Promise<unknown> }> {
	const worker = new Worker(
		`const { parentPort } = require('node:worker_threads');
		const server = require('node:net').createServer();
		server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
			parentPort.postMessage(server.address().port);
			setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
		});`,
		{ eval: true },
	);
	const [port] = (await once(worker, 'message')) as [number];
	const sockets = Array.from({ length: 4 }, () => connectTcp(port, '127.0.0.1').on('error', () => {}));
	await once(sockets[0]!, 'connect');
	return {
		authority: `127.0.0.1:${port}`,
		close: async () => {
			for (const socket of sockets) socket.destroy();
			await worker.terminate();
		},
	};
}

async function startGroup(name: GroupName, protocol: string): Promise<Group> {
	const upstreams = await Promise.all(
		Array.from({ length: GROUPS[name].addresses }, (_, i) =>
			startUpstream({ script: (exchange) => exchange.respond({ body: `${i}` }) }),
		),
	);
	return { name: `${name}-${protocol}`, path: `/${name}-${protocol}`, upstreams };
}

const groups = await Promise.all(
	PROTOCOLS.flatMap((protocol) =>
		(Object.keys(GROUPS) as GroupName[]).map(async (name) => ({ kind: name, ...(await startGroup(name, protocol)) })),
	),
);
const silent = await startSilent();
/** Health is probed only at the start, so that only the test changes breakers. */
const proxy = await startProxy({
	config: { health_interval_secs: 3600, default_cooldown_secs: 3600, tenant_rps: 0 },
	log: { access: 'all' },
	upstreams: groups.map(({ kind, name, upstreams }) => {
		return {
			name,
			addresses: upstreams.map(({ authority }, i) => (kind === 'silent' && i === 0 ? silent.authority : authority)),
			...GROUPS[kind].keys,
		};
	}),
	routes: groups.map(({ kind, name, path }) => {
		return { prefix: path, upstream: name, failures: kind === 'budget' ? 100 : 1 };
	}),
});
after(async () => {
	await proxy[Symbol.asyncDispose]();
	await silent.close();
	await Promise.all(groups.flatMap(({ upstreams }) => upstreams.map((upstream) => upstream.close())));
});

/** A connection that ends later than after 50 ms has had the request, for all that the proxy can know: a busy machine proves nothing then. */
function promptly(): () => boolean {
	const from = performance.now();
	return () => performance.now() - from <= 50;
}

for (const protocol of PROTOCOLS) {
	const take = (kind: GroupName) => groups.find(({ name }) => name === `${kind}-${protocol}`)!;
	/** Answers on one connection, so by one worker, one after the other. */
	const bodies = async ({ path }: Group, times: number, client: Connection) => {
		const texts: string[] = [];
		for (let i = 0; i < times; i++) texts.push((await client.request({ path })).text);
		return texts;
	};
	const count = (texts: readonly string[], body: string) => texts.filter((text) => text === body).length;
	const labelsOf = (group: Group, i: number) => ({
		upstream: group.name.startsWith('silent') && i === 0 ? silent.authority : group.upstreams[i]!.authority,
		group: group.name,
	});
	const retries = (reason: string, group: Group, i: number) =>
		proxy.metric('proxy_upstream_retries_total', { ...labelsOf(group, i), reason });
	const circuit = (group: Group, i: number) => proxy.metric('proxy_circuit_state', labelsOf(group, i));
	const lines = ({ path }: Group) =>
		proxy.logs.filter((line: LogLine) => line.target === 'proxy::access' && line.path === path);

	describe(`several addresses, over ${protocol}`, () => {
		testOnce('take turns, and say which one it was', async () => {
			const group = take('turns');
			await using client = await connect(protocol, proxy);
			const texts = await bodies(group, 9, client);
			for (const body of ['0', '1', '2']) equal(count(texts, body), 3, `${texts}`);
			for (const [i, { authority, requests }] of group.upstreams.entries()) {
				equal(
					requests.every((one) => one.header('host') === authority),
					true,
				);
				const labels = { upstream: authority, group: group.name, status: '200' };
				equal(await proxy.metric('proxy_requests_total', labels), 3, `${i}`);
			}
		});

		testOnce('get the next request where fewer are in flight, counted across all workers', async () => {
			const group = take('least');
			const [slow, fast] = group.upstreams as [Upstream, Upstream];
			slow.script = (exchange) => exchange.stall();
			const held: Promise<unknown>[] = [];
			const clients: Connection[] = [];
			// Each client is another connection, and so some are another worker's.
			for (let i = 0; slow.requests.length === 0; i++) {
				ok(i < 64, 'one of two idle addresses is never drawn');
				const client = await connect(protocol, proxy);
				clients.push(client);
				const before = fast.requests.length;
				held.push(client.request({ path: group.path }));
				await until(() => slow.requests.length > 0 || fast.requests.length > before, 'the request to arrive');
			}
			for (let i = 0; i < 12; i++) equal((await request(protocol, proxy, { path: group.path })).text, '1');
			equal(slow.requests.length, 1);
			await Promise.all(clients.map((client) => client.close()));
			await Promise.allSettled(held);
		});
	});

	describe(`a request that an address does not take, over ${protocol}`, () => {
		test('goes to another one when there is no connection, whatever its method, and counts once', async () => {
			const group = take('refused');
			const [gone, other] = group.upstreams as [Upstream, Upstream];
			await gone.stop();
			await using client = await connect(protocol, proxy);
			const body = countedBytes(50_000);
			for (let i = 0; i < 4; i++) {
				const answer = await client.request({ method: 'POST', path: group.path, body });
				deepEqual([answer.status, answer.text], [200, '1']);
			}
			for (const { body: arrived } of other.requests) ok(arrived.equals(body));
			equal(other.requests.length, 4);
			equal(await retries('unreachable', group, 0), 1, 'the first failure opens its breaker');
			deepEqual([await circuit(group, 0), await circuit(group, 1)], [CIRCUIT.open, CIRCUIT.closed]);
			const counted = (authority: string) => proxy.metric('proxy_requests_total', { upstream: authority });
			deepEqual([await counted(gone.authority), await counted(other.authority)], [0, 4]);
			await until(() => lines(group).length === 4, 'a line for each');
			deepEqual(
				lines(group).map(({ upstream }) => upstream),
				Array(4).fill(other.authority),
			);
			deepEqual(
				lines(group)
					.map(({ attempt }) => attempt)
					.sort(),
				[1, 1, 1, 2],
			);
		});

		test('includes a body that has only begun', async () => {
			const group = take('streamed');
			await group.upstreams[0]!.stop();
			await using client = await connect(protocol, proxy);
			for (let i = 0; i < 2; i++) {
				const body = heldBody('begun, ');
				const answer = client.request({ method: 'POST', path: group.path, body });
				if (BODY_MODE === 'streaming') await group.upstreams[1]!.request(i + 1);
				body.finish('and ended');
				deepEqual([(await answer).status, (await answer).text], [200, '1']);
				equal(group.upstreams[1]!.requests[i]!.body.toString(), 'begun, and ended');
			}
			equal(await retries('unreachable', group, 0), 1);
		});

		testOnce('goes to another one when an idle connection was closed, if it may be repeated', async () => {
			const group = take('stale');
			await using client = await connect(protocol, proxy);
			equal(new Set(await bodies(group, 2, client)).size, 2);
			const isPrompt = promptly();
			for (const { length } of group.upstreams.map(({ requests }) => requests)) equal(length, 1);
			const [first, second] = group.upstreams as [Upstream, Upstream];
			first.script = (exchange) => exchange.reset();
			const answers = [];
			for (let i = 0; i < 2; i++) answers.push(await client.request({ path: group.path }));
			deepEqual(
				answers.map(({ status, text }) => [status, text]),
				Array(2).fill([200, '1']),
			);
			if (!isPrompt()) return;
			equal(await retries('stale', group, 0), 1);
			equal(await circuit(group, 0), CIRCUIT.closed, 'a stale connection says nothing of its upstream');
			// The next request there has a new connection again; the one after it gets a stale one.
			first.script = (exchange) => exchange.respond({ body: '0' });
			equal(count(await bodies(group, 2, client), '0'), 1);
			first.script = (exchange) => exchange.reset();
			const before = second.requests.length;
			const posted = [];
			for (let i = 0; i < 2; i++) posted.push(await client.request({ method: 'POST', path: group.path, body: 'x' }));
			deepEqual(posted.map(({ status }) => status).sort(), [200, 502]);
			equal(second.requests.length, before + 1, 'a POST that may have been delivered is not repeated');
		});

		test('goes to another one when it cannot connect in time', async () => {
			const group = take('silent');
			await using client = await connect(protocol, proxy);
			for (let i = 0; i < 2; i++) {
				const answer = await client.request({ method: 'POST', path: group.path, body: 'whole' });
				deepEqual([answer.status, answer.text], [200, '1']);
			}
			equal(await retries('unreachable', group, 0), 1);
			equal(await circuit(group, 0), CIRCUIT.open);
		});

		testOnce('is retried as often as retries allows', async () => {
			const group = take('often');
			await Promise.all([group.upstreams[0]!.stop(), group.upstreams[2]!.stop()]);
			await using client = await connect(protocol, proxy);
			deepEqual(await bodies(group, 3, client), ['1', '1', '1']);
		});

		testOnce('is 502 if no other address is left, and only then 503', async () => {
			const group = take('none');
			await Promise.all(group.upstreams.map((upstream) => upstream.stop()));
			await using client = await connect(protocol, proxy);
			assertOwnAnswer(await client.request({ path: group.path }), 502, 'bad gateway');
			deepEqual([await circuit(group, 0), await circuit(group, 1)], [CIRCUIT.open, CIRCUIT.open]);
			assertOwnAnswer(await client.request({ path: group.path }), 503, 'upstream unavailable');
		});

		testOnce('is 502 once a fifth of the requests have been sent again', async () => {
			const group = take('budget');
			await group.upstreams[0]!.stop();
			await using client = await connect(protocol, proxy);
			const ask = async (times: number) => {
				const statuses = [];
				for (let i = 0; i < times; i++) statuses.push((await client.request({ path: group.path })).status);
				return statuses;
			};
			const statuses = await ask(60);
			const lost = statuses.filter((status) => status === 502).length;
			ok(lost > 0 && lost < 15, `${lost}`);
			equal(statuses.indexOf(502) > 20, true, 'the first ones are within the budget');
			equal(await retries('unreachable', group, 0), 30 - lost);
			const denied = { upstream: group.upstreams[0]!.authority, group: group.name };
			equal(await proxy.metric('proxy_upstream_retries_denied_total', denied), lost);
		});
	});
}

describe('several addresses under load', () => {
	/** As many answers as give each connection and each address its turn. */
	const A_WHILE = 150;

	testOnce(
		'can be stopped, restarted and exchanged one after the other, and no request that may be repeated is lost',
		async () => {
			const echoes = await Promise.all([EchoUpstream.start(), EchoUpstream.start(), EchoUpstream.start()]);
			const addresses = () => echoes.map(({ authority }) => authority);
			const group = (keys: object = {}) => ({ upstreams: [{ name: 'echo', addresses: addresses(), ...keys }] });
			await using under = await startProxy({
				config: {
					health_interval_secs: 0.2,
					default_cooldown_secs: 1,
					tenant_rps: 0,
					upstream_idle_timeout_secs: 60,
				},
				routes: [{ prefix: '/', upstream: 'echo' }],
				...group(),
			});
			const alive = (authority: string) => under.metric('proxy_upstream_alive', { upstream: authority });
			await using load = new Load(under, { h1: 6, h2: 2, streams: 6 });
			await load.answers(A_WHILE);

			// A deployment: each of them goes, and comes back.
			for (const [i, echo] of echoes.entries()) {
				const { port, authority } = echo;
				await echo[Symbol.asyncDispose]();
				await load.answers(A_WHILE);
				echoes[i] = await EchoUpstream.start(port);
				await until(async () => (await alive(authority)) === 1, `${authority} to be back`);
				await until(() => echoes[i]!.answered > 0, `${authority} to be asked again`);
				await load.answers(A_WHILE);
			}

			// Reloads: the connections to an address that stays are those that there were.
			const first = echoes[0]!;
			const closed = first.closed;
			const reload = async (keys?: object) => {
				under.writeConfig(group(keys));
				const { routes } = await under.reload();
				equal(routes.message, 'routing table reloaded');
				await load.answers(A_WHILE);
			};
			const removed = echoes.splice(1, 1)[0]!;
			await reload();
			const asked = removed.answered;
			await reload({ balance: 'round-robin' });
			echoes.push(await EchoUpstream.start());
			await reload({ balance: 'round-robin', slow_start_secs: 1 });
			await reload({ addresses: addresses().map((address, i) => ({ address, weight: i + 1 })) });
			equal(removed.answered, asked, 'what is removed is asked no more');
			ok(echoes.at(-1)!.answered > 0, 'what is added is asked');
			equal(first.closed, closed, 'connections to an address that stays are kept');

			const { losses, sent, answered } = await load.stop();
			deepEqual(losses, []);
			equal(answered, sent);
			await Promise.all([removed, ...echoes].map((echo) => echo[Symbol.asyncDispose]()));
		},
	);
});

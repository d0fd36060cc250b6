/** One tenant must not make an upstream unavailable to others, and every transition of a breaker is logged and counted. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connect, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { CIRCUIT, type Lane, type Stage, startLanes } from '../fixtures/stage.ts';
import { type Script, startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();
const [A, B] = [pki.token('tenant-a'), pki.token('tenant-b')];

/** Only what a test does opens or closes a breaker here. */
const QUIET = { default_cooldown_secs: 3600, tenant_rps: 0 };
const [today, impatient, two] = await Promise.all([
	startLanes({ lanes: 8, config: QUIET }),
	// Only where silence is what the test is about: a busy machine is silent, too.
	startLanes({ lanes: 2, config: QUIET, limits: { upstream_timeout_secs: 1 } }),
	startLanes({ lanes: 4, config: QUIET, breaker: { tenants: 2 } }),
]);
after(() => Promise.all([today, impatient, two].map((edge) => edge.close())));

const ok200: Script = (exchange) => exchange.respond({ body: 'ok' });
const status503: Script = (exchange) => exchange.respond({ status: 503, body: 'not now' });
/** Healthy, but for one path. */
const brokenPath: Script = (exchange) => (exchange.request.target.endsWith('/broken') ? status503 : ok200)(exchange);

/** The responses to B from a healthy upstream, while requests of A fail, both between and at the same time. */
async function bystander(edge: Stage, protocol: Protocol): Promise<{ lane: Lane; statuses: number[] }> {
	const lane = edge.lane();
	lane.upstream.script = brokenPath;
	await using client = await connect(protocol, edge.proxy);
	await using other = await connect(protocol, edge.proxy);
	const statuses: number[] = [];
	for (let second = 0; second < 5; second++) {
		const failing = other.request({ path: `${lane.path}/broken`, token: A });
		for (let i = 0; i < 20; i++) statuses.push((await client.request({ path: lane.path, token: B })).status);
		equal((await failing).status, 503);
	}
	return { lane, statuses };
}

const transitions = async ({ proxy, upstream }: Lane) => {
	const samples = await proxy.samples('proxy_circuit_transitions_total');
	const own = samples.filter(({ labels, value }) => labels.upstream === upstream.authority && value > 0);
	return Object.fromEntries(own.map(({ labels, value }) => [`${labels.to} ${labels.reason}`, value]));
};
const isOfCircuit = ({ target }: LogLine) => target === 'proxy::breaker';
const logged = ({ proxy, upstream }: Lane) =>
	proxy.logs
		.filter((line) => isOfCircuit(line) && line.upstream === upstream.authority)
		.map(({ level, from, to, reason, cause }) => `${level} ${from} ${to} ${reason}: ${cause}`);
/** The lane's lines but for the first one, by which the first health probe has closed its breaker. */
const loggedSince = async (lane: Lane, count: number) => {
	await until(() => logged(lane).length > count, 'the log');
	return logged(lane).slice(1);
};

for (const protocol of PROTOCOLS) {
	describe(`a tenant whose requests fail, over ${protocol}`, { concurrency: 4 }, () => {
		test('502 from the upstream is passed on and opens it: the next request gets our own 503', async () => {
			const lane = today.lane();
			lane.upstream.script = (exchange) => exchange.respond({ status: 502, body: 'upstream says' });
			const ask = () => request(protocol, lane.proxy, { path: lane.path });
			const { status, text } = await ask();
			deepEqual([status, text], [502, 'upstream says']);
			assertOwnAnswer(await ask(), 503, 'upstream unavailable');
			equal(lane.upstream.requests.length, 1);
			deepEqual(await lane.look(), { circuit: CIRCUIT.open, counted: { 502: 1, 503: 1 } });
		});

		test('costs them no request if two tenants must fail', async () => {
			const { lane, statuses } = await bystander(two, protocol);
			deepEqual(new Set(statuses), new Set([200]));
			equal(await lane.circuit(), CIRCUIT.closed);
			deepEqual(await transitions(lane), { 'closed health': 1 });
		});

		test('opens it together with another one', async () => {
			const lane = two.lane();
			lane.upstream.script = status503;
			const ask = async (token: string) => (await request(protocol, lane.proxy, { path: lane.path, token })).text;
			for (let i = 0; i < 5; i++) equal(await ask(A), 'not now');
			equal(await ask(B), 'not now');
			equal(await lane.circuit(), CIRCUIT.open);
			equal(await ask(A), 'upstream unavailable');
			deepEqual(await loggedSince(lane, 1), ['warn closed open status: status 503']);
			deepEqual(await transitions(lane), { 'closed health': 1, 'open status': 1 });
		});

		for (const [what, script, reason, cause] of [
			['a status', status503, 'status', 'status 503'],
			['silence', (exchange) => exchange.stall(), 'timeout', 'no response within 1 s'],
			[
				'an answer that breaks off',
				(exchange) => {
					exchange.write(`HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\n${'x'.repeat(312)}`);
					return exchange.end();
				},
				'broken',
				'closed after 312 of 1,024 bytes',
			],
			['what is no HTTP', (exchange) => exchange.write('SSH-2.0-OpenSSH\r\n'), 'broken', 'no status line'],
		] satisfies [string, Script, string, string][]) {
			test(`is found in the log and in the metrics by what failed: ${what}`, async () => {
				const lane = (what === 'silence' ? impatient : today).lane();
				lane.upstream.script = script;
				await request(protocol, lane.proxy, { path: lane.path });
				equal(await lane.circuit(), CIRCUIT.open);
				deepEqual(await loggedSince(lane, 1), [`warn closed open ${reason}: ${cause}`]);
				deepEqual(await transitions(lane), { 'closed health': 1, [`open ${reason}`]: 1 });
			});
		}
	});
}

describe('what a breaker does', () => {
	test('is logged from the start to the recovery, each transition once, by any thread', async () => {
		await using edge = await startLanes({ config: { default_cooldown_secs: 1, health_interval_secs: 3600 } });
		const lane = edge.lane();
		const ask = async () => (await request('h2', edge.proxy, { path: lane.path })).status;
		lane.upstream.script = status503;
		equal(await ask(), 503);
		lane.upstream.script = ok200;
		await until(async () => (await ask()) === 200, 'the end of the cooldown');
		await until(() => logged(lane).length >= 4, 'the log');
		deepEqual(logged(lane), [
			'info open closed health: health: 200',
			'warn closed open status: status 503',
			'info open half-open probe: the cooldown is over',
			'info half-open closed probe: the probe succeeded',
		]);
		deepEqual(await transitions(lane), {
			'closed health': 1,
			'open status': 1,
			'half-open probe': 1,
			'closed probe': 1,
		});
	});

	test('logs a transition by a health check with the result of the check', async () => {
		await using edge = await startLanes({ config: { health_interval_secs: 0.1 }, upstream: { health: 404 } });
		const lane = edge.lane();
		lane.upstream.setHealth(204);
		await lane.untilCircuit(CIRCUIT.closed);
		lane.upstream.setHealth(404);
		await lane.untilCircuit(CIRCUIT.open);
		await until(() => logged(lane).length >= 2, 'the log');
		deepEqual(logged(lane).slice(0, 2), [
			'info open closed health: health: 204',
			'warn closed open health: health: 404',
		]);
		equal((await transitions(lane))['open health'], 1);
	});

	test('transitions that clients cause by leaving do not fill the log', async () => {
		await using edge = await startLanes({
			config: { default_cooldown_secs: 1, health_interval_secs: 3600 },
			workers: 1,
		});
		const lane = edge.lane();
		lane.upstream.script = status503;
		await request('h2', edge.proxy, { path: lane.path });
		lane.upstream.script = (exchange) => exchange.stall();
		let left = 0;
		await until(async () => {
			const client = await connect('h1', edge.proxy);
			const count = lane.upstream.requests.length;
			const gone = client.request({ path: lane.path });
			await Promise.race([gone, lane.upstream.request(count + 1)]);
			if (lane.upstream.requests.length > count) left++;
			await client.close();
			await gone;
			return left >= 12;
		}, 'twelve probes whose clients have left');
		ok((await transitions(lane))['half-open probe']! >= 12);
		const lines = logged(lane).filter((line) => line.includes('half-open probe: the cooldown is over'));
		ok(lines.length <= 5, `${lines.length} lines`);
	});
});

describe('an upstream without health checks', () => {
	test('starts closed, is never probed, and has no health metric', async () => {
		await using upstream = await startUpstream({ health: 500 });
		await using proxy = await startProxy({
			config: { health_interval_secs: 0.05, default_cooldown_secs: 3600 },
			routes: [{ prefix: '/', upstream: upstream.url, health: false }],
		});
		for (const protocol of PROTOCOLS) equal((await request(protocol, proxy)).status, 200);
		equal(upstream.healthProbes, 0);
		const scrape = await proxy.metrics();
		deepEqual(scrape.get('proxy_upstream_alive')!.samples, []);
		equal(await proxy.metric('proxy_circuit_state'), CIRCUIT.closed);
		upstream.script = status503;
		equal((await request('h1', proxy)).text, 'not now');
		equal((await request('h1', proxy)).text, 'upstream unavailable');
		// From now on it is probed, and first of all.
		proxy.writeConfig({ routes: [{ prefix: '/', upstream: upstream.url, health: true }] });
		upstream.setHealth(200);
		upstream.script = ok200;
		await proxy.reload();
		equal((await request('h1', proxy)).status, 200);
		match(logged({ proxy, upstream } as Lane).at(-1)!, /health: 200$/);
	});
});

describe('idle connections to an upstream', () => {
	test('are closed when the time is over that the route has for them, also after a reload', async () => {
		await using upstream = await startUpstream();
		const route = { prefix: '/', upstream: upstream.url };
		await using proxy = await startProxy({
			workers: 1,
			config: { health_interval_secs: 3600, upstream_idle_timeout_secs: 3600 },
			routes: [{ ...route, upstream_idle_timeout_secs: 0.2 }],
		});
		const open = () => upstream.openConnections.filter(({ bytes }) => bytes > 0).length;
		await request('h1', proxy);
		await until(() => open() === 0, 'the connection to be closed');
		proxy.writeConfig({ routes: [route] });
		await proxy.reload();
		await request('h1', proxy);
		proxy.writeConfig({ routes: [{ ...route, upstream_idle_timeout_secs: 0.2 }] });
		await proxy.reload();
		equal(open(), 1, 'it has become idle before');
		await request('h1', proxy);
		await until(() => open() === 0, 'the connection to be closed');
	});
});

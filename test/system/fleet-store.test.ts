import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { Rate } from '../../packages/gate/src/gates/tenant-limit.ts';
import type { LimiterConfig } from '../../packages/proxy/src/config/config.ts';
import {
	keyInHex,
	REGISTRY_SCRIPT,
	REPORT_SCRIPT,
	RedisFleetStore,
	SETTLE_SCRIPT,
} from '../../packages/proxy/src/control/store/redis-fleet-store.ts';
import { freePort } from '../fixtures/free-port.ts';
import { MovedClock } from '../fixtures/moved-clock.ts';
import { type RedisServer, startRedis, startSentinel } from '../fixtures/redis-server.ts';
import { limiterConfig, SharedLimitsReplica } from '../fixtures/shared-limits.ts';
import { SharedLimitsProcess } from '../fixtures/shared-limits-process.ts';
import { fillBacklog } from '../fixtures/silent-port.ts';
import { startSlowRelay } from '../fixtures/slow-relay.ts';
import { until } from '../fixtures/wait.ts';
import { Ledger } from '../models/ledger.ts';
import { missingTools } from './tools.ts';

/** Shared limits with a real redis-server, on the machine's clock. Exact limits are tested with fake clocks (fleet.properties.test.ts). */

const skip = missingTools('redis-server', 'redis-sentinel');
/** Well above the response time on a busy machine: only a store that is away takes longer. */
const TIMEOUT_MS = 1_500;
const AWAY = 'warn proxy::limiter: limiter store is unavailable';
const BACK = 'info proxy::limiter: limiter store is back';

async function replicas(
	count: number,
	server: RedisServer | number | readonly RedisServer[],
	config: Partial<LimiterConfig> = {},
) {
	await using open = new AsyncDisposableStack();
	const ports = [server].flat().map((one) => (typeof one === 'number' ? one : one.port));
	const all: SharedLimitsReplica[] = [];
	for (let i = 0; i < count; i++) {
		all.push(
			open.use(
				await SharedLimitsReplica.start(limiterConfig(ports, { replicas: count, timeoutMs: TIMEOUT_MS, ...config })),
			),
		);
	}
	await until(
		async () => all.every(({ facts }) => facts.replicas >= count && !facts.isAway),
		'replicas to see each other',
	);
	const kept = open.move();
	return Object.assign(all, { [Symbol.asyncDispose]: () => kept.disposeAsync() });
}

/**
 * Reports whether this process ran all the time. If the machine paused it for half a second, neither throughput nor the store's response
 * times can be judged. That no tenant gets too much holds on any machine.
 */
function watchPauses(): { readonly hasRun: boolean } {
	const pauses = monitorEventLoopDelay({ resolution: 10 });
	pauses.enable();
	return {
		get hasRun() {
			return pauses.max < 500e6;
		},
	};
}

/** After a pause of the machine the store may have been lost once more. */
function assertSaidOnce(all: readonly SharedLimitsReplica[], hasRun: boolean): void {
	for (const { log } of all) {
		const said = log.lines.filter((line) => line === AWAY || line === BACK);
		assert.deepEqual(hasRun ? said : said.slice(0, 2), [AWAY, BACK]);
	}
}

/** Whether one more request would be admitted now. */
function hasRoom(slots: ReturnType<SharedLimitsReplica['slots']>): boolean {
	const isTaken = slots.tryClaim();
	if (isTaken) slots.release();
	return isTaken;
}

/** Sends requests at this rate, evenly over all replicas. @returns how many were admitted, and how many were sent. */
async function ask(
	all: readonly SharedLimitsReplica[],
	tenant: string,
	rate: Rate,
	perSecond: number,
	seconds: number,
) {
	let [admitted, asked] = [0, 0];
	const begin = performance.now();
	for (; performance.now() - begin < seconds * 1000; await sleep(5)) {
		const due = ((performance.now() - begin) * perSecond) / 1000;
		for (; asked < due; asked++) if (all[asked % all.length]!.ask(tenant, rate)) admitted++;
	}
	return { admitted, asked };
}

/** Another tenant sends far more than its limit: all replicas together admit its burst and its rate. @returns how many they admitted. */
async function asksForMore(all: readonly SharedLimitsReplica[], rate: Rate, seconds: number): Promise<number> {
	const begin = performance.now();
	const { admitted } = await ask(all, 'b', rate, 400, seconds);
	// A busy machine takes longer.
	const most = 90 + (0.2 + (performance.now() - begin) / 1000) * 90;
	assert.ok(admitted <= most, `${admitted} of ${most}: shares of burst and rate`);
	return admitted;
}

describe('limits that replicas share through a real redis-server', { skip, concurrency: 4 }, () => {
	for (const [latencyMs, config] of [
		[0, {}],
		[5, {}],
		[50, {}],
		[400, { timeoutMs: 2_000 }],
		[2_000, { timeoutMs: 5_000 }],
	] as const) {
		it(`give a tenant its rate in bursts, at one replica, at two, at all, ${latencyMs} ms away, and keep others to it`, async (t) => {
			await using server = await startRedis();
			await using relay = await startSlowRelay(Number(server.port), { ms: latencyMs });
			await using all = await replicas(3, latencyMs === 0 ? server : relay.port, config);
			// Long enough for every replica to know the delay.
			for (const [i, one] of all.entries()) one.ask(`first ${i}`, new Rate(1));
			await sleep(3 * latencyMs + 1_500);
			const said = all.map(({ log }) => log.lines.length);
			const machine = watchPauses();
			const rate = new Rate(10);
			const rounds = 6;
			let [one, two, three] = [0, 0, 0];
			const over = ask(all, 'over', new Rate(100), 400, rounds);
			for (let round = 0; round < rounds; round++) {
				// A second and a millisecond lie between two bursts, even if timers are late.
				for (let i = 0; i < 10; i++) {
					if (all[0]!.ask('one', rate)) one++;
					if (all[(round + i) % 2]!.ask('two', rate)) two++;
					if (all[i % 3]!.ask('all', rate)) three++;
				}
				const end = performance.now();
				while (performance.now() < end + 1_001) await sleep(end + 1_001 - performance.now());
			}
			assert.deepEqual([one, two, three], [60, 60, 60]);
			const { admitted: passed } = await over;
			const delayMs = Math.max(...all.map(({ facts }) => facts.delayMs));
			const most = 100 * rounds + 3 * 100 + (4 * 100 * delayMs) / 1000;
			t.diagnostic(
				`${passed} of ${400 * rounds} passed in ${rounds} s, at most ${Math.round(most)}; settled in ${Math.round(delayMs)} ms`,
			);
			assert.ok(passed <= most, `${passed} of ${most}`);
			if (machine.hasRun) assert.ok(all.every(({ log }, i) => !log.lines.slice(said[i]).includes(AWAY)));
			const isSlow = 'warn proxy::limiter: limiter store is slow: replicas learn of each other late';
			if (latencyMs >= 400) assert.ok(all.every(({ log }) => log.lines.includes(isSlow)));
		});
	}

	it('admit 60 requests at once of a concurrency of 60, over one replica and over three', async () => {
		await using server = await startRedis();
		await using all = await replicas(3, server);
		for (const over of [1, 3]) {
			const slots = all.map((one) => one.slots(`over ${over}`, 60));
			for (let i = 0; i < 60; i++) assert.ok(slots[i % over]!.tryClaim(), `${i}`);
			for (const each of slots) if (each.tryClaim()) each.release();
			await until(() => !slots.some(hasRoom), 'all replicas to know that the limit is reached');
		}
	});

	it('forget the requests in flight of a replica that dies', async () => {
		await using server = await startRedis();
		await using all = await replicas(2, server);
		const [dies, lives] = all.map((one) => one.slots('a', 5));
		for (let i = 0; i < 5; i++) assert.ok(dies!.tryClaim());
		await until(() => !hasRoom(lives!), 'the other one to know');
		all[0]!.kill();
		const begin = performance.now();
		await until(() => hasRoom(lives!), 'it to be forgotten');
		assert.ok(performance.now() - begin >= 1_500);
		await until(async () => all[1]!.facts.replicas === 1, 'the replica to be forgotten');
	});

	for (const [what, begin, end] of [
		['is killed and started without what it had', (server) => server.kill(), (server) => server.start()],
		['is paused', async (server) => server.pause(), async (server) => server.resume()],
		[
			'is full',
			async (server) => void (await server.do('CONFIG', 'SET', 'maxmemory', '1')),
			async (server) => void (await server.do('CONFIG', 'SET', 'maxmemory', '0')),
		],
		[
			'becomes a replica, which is read-only',
			async (server) => void (await server.do('REPLICAOF', '127.0.0.1', '1')),
			async (server) => void (await server.do('REPLICAOF', 'NO', 'ONE')),
		],
	] as [string, (server: RedisServer) => Promise<void>, (server: RedisServer) => Promise<void>][]) {
		it(`give each replica its share while the store ${what}, say so once, and come back by themselves`, async (t) => {
			const machine = watchPauses();
			await using server = await startRedis();
			await using all = await replicas(3, server);
			const rate = new Rate(90);
			await ask(all, 'a', rate, 80, 1);
			await begin(server);
			const from = performance.now();
			// An idle tenant would notice only with its next keepalive.
			const asked = ask(all, 'a', rate, 80, 2);
			await until(async () => all.every(({ facts }) => facts.isAway), 'the store to be away');
			t.diagnostic(`away after ${Math.round(performance.now() - from)} ms: ${all[0]!.facts.reason}`);
			const during = await asked;
			if (machine.hasRun) assert.ok(during.admitted >= 0.75 * during.asked, JSON.stringify(during));
			await asksForMore(all, rate, 2);
			await end(server);
			const back = performance.now();
			await until(async () => all.every(({ facts }) => !facts.isAway), 'the store to be back');
			t.diagnostic(`back after ${Math.round(performance.now() - back)} ms`);
			assertSaidOnce(all, machine.hasRun);
			await sleep(1_000);
			const after = await ask(all, 'c', rate, 80, 2);
			if (machine.hasRun) assert.ok(after.admitted >= 0.995 * after.asked, JSON.stringify(after));
		});
	}

	it('go on while one Sentinel is frozen; give each replica its share while all are dropped, and come back', async (t) => {
		const machine = watchPauses();
		await using primary = await startRedis();
		await using open = new AsyncDisposableStack();
		const sentinels: RedisServer[] = [];
		for (let i = 0; i < 3; i++) sentinels.push(open.use(await startSentinel(primary.port)));
		await using all = await replicas(3, sentinels, { sentinelName: 'main' });
		const rate = new Rate(90);
		sentinels[0]!.pause();
		const frozen = await ask(all, 'a', rate, 80, 4);
		t.diagnostic(`one frozen: ${frozen.admitted} of ${frozen.asked}`);
		if (machine.hasRun) assert.ok(frozen.admitted >= 0.995 * frozen.asked, JSON.stringify(frozen));
		for (const sentinel of sentinels) sentinel.pause();
		const backlogs = await Promise.all(sentinels.map(({ port }) => fillBacklog(Number(port))));
		const from = performance.now();
		await until(async () => all.every(({ facts }) => facts.isAway), 'the store to be away');
		t.diagnostic(`away after ${Math.round(performance.now() - from)} ms: ${all[0]!.facts.reason}`);
		const during = await ask(all, 'a', rate, 80, 2);
		t.diagnostic(`all dropped: ${during.admitted} of ${during.asked}`);
		if (machine.hasRun) assert.ok(during.admitted >= 0.995 * during.asked, JSON.stringify(during));
		await asksForMore(all, rate, 2);
		for (const backlog of backlogs) backlog[Symbol.dispose]();
		for (const sentinel of sentinels) sentinel.resume();
		const back = performance.now();
		await until(async () => all.every(({ facts }) => !facts.isAway), 'the store to be back');
		t.diagnostic(`back after ${Math.round(performance.now() - back)} ms`);
		await sleep(1_000);
		const after = await ask(all, 'c', rate, 80, 2);
		t.diagnostic(`after: ${after.admitted} of ${after.asked}`);
		if (machine.hasRun) assert.ok(after.admitted >= 0.995 * after.asked, JSON.stringify(after));
	});

	it('give each replica its share while answers take 2 s and more than they may, say so once, and come back', async (t) => {
		const machine = watchPauses();
		await using server = await startRedis();
		const latency = { ms: 0 };
		await using relay = await startSlowRelay(Number(server.port), latency);
		await using all = await replicas(3, relay.port);
		const rate = new Rate(90);
		await ask(all, 'a', rate, 80, 1);
		latency.ms = 2_000;
		const from = performance.now();
		const asked = ask(all, 'a', rate, 80, 4);
		await until(async () => all.every(({ facts }) => facts.isAway), 'the store to be away');
		t.diagnostic(`away after ${Math.round(performance.now() - from)} ms: ${all[0]!.facts.reason}`);
		assert.ok(all.every(({ facts }) => facts.reason === 'timeout'));
		const during = await asked;
		t.diagnostic(`within its limit: ${during.admitted} of ${during.asked}`);
		if (machine.hasRun) assert.ok(during.admitted >= 0.75 * during.asked, JSON.stringify(during));
		const passed = await asksForMore(all, rate, 3);
		t.diagnostic(`beyond it: ${passed} in 3 s, of burst and rate 360`);
		if (machine.hasRun) assert.ok(passed >= 3 * 90, `${passed}: shares of burst and rate`);
		latency.ms = 5;
		const back = performance.now();
		await until(async () => all.every(({ facts }) => !facts.isAway), 'the store to be back');
		t.diagnostic(`back after ${Math.round(performance.now() - back)} ms; settled in ${all[0]!.facts.delayMs} ms`);
		assertSaidOnce(all, machine.hasRun);
		await sleep(1_000);
		const after = await ask(all, 'c', rate, 80, 2);
		if (machine.hasRun) assert.ok(after.admitted >= 0.995 * after.asked, JSON.stringify(after));
	});

	it('go on while one of their processes is stopped for 5 s, and it joins them again', async (t) => {
		const machine = watchPauses();
		await using server = await startRedis();
		using open = new DisposableStack();
		const all = await Promise.all([1, 2, 3].map(() => SharedLimitsProcess.start(server.port, 3)));
		for (const one of all) open.use(one);
		const [first, second, third] = all as [SharedLimitsProcess, SharedLimitsProcess, SharedLimitsProcess];
		const within = { tenant: 'within', rps: 90, perSecond: 40, seconds: 2 };
		const over = { tenant: 'over', rps: 90, perSecond: 300, seconds: 2 };
		await Promise.all([first.ask(over), second.ask(over), third.ask(over)]);
		// It is stopped with unsettled requests.
		const stopped = third.ask({ ...over, seconds: 1 });
		await sleep(500);
		third.pause();
		const during = await Promise.all([first, second].map((one) => one.ask({ ...within, seconds: 5 })));
		third.resume();
		await stopped;
		const after = await Promise.all(all.map((one) => one.ask({ ...within, perSecond: 28, seconds: 3 })));
		const beyond = await Promise.all(all.map((one) => one.ask({ ...over, seconds: 4 })));
		const sum = (asked: typeof during) =>
			asked.reduce((so, one) => ({ asked: so.asked + one.asked, admitted: so.admitted + one.admitted }), {
				asked: 0,
				admitted: 0,
			});
		t.diagnostic(JSON.stringify({ during: sum(during), after: sum(after), beyond: sum(beyond) }));
		const { admitted } = sum(beyond);
		assert.ok(admitted <= 90 * (4 + 4 * 0.5) + 3 * 90, `${admitted} in 4 s`);
		if (!machine.hasRun) return;
		for (const { asked, admitted } of [sum(during), sum(after)]) assert.ok(admitted >= 0.995 * asked);
		assert.ok(admitted >= 4 * 90 * 0.95, `${admitted} in 4 s`);
		assert.ok(beyond.every(({ isAway }) => !isAway));
		for (const { lines } of beyond.slice(0, 2)) assert.ok(!lines.includes(AWAY));
	});

	it('go on while the clock of the store is set an hour ahead, and back again', {
		skip: missingTools('gcc'),
	}, async (t) => {
		const machine = watchPauses();
		const clock = new MovedClock();
		await using server = await startRedis({ env: clock.env });
		await using all = await replicas(3, server);
		const rate = new Rate(90);
		const slots = all.map((one) => one.slots('under way', 6));
		for (let i = 0; i < 6; i++) assert.ok(slots[i % 2]!.tryClaim());
		await ask(all, 'over', rate, 400, 1);
		// An excess at one time is paid back later: the rate holds in the long run.
		let passed = 0;
		for (const hours of [1, 0, -1, 0]) {
			clock.set(hours * 3_600);
			const [time] = (await server.do('TIME')) as [string];
			assert.ok(Math.abs(Number(time) - Date.now() / 1000 - hours * 3_600) < 5);
			const seconds = 3;
			const [within, over] = await Promise.all([
				ask(all, 'within', rate, 85, seconds),
				ask(all, 'over', rate, 400, seconds),
			]);
			t.diagnostic(
				`${hours} h: ${within.admitted} of ${within.asked}, beyond the limit ${over.admitted} in ${seconds} s`,
			);
			if (machine.hasRun) assert.ok(within.admitted >= 0.995 * within.asked, JSON.stringify(within));
			const delayMs = Math.max(...all.map(({ facts }) => facts.delayMs));
			const most = 90 * seconds + 3 * 90 + (4 * 90 * Math.max(250, delayMs)) / 1000;
			assert.ok(over.admitted <= most, `${over.admitted} of ${most}`);
			passed += over.admitted;
			// A replica that had no requests of a tenant has no state of it, either.
			await until(() => !hasRoom(slots[2]!), 'the third one to know what the others have under way');
			await until(() => all[2]!.facts.replicas === 3, 'the third one to see the others');
		}
		if (machine.hasRun) assert.ok(passed >= 0.95 * 90 * 12, `${passed} in 12 s`);
		if (machine.hasRun) assert.ok(all.every(({ log }) => !log.lines.includes(AWAY)));
	});

	it('survive a flush, and a key of another type, which affects only its tenant', async () => {
		const machine = watchPauses();
		await using server = await startRedis();
		await using all = await replicas(3, server);
		const rate = new Rate(30);
		await ask(all, 'a', rate, 25, 1);
		await server.do('FLUSHALL');
		const flushed = await ask(all, 'a', rate, 25, 2);
		if (machine.hasRun) assert.equal(flushed.admitted, flushed.asked);
		const hex = keyInHex(all[0]!.key('b'));
		const tag = Number(BigInt.asUintN(6, all[0]!.key('b')));
		await server.do('SADD', `proxy:2:{${tag}}:${hex}`, 'x');
		await ask(all, 'b', rate, 200, 1);
		const line = 'warn proxy::limiter: a key of the limiter has another type in the store';
		await until(async () => all.every(({ log }) => log.lines.includes(line)), 'all replicas to say so');
		const [a, b] = await Promise.all([ask(all, 'a', rate, 25, 3), ask([all[0]!], 'b', rate, 200, 3)]);
		assert.ok(b.admitted <= 45, `${b.admitted} of its share, 30, of 90`);
		if (machine.hasRun) {
			assert.equal(a.admitted, a.asked);
			assert.ok(b.admitted >= 27, `${b.admitted} of its share, 30, of 90`);
			assert.ok(all.every(({ facts }) => !facts.isAway));
		}
	});

	it('are found at the store next to those of an older layout, which are neither read nor changed', async () => {
		await using server = await startRedis();
		await using one = await SharedLimitsReplica.start(limiterConfig([server.port], { timeoutMs: TIMEOUT_MS }));
		await until(() => one.facts.replicas === 1, 'the replica to see itself');
		const key = one.key('a');
		const tag = Number(BigInt.asUintN(6, key));
		// Replicas of the old layout have all of the tenant's limit, and report further replicas.
		const far = String(Date.now() * 1_000 + 3_600_000_000);
		const old = new Map([
			[`proxy:{${tag}}:${keyInHex(key)}`, far],
			[`proxy:{${tag}}:s${keyInHex(key)}`, '1000000'],
			['proxy:{registry}:born', far],
			['proxy:{0}:replicas', '50'],
		]);
		for (const [name, value] of old) await server.do('SET', name, value, 'PX', '600000');
		const machine = watchPauses();
		const got = await ask([one], 'a', new Rate(30), 25, 2);
		if (machine.hasRun) assert.equal(got.admitted, got.asked, 'its rate, whatever the older ones admit');
		assert.equal(one.facts.replicas, 1);
		const touched = (await server.do('KEYS', '*')) as string[];
		assert.ok(touched.includes(`proxy:2:{${tag}}:${keyInHex(key)}`), String(touched));
		for (const [name, value] of old) {
			assert.equal(await server.do('GET', name), value, name);
			const left = Number(await server.do('PTTL', name));
			assert.ok(left > 0 && left <= 600_000, `${name}: ${left} ms`);
		}
	});

	it('fail for the shards of one primary of a Cluster only', async () => {
		const machine = watchPauses();
		await using open = new AsyncDisposableStack();
		const nodes: RedisServer[] = [];
		for (let i = 0; i < 2; i++) {
			const bus = ['--cluster-port', await freePort()];
			nodes.push(
				open.use(
					await startRedis({ args: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1', ...bus] }),
				),
			);
			await nodes[i]!.do('CLUSTER', 'ADDSLOTSRANGE', ...(i === 0 ? ['0', '8191'] : ['8192', '16383']));
			await nodes[i]!.do('CLUSTER', 'SET-CONFIG-EPOCH', String(i + 1));
			if (i > 0) await nodes[0]!.do('CLUSTER', 'MEET', '127.0.0.1', nodes[i]!.port, bus[1]!);
		}
		for (const node of nodes) {
			await until(async () => String(await node.do('CLUSTER', 'INFO')).includes('cluster_state:ok'), 'the cluster');
		}
		const config = limiterConfig([nodes[0]!.port], { cluster: true, replicas: 4, timeoutMs: TIMEOUT_MS });
		const one = open.use(await SharedLimitsReplica.start(config));
		open.use(await SharedLimitsReplica.start(config));
		await until(async () => one.facts.replicas === 2, 'replicas to see each other');
		await nodes[1]!.do('CONFIG', 'SET', 'maxmemory', '1');
		const tenants = Array.from({ length: 64 }, (_, i) => `tenant ${i}`);
		const rate = new Rate(4);
		const passed = new Map<string, number>();
		const run = async (seconds: number) => {
			passed.clear();
			for (let round = 0; round < seconds * 10; round++, await sleep(100)) {
				for (const tenant of tenants) if (one.ask(tenant, rate)) passed.set(tenant, (passed.get(tenant) ?? 0) + 1);
			}
			return [...passed.values()];
		};
		await until(
			async () => {
				await run(2);
				return one.facts.reason === 'full' && (one.facts.part?.shards ?? 0) > 10;
			},
			() => `one of the primaries to be full: ${JSON.stringify(one.facts)}`,
		);
		const { shards } = one.facts.part!;
		assert.ok(shards < 54, `${shards}`);
		const begin = performance.now();
		const counts = await run(8);
		const seconds = (performance.now() - begin) / 1000;
		const rates = counts.map((count) => count / seconds);
		if (machine.hasRun) {
			const part = rates.filter((each) => each < 2.7).length;
			assert.ok(part > 5 && part < 59, `${part} of 64 tenants have their share`);
			assert.ok(
				rates.every((each) => (each > 1.7 && each < 2.7) || each > 3.4),
				rates.join(' '),
			);
		}
		await nodes[1]!.do('CONFIG', 'SET', 'maxmemory', '0');
		await until(async () => !one.facts.isAway, 'all shards to be back');
	});

	it('settle 5,000 tenants of three replicas in five round trips a second each', async (t) => {
		const machine = watchPauses();
		await using server = await startRedis();
		await using all = await replicas(3, server);
		const rate = new Rate(2);
		const commands = async () =>
			Number(/total_commands_processed:(\d+)/.exec(String(await server.do('INFO', 'stats')))![1]);
		const before = await commands();
		const seconds = 6;
		let admitted = 0;
		let asked = 0;
		const begin = performance.now();
		while (performance.now() - begin < seconds * 1000) {
			for (; asked < (performance.now() - begin) * 5; asked++) {
				if (all[asked % 3]!.ask(`tenant ${asked % 5_000}`, rate)) admitted++;
			}
			await sleep(10);
		}
		t.diagnostic(
			`${admitted} of ${asked}; ${Math.round(((await commands()) - before) / seconds)} commands in scripts a second; settled in ${Math.round(all[0]!.facts.delayMs)} ms`,
		);
		if (!machine.hasRun) return;
		assert.ok(admitted >= 0.995 * asked, `${admitted} of ${asked}`);
		assert.ok(all.every(({ facts }) => !facts.isAway && facts.calls.failures.size === 0));
	});
});

const key = fc.constantFrom(1n, 2n, 65n);
const step = fc.record({
	ms: fc.constantFrom(-4_000, -10, 0, 1, 50, 200, 999, 2_999, 3_000, 3_001, 20_000),
	replica: fc.constantFrom('aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb', 'cccccccccccccccc'),
	spendings: fc.uniqueArray(
		fc.record({ key, costMicros: fc.nat(3_000_000), aheadMicros: fc.integer({ min: -3_000_000, max: 3_000_000 }) }),
		{ minLength: 1, maxLength: 3, selector: (one) => one.key },
	),
	reports: fc.uniqueArray(fc.record({ key, underWay: fc.nat(3) }), {
		minLength: 1,
		maxLength: 3,
		selector: (one) => one.key,
	}),
	leaving: fc.constantFrom(false, false, true),
	delayMs: fc.nat(500),
});

describe('the scripts and the ledger in memory', { skip }, () => {
	let server: RedisServer;
	before(async () => {
		server = await startRedis();
	});
	after(() => server.kill());

	it('say the same, also while the clock goes back', async () => {
		const { createClient } = await import('@redis/client');
		const connection = createClient({ RESP: 2, socket: { host: '127.0.0.1', port: Number(server.port) } });
		await connection.connect();
		try {
			await fc.assert(
				fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 20 }), async (steps) => {
					await connection.sendCommand(['FLUSHALL']);
					let micros = 2_000_000_000_000_000;
					const ledger = new Ledger();
					const client = {
						run: ({ text }: { text: string }, keys: readonly string[], args: readonly string[]) => {
							const script = text.replaceAll("redis.call('TIME')", `{ ${Math.floor(micros / 1e6)}, ${micros % 1e6} }`);
							return connection.sendCommand(['EVAL', script, String(keys.length), ...keys, ...args]);
						},
						malformed: () => assert.fail('malformed') as never,
					};
					for (const { ms, replica, spendings, reports, leaving, delayMs } of steps) {
						micros += ms * 1000;
						const store = new RedisFleetStore(client, 'test', replica);
						assert.deepEqual(await store.settle(spendings), ledger.settle(spendings, micros));
						assert.deepEqual(await store.report(reports), ledger.report(replica, reports, micros));
						const registry = ledger.register(replica, leaving, delayMs, micros);
						assert.deepEqual(await store.register(leaving, delayMs), registry);
					}
				}),
				{ numRuns: 200, seed: 2026 },
			);
		} finally {
			connection.destroy();
		}
	});

	it('have one name in the store, and leave nothing that does not expire', async () => {
		for (const { text, sha1 } of [SETTLE_SCRIPT, REPORT_SCRIPT, REGISTRY_SCRIPT]) {
			assert.equal(await server.do('SCRIPT', 'LOAD', text), sha1);
			assert.equal(createHash('sha1').update(text).digest('hex'), sha1);
		}
		for (const name of (await server.do('KEYS', '*')) as string[]) {
			assert.ok(Number(await server.do('PTTL', name)) > 0, name);
		}
	});
});

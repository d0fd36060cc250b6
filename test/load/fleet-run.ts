import { setTimeout as sleep } from 'node:timers/promises';
import { type Fleet, readPage, startFleet } from '../fixtures/fleet.ts';
import { testPki } from '../fixtures/pki.ts';
import { type RedisServer, startRedis } from '../fixtures/redis-server.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';
import { dueTo, type Limit, mostIn10s, passedOf, worstIn10s } from './fleet-figures.ts';
import { TenantClients } from './fleet-tenants.ts';

export interface FleetPlan {
	readonly replicas: number;
	readonly tenants: number;
	readonly limit: Limit;
	/** How long nothing happens, before and after what is done to the store, s. */
	readonly calmSeconds: number;
	/** How long the store is away each time, s. */
	readonly awaySeconds: number;
	readonly say: (line: string) => void;
}

export interface TenantFigures {
	readonly tenant: string;
	readonly asksRps: number;
	readonly connections: number;
	/** The most in any 10 s of the whole run, and what the promise allows. */
	readonly worst: number;
	readonly most: number;
	/** While nothing happened: of the requests that were due to it, the part that was let through. */
	readonly part: number;
}

export interface FleetFigures {
	readonly tenants: readonly TenantFigures[];
	/** Whether the store was never away while nothing happened to it: otherwise the machine was too slow to say anything of `part`. */
	readonly wasCalm: boolean;
	readonly requests: number;
	/** Requests without an answer, and what was going on. */
	readonly lost: Readonly<Record<string, number>>;
	/** Statuses other than 200 and 429. */
	readonly others: readonly number[];
	/** Times from a tenant's revocation in the store until every replica refused it, ms. */
	readonly revokedAfterMs: readonly number[];
}

/** How much a tenant asks for, as a part of its limit, and over how many connections: evenly, all at one replica, and too much. */
const KINDS = [
	{ asks: 1, connections: 4 },
	{ asks: 1, connections: 1 },
	{ asks: 0.5, connections: 3 },
	{ asks: 3, connections: 8 },
	{ asks: 0.9, connections: 2 },
	{ asks: 0.1, connections: 1 },
] as const;

/**
 * Tenants at uneven load through a fleet, while things happen to its store.
 *
 * @throws Error where a replica does not say what it should.
 */
export async function runFleet(plan: FleetPlan): Promise<FleetFigures> {
	await using open = new AsyncDisposableStack();
	const pki = await testPki();
	const upstream = open.use(await startUpstream());
	const redis = open.use(await startRedis());
	const fleet = open.use(
		await startFleet({
			replicas: plan.replicas,
			config: { tenant_rps: plan.limit.rps, health_interval_secs: 3600 },
			routes: [{ prefix: '/', upstream: upstream.url }],
			limiter: { store: `${redis.url}/0`, replicas: plan.replicas, revocations: true, timeout_secs: 0.5 },
		}),
	);
	await until(
		async () => (await replicasSeen(fleet)).every((seen) => seen === plan.replicas),
		'replicas to see each other',
	);
	const clients = Array.from({ length: plan.tenants }, (_, i) => {
		const { asks, connections } = KINDS[i % KINDS.length]!;
		return new TenantClients({ name: `tenant-${i}`, asksRps: plan.limit.rps * asks, connections }, fleet.port, pki);
	});
	open.defer(async () => void (await Promise.all(clients.map((client) => client.stop()))));
	for (const [i, client] of clients.entries()) client.start((i * 0.618) % 1);
	await sleep(2_000);

	const since = fleet.now;
	const calmFrom = performance.now();
	await sleep(plan.calmSeconds * 1000);
	const calmTo = performance.now();
	const wasCalm = fleet.proxies.every(
		({ logs }, i) => !logs.slice([...since.values()][i]).some(({ message }) => message === AWAY),
	);

	plan.say((await readPage(fleet.living[0]!, '/readyz')).body);
	for (const [what, run] of disturbances(redis, plan)) {
		plan.say(what);
		await away(fleet, run);
		await sleep(2_000);
	}
	plan.say('the store is flushed');
	await redis.do('FLUSHALL');
	await sleep(2_000);
	const revokedAfterMs = await revoke(fleet, redis);
	const lostBefore = lostOf(clients);
	plan.say('a replica is killed');
	await fleet.kill(fleet.proxies[0]!);
	await sleep(plan.calmSeconds * 1000);
	await Promise.all(clients.map((client) => client.stop()));
	return figures(plan, clients, { calmFrom, calmTo, wasCalm, revokedAfterMs, lostBefore });
}

const AWAY = 'limiter store away';
const BACK = 'limiter store is back';

function disturbances(redis: RedisServer, { awaySeconds }: FleetPlan): [what: string, run: Disturbance][] {
	return [
		['the store is killed', { begin: () => redis.kill(), end: () => redis.start(), ms: awaySeconds * 1000 }],
		[
			'the store is paused',
			{ begin: async () => redis.pause(), end: async () => redis.resume(), ms: awaySeconds * 1000 },
		],
		[
			'the store is full',
			{
				begin: async () => void (await redis.do('CONFIG', 'SET', 'maxmemory', '1')),
				end: async () => void (await redis.do('CONFIG', 'SET', 'maxmemory', '0')),
				ms: awaySeconds * 1000,
			},
		],
		[
			'the store has become a replica',
			{
				begin: async () => void (await redis.do('REPLICAOF', '127.0.0.1', '1')),
				end: async () => void (await redis.do('REPLICAOF', 'NO', 'ONE')),
				ms: awaySeconds * 1000,
			},
		],
	];
}

interface Disturbance {
	readonly begin: () => Promise<void>;
	readonly end: () => Promise<void>;
	readonly ms: number;
}

/** Every replica says once that the store is away, goes on, and says once that it is back. */
async function away(fleet: Fleet, { begin, end, ms }: Disturbance): Promise<void> {
	const since = fleet.now;
	await begin();
	await fleet.untilAllSay(AWAY, since);
	for (const proxy of fleet.living) {
		const { status, body } = await readPage(proxy, '/readyz');
		if (status !== 200 || !/^ready; limits not shared, the store is away \(\w+\)/.test(body)) throw new Error(body);
		if ((await proxy.metric('proxy_limiter_store_up')) !== 0) throw new Error('proxy_limiter_store_up is not 0');
	}
	await sleep(ms);
	await end();
	await fleet.untilAllSay(BACK, since, 20_000);
	for (const proxy of fleet.living) {
		const said = proxy.logs.slice(since.get(proxy)).filter(({ message }) => message === AWAY || message === BACK);
		if (said.length !== 2) throw new Error(`said ${said.length} times that something has changed, not twice`);
	}
}

/** How long it takes until a revocation is in force everywhere. */
async function revoke(fleet: Fleet, redis: RedisServer): Promise<number[]> {
	const times: number[] = [];
	for (const name of ['nobody-1', 'nobody-2', 'nobody-3']) {
		const before = await Promise.all(fleet.living.map((proxy) => proxy.metric('proxy_limiter_store_revocations')));
		const from = performance.now();
		await redis.do('XADD', 'proxy:revoked', '*', 'revoke', `tenant:${name}`);
		await until(async () => {
			const now = await Promise.all(fleet.living.map((proxy) => proxy.metric('proxy_limiter_store_revocations')));
			return now.every((count, i) => count === before[i]! + 1);
		}, 'the revocation to be everywhere');
		times.push(performance.now() - from);
	}
	return times;
}

/** Tenants that ask alike: the least part of its due that one of them got, and what they got on average. */
export function byKind(tenants: readonly TenantFigures[]) {
	const kinds = Map.groupBy(tenants, ({ asksRps, connections }) => `${asksRps} req/s over ${connections}`);
	return Array.from(kinds, ([asks, own]) => ({
		asks,
		tenants: own.length,
		worst: Math.max(...own.map(({ worst }) => worst)),
		most: own[0]!.most,
		least: Math.min(...own.map(({ part }) => part)),
		average: own.reduce((sum, { part }) => sum + part, 0) / own.length,
	}));
}

function replicasSeen(fleet: Fleet): Promise<number[]> {
	return Promise.all(fleet.living.map((proxy) => proxy.metric('proxy_limiter_replicas')));
}

function lostOf(clients: readonly TenantClients[]): Record<string, number> {
	const all: Record<string, number> = {};
	for (const { lost } of clients) for (const [code, count] of lost) all[code] = (all[code] ?? 0) + count;
	return all;
}

interface Times {
	readonly calmFrom: number;
	readonly calmTo: number;
	readonly wasCalm: boolean;
	readonly revokedAfterMs: readonly number[];
	readonly lostBefore: Readonly<Record<string, number>>;
}

function figures({ limit }: FleetPlan, clients: readonly TenantClients[], times: Times): FleetFigures {
	const { calmFrom, calmTo, wasCalm, revokedAfterMs, lostBefore } = times;
	const asked = clients.flatMap((client) => client.asked);
	return {
		tenants: clients.map((client) => {
			const calm = client.between(calmFrom, calmTo);
			return {
				tenant: client.plan.name,
				asksRps: client.plan.asksRps,
				connections: client.plan.connections,
				worst: worstIn10s(client.asked),
				most: mostIn10s(limit),
				part: passedOf(calm) / dueTo(calm, limit),
			};
		}),
		wasCalm,
		requests: asked.length,
		lost: lostBefore,
		others: asked.map(({ status }) => status).filter((status) => status !== 200 && status !== 429),
		revokedAfterMs,
	};
}

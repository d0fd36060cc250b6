/** Faults of a fleet, and what its replicas must log and do then. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, type Connection, connect, PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { type Fleet, readPage } from '../fixtures/fleet.ts';
import { testPki } from '../fixtures/pki.ts';
import type { RedisServer } from '../fixtures/redis-server.ts';
import { until } from '../fixtures/wait.ts';
import type { ChildUpstream } from './child-upstream.ts';

export const AWAY = 'limiter store is unavailable';
const BACK = 'limiter store is back';
/** A failover takes longer. */
const BACK_MS = 40_000;

interface Disturbance {
	readonly begin: () => Promise<void>;
	readonly end: () => Promise<void>;
}

export function storeDisturbances(redis: RedisServer): [what: string, disturbance: Disturbance][] {
	const command = (...words: string[]) => ({ run: async () => void (await redis.do(...words)) }).run;
	return [
		['the store is killed and restarted', { begin: () => redis.kill(), end: () => redis.start() }],
		['the store is paused', { begin: async () => redis.pause(), end: async () => redis.resume() }],
		[
			'the store is full',
			{ begin: command('CONFIG', 'SET', 'maxmemory', '1'), end: command('CONFIG', 'SET', 'maxmemory', '0') },
		],
		[
			'the store has become a replica',
			{ begin: command('REPLICAOF', '127.0.0.1', '1'), end: command('REPLICAOF', 'NO', 'ONE') },
		],
	];
}

/** Every replica logs once that the store is away, goes on, and logs once that it is back. */
export async function away(fleet: Fleet, { begin, end }: Disturbance, ms: number): Promise<void> {
	const since = fleet.now;
	await begin();
	await fleet.untilAllSay(AWAY, since);
	for (const proxy of fleet.living) {
		const { status, body } = await readPage(proxy, '/readyz');
		if (status !== 200 || !/^ready; limits not shared, the store is unavailable \(\w+\)/.test(body))
			throw new Error(body);
		if ((await proxy.metric('proxy_limiter_store_up')) !== 0) throw new Error('proxy_limiter_store_up is not 0');
	}
	await sleep(ms);
	await end();
	await saidOnce(fleet, since);
}

/** The primary is gone for good and another one is elected, without an operator. */
export async function failover(fleet: Fleet, primary: RedisServer): Promise<void> {
	const since = fleet.now;
	await primary.kill();
	await fleet.untilAllSay(AWAY, since);
	await saidOnce(fleet, since);
}

async function saidOnce(fleet: Fleet, since: ReturnType<() => Fleet['now']>): Promise<void> {
	await fleet.untilAllSay(BACK, since, BACK_MS);
	for (const proxy of fleet.living) {
		const said = proxy.logs.slice(since.get(proxy)).filter(({ message }) => message === AWAY || message === BACK);
		if (said.length !== 2) throw new Error(`said ${said.length} times that something has changed, not twice`);
	}
}

/** Each address is killed with its requests in flight, and used again when it is back. */
export async function restartUpstreams(fleet: Fleet, upstreams: readonly ChildUpstream[]): Promise<void> {
	for (const upstream of upstreams) {
		const since = fleet.now;
		// One log line per replica. Repeated scrapes of the metrics would be load, too.
		const allSay = (words: string) =>
			fleet.untilAllSay((line) => line.message === words && line.upstream === upstream.authority, since);
		await upstream.kill();
		await allSay('circuit is open');
		await upstream.start();
		await allSay('circuit is closed');
	}
}

/** What a tenant got that sent more than its limit to all replicas at once. */
export interface RateLimited {
	readonly passed: number;
	/** From the first request to the last, s. */
	readonly seconds: number;
	readonly refusal: Answer;
}

/** One tenant per protocol asks the replicas in turn until it is refused. */
export async function askTooMuch(fleet: Fleet): Promise<Record<Protocol, RateLimited>> {
	const outcomes: [Protocol, RateLimited][] = [];
	for (const protocol of PROTOCOLS) {
		await using clients = await connectAll(fleet, protocol);
		const token = (await testPki()).token(`greedy-${protocol}`);
		const from = performance.now();
		let passed = 0;
		let refusal: Answer | undefined;
		while (refusal === undefined) {
			const answers = await Promise.all(clients.all.map((client) => client.request({ token })));
			passed += answers.filter(({ status }) => status === 200).length;
			// One replica may have returned tokens that another one wants.
			if (answers.every(({ status }) => status === 429)) refusal = answers[0];
			else if (answers.some(({ status }) => status !== 200 && status !== 429)) throw new Error('neither 200 nor 429');
		}
		outcomes.push([protocol, { passed, seconds: (performance.now() - from) / 1000, refusal }]);
	}
	return Object.fromEntries(outcomes) as Record<Protocol, RateLimited>;
}

/** How long it takes until every replica enforces a revocation on open connections. */
export async function revoke(fleet: Fleet, redis: RedisServer): Promise<Record<Protocol, number>> {
	const times: [Protocol, number][] = [];
	for (const protocol of PROTOCOLS) {
		await using clients = await connectAll(fleet, protocol);
		const tenant = `revoked-${protocol}`;
		const token = (await testPki()).token(tenant);
		const asked = () => Promise.all(clients.all.map(async (client) => (await client.request({ token })).status));
		const before = await asked();
		if (before.some((status) => status !== 200)) throw new Error(`before it was revoked: ${before}`);
		const from = performance.now();
		await redis.do('XADD', 'proxy:revoked', '*', 'revoke', `tenant:${tenant}`);
		const refusedAfter = clients.all.map(async (client) => {
			await until(async () => (await client.request({ token })).status === 401, `${tenant} to be refused`);
			return performance.now() - from;
		});
		times.push([protocol, Math.max(...(await Promise.all(refusedAfter)))]);
	}
	return Object.fromEntries(times) as Record<Protocol, number>;
}

/** One connection per replica, past the balancer: connections from other addresses need no PROXY header. */
async function connectAll(fleet: Fleet, protocol: Protocol) {
	await using open = new AsyncDisposableStack();
	const all: Connection[] = [];
	for (const proxy of fleet.living) all.push(open.use(await connect(protocol, proxy)));
	const kept = open.move();
	return { all, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

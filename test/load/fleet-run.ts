import { setTimeout as sleep } from 'node:timers/promises';
import type { TomlValue } from '../../packages/proxy/src/cli/demo/config-file.ts';
import { PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { type Fleet, startFleet } from '../fixtures/fleet.ts';
import { testPki } from '../fixtures/pki.ts';
import { startRedis, startSentinel } from '../fixtures/redis-server.ts';
import { until } from '../fixtures/wait.ts';
import { ChildUpstream } from './child-upstream.ts';
import { type FleetFigures, figures, type Limit, type Phase } from './fleet-figures.ts';
import {
	AWAY,
	askTooMuch,
	away,
	failover,
	type RateLimited,
	restartUpstreams,
	revoke,
	storeDisturbances,
} from './fleet-stages.ts';
import { TenantClients } from './fleet-tenants.ts';

export interface FleetPlan {
	readonly replicas: number;
	readonly tenants: number;
	readonly limit: Limit;
	/** Undisturbed time before and after each fault of the store, s. */
	readonly calmSeconds: number;
	/** How long the store is away each time, s. */
	readonly awaySeconds: number;
	/** Every request is logged by its replica, and its client's address is compared. */
	readonly logsAll: boolean;
	readonly say: (line: string) => void;
}

interface FleetOutcome extends FleetFigures {
	/** Whether the store was never away without a fault. Otherwise the machine was too slow to judge tenants' shares. */
	readonly wasCalm: boolean;
	/** Requests beyond the limit, by protocol. */
	readonly limited: Readonly<Record<Protocol, RateLimited>>;
	/** Time from a tenant's revocation in the store until every replica refuses it on open connections, ms. */
	readonly revokedAfterMs: Readonly<Record<Protocol, number>>;
}

/** A tenant's load as a share of its limit, and its connections: evenly spread, all at one replica, and too much. */
const KINDS = [
	{ asks: 1, connections: 4 },
	{ asks: 1, connections: 1 },
	{ asks: 0.5, connections: 3 },
	{ asks: 3, connections: 8 },
	{ asks: 0.9, connections: 2 },
	{ asks: 0.1, connections: 1 },
] as const;
const ADDRESSES = 3;
/** Time for hundreds of handshakes, which keep all replicas busy. */
const CONNECT_MS = 60_000;
export const REPLICA_KILLED = 'a replica is killed';
/** Time after a fault of the store that still belongs to the fault, ms. */
const SETTLE_MS = 2_000;

/**
 * Tenants with uneven load use a fleet while faults hit its store, its upstream and a replica.
 *
 * @throws Error if a replica does not log what it should.
 */
export async function runFleet(plan: FleetPlan): Promise<FleetOutcome> {
	await using open = new AsyncDisposableStack();
	const redis = open.use(await startRedis());
	const run = open.use(await Run.begin(plan, { store: `${redis.url}/0` }));
	const { fleet, upstreams } = run;
	const limited = await askTooMuch(fleet);
	await run.load();

	const since = fleet.now;
	await run.phase('nothing happens', true, () => sleep(plan.calmSeconds * 1000));
	const wasCalm = fleet.proxies.every(
		({ logs }, i) => !logs.slice([...since.values()][i]).some(({ message }) => message === AWAY),
	);
	for (const [what, disturbance] of storeDisturbances(redis)) {
		await run.phase(what, false, () => away(fleet, disturbance, plan.awaySeconds * 1000), SETTLE_MS);
	}
	await run.phase('the store is flushed', false, async () => void (await redis.do('FLUSHALL')), SETTLE_MS);
	const revokedAfterMs = await run.phase('tenants are revoked', true, () => revoke(fleet, redis));
	await run.phase('one address after the other is killed and comes back', true, () =>
		restartUpstreams(fleet, upstreams),
	);
	await run.phase(REPLICA_KILLED, false, () => fleet.kill(fleet.proxies[0]!), SETTLE_MS);
	await run.phase('the others are left', true, () => sleep(plan.calmSeconds * 1000));
	return { ...(await run.end()), wasCalm, limited, revokedAfterMs };
}

/** The same tenants while the primary of a store with Sentinel is killed and its replica is promoted. */
export async function runFailover(plan: FleetPlan): Promise<FleetFigures> {
	await using open = new AsyncDisposableStack();
	const primary = open.use(await startRedis());
	const replica = open.use(await startRedis({ args: ['--replicaof', '127.0.0.1', primary.port] }));
	const says = async (words: string, server: typeof primary, section: string) =>
		String(await server.do('INFO', section)).includes(words);
	await until(() => says('master_link_status:up', replica, 'replication'), 'the replica to follow');
	const sentinel = open.use(await startSentinel(primary.port));
	await until(() => says('slaves=1', sentinel, 'sentinel'), 'the Sentinel to know the replica');
	const run = open.use(await Run.begin(plan, { store: [sentinel.url], sentinel_name: 'main' }));
	await run.load();
	await run.phase('the primary serves', true, () => sleep(plan.calmSeconds * 1000));
	await run.phase('the primary is killed', false, () => failover(run.fleet, primary), SETTLE_MS);
	if (!(await says('role:master', replica, 'replication'))) throw new Error('the replica has not become the primary');
	await run.phase('its replica serves', true, () => sleep(plan.calmSeconds * 1000));
	return run.end();
}

class Run implements AsyncDisposable {
	readonly fleet: Fleet;
	readonly upstreams: readonly ChildUpstream[];
	readonly #plan: FleetPlan;
	readonly #open: AsyncDisposableStack;
	readonly #phases: Phase[] = [];
	readonly #begun = new Date().toISOString();
	#clients: readonly TenantClients[] = [];

	static async begin(plan: FleetPlan, store: Readonly<Record<string, TomlValue>>): Promise<Run> {
		await using open = new AsyncDisposableStack();
		const starting = Array.from({ length: ADDRESSES }, () => ChildUpstream.start('fleet-upstream.ts'));
		const upstreams = (await Promise.all(starting)).map((upstream) => open.use(upstream));
		const fleet = open.use(
			await startFleet({
				replicas: plan.replicas,
				// Even a busy machine has time to answer a probe.
				config: { tenant_rps: plan.limit.rps, health_interval_secs: 0.5, health_timeout_secs: 5 },
				upstreams: [{ name: 'echo', addresses: upstreams.map(({ authority }) => authority) }],
				routes: [{ prefix: '/', upstream: 'echo' }],
				limiter: { ...store, replicas: plan.replicas, revocations: true, timeout_secs: 0.5 },
				...(plan.logsAll && { log: { access: 'all' } }),
			}),
		);
		await until(async () => {
			const seen = await Promise.all(fleet.living.map((proxy) => proxy.metric('proxy_limiter_replicas')));
			return seen.every((count) => count === plan.replicas);
		}, 'replicas to see each other');
		return new Run(plan, fleet, upstreams, open.move());
	}

	private constructor(plan: FleetPlan, fleet: Fleet, upstreams: readonly ChildUpstream[], open: AsyncDisposableStack) {
		this.fleet = fleet;
		this.upstreams = upstreams;
		this.#plan = plan;
		this.#open = open;
	}

	/** Starts it; resolves when all connections are open and the load is steady. */
	async load(): Promise<void> {
		const { tenants, limit } = this.#plan;
		const pki = await testPki();
		this.#clients = Array.from({ length: tenants }, (_, i) => {
			const { asks, connections } = KINDS[i % KINDS.length]!;
			// Each kind over both protocols.
			const protocol = PROTOCOLS[Math.floor(i / KINDS.length) % PROTOCOLS.length]!;
			const plan = { name: `tenant-${i}`, asksRps: limit.rps * asks, connections, protocol, address: addressOf(i) };
			return new TenantClients(plan, this.fleet.port, pki);
		});
		for (const [i, client] of this.#clients.entries()) client.start((i * 0.618) % 1);
		const isConnected = ({ asked, plan }: TenantClients) => asked.length >= plan.connections;
		await until(() => this.#clients.every(isConnected), 'all connections', CONNECT_MS);
		await sleep(SETTLE_MS);
	}

	/**
	 * @param isPromised whether tenants are promised their rate: all replicas are up, and the store has no fault.
	 * @param settleMs time afterwards that belongs to the phase.
	 */
	async phase<T>(what: string, isPromised: boolean, run: () => Promise<T>, settleMs = 0): Promise<T> {
		this.#plan.say(what);
		const fromMs = performance.now();
		const result = await run();
		await sleep(settleMs);
		this.#phases.push({ what, isPromised, fromMs, toMs: performance.now() });
		return result;
	}

	async end(): Promise<FleetFigures> {
		await Promise.all(this.#clients.map((client) => client.stop()));
		// Ignores what replicas logged before they saw each other: at the start a busy machine may be late.
		const lines = this.fleet.proxies.flatMap(({ logs }) => logs).filter(({ timestamp }) => timestamp >= this.#begun);
		return figures(this.#plan.limit, this.#phases, this.#clients, lines);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all(this.#clients.map((client) => client.stop()));
		await this.#open.disposeAsync();
	}
}

/** Each tenant has a loopback address. */
function addressOf(tenant: number): string {
	return `127.1.${Math.floor(tenant / 250)}.${1 + (tenant % 250)}`;
}

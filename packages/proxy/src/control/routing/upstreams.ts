import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import type { RouteConfig, UpstreamAddress, UpstreamConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import { BreakerCell, CLOSED, OPEN } from '../../memory/breaker-cell.ts';
import { BucketCounts, type BucketLayout } from '../../memory/bucket-counts.ts';
import { QueueClaims } from '../../memory/queue-claims.ts';
import { QueueStats } from '../../memory/queue-stats.ts';
import { RouteStats } from '../../memory/route-stats.ts';
import { TransitionCounts } from '../../memory/transition-counts.ts';
import { UpstreamLoad } from '../../memory/upstream-load.ts';
import { UpstreamStats } from '../../memory/upstream-stats.ts';
import { WakeUp } from '../../memory/wake-up.ts';
import { watchCircuit } from '../../shared/circuit-watch.ts';
import type { EndpointPlace, PendingQueueSeed } from '../../shared/messages.ts';
import type { UpstreamTlsMaterial } from '../files/upstream-tls-files.ts';
import { connectionOf, probeHosts, ruleOf } from './rules.ts';
import { withHost } from './seed.ts';
import {
	type Counters,
	type Endpoint,
	endpointKey,
	type RouteCounters,
	type RoutingPlan,
	type Upstream,
} from './table.ts';

type AddressesOf = (upstream: UpstreamConfig) => readonly UpstreamAddress[];

/**
 * The endpoints of the routing table in force: their breakers and counters. A route reload plans the next table, probes
 * what is fresh in it, and applies it once every worker has agreed.
 *
 * The counters of an endpoint that leaves are no longer shown, and continue if it comes back.
 */
export class Upstreams {
	readonly #workers: number;
	readonly #clock: Clock;
	readonly #log: Logger;
	readonly #durations: BucketLayout;
	#current: RoutingPlan = {
		routes: [],
		endpoints: new Map(),
		upstreams: new Map(),
		tls: new Map(),
		traffic: new Map(),
		fresh: [],
	};
	readonly #counters = new Departed<Counters>();
	readonly #traffic = new Departed<RouteCounters>();
	#breakers = 0;
	/** The last place that was given out. */
	#place: EndpointPlace | undefined;
	/** By `upstreamKey`. Kept for ever, as workers do: names are few. */
	readonly #pending = new Map<string, PendingQueueSeed>();

	/**
	 * @param workers number of worker threads.
	 * @param clock the scale of all breakers.
	 * @param log gets the changes of breakers by health probes.
	 * @param durations how the histogram of an endpoint's round trips lies in memory.
	 */
	constructor(workers: number, clock: Clock, log: Logger, durations: BucketLayout = { bounds: [], exemplars: false }) {
		this.#workers = workers;
		this.#clock = clock;
		this.#log = log;
		this.#durations = durations;
	}

	get current(): RoutingPlan {
		return this.#current;
	}

	/**
	 * Works out the next table. Nothing changes before `apply`.
	 *
	 * @param tls of each upstream that has `tls` in its configuration; by default those in force.
	 * @param addressesOf the current addresses of an upstream.
	 */
	plan(
		routes: readonly RouteConfig[],
		tls: UpstreamTlsMaterial = this.#current.tls,
		addressesOf: AddressesOf = ({ addresses }) => addresses,
	): RoutingPlan {
		// Breaker state is kept if a rule has not changed at all. The breaker belongs to the endpoint,
		// so one such rule is enough.
		const rules = new Set(this.#current.routes.map(ruleOf));
		const kept = new Set(
			routes.filter((route) => rules.has(ruleOf(route))).map(({ upstream }) => upstreamKey(upstream)),
		);
		const hosts = probeHosts(routes);
		const endpoints = new Map<string, Endpoint>();
		const upstreams = new Map<string, Upstream>();
		const fresh: Endpoint[] = [];
		const member = (
			config: UpstreamConfig,
			address: UpstreamAddress,
			probeOptions: Upstream['probeOptions'],
		): Endpoint => {
			const key = endpointKey(address.authority, config.name);
			const known = this.#current.endpoints.get(key);
			const endpoint =
				known !== undefined && kept.has(upstreamKey(config)) ? known : this.#create(config, address, known);
			if (endpoint !== known) {
				endpoint.tls = probeOptions(endpoint);
				fresh.push(endpoint);
			}
			endpoints.set(key, endpoint);
			return endpoint;
		};
		for (const { upstream: config } of routes) {
			const key = upstreamKey(config);
			if (upstreams.has(key)) continue;
			const own = connectionOf(config, tls);
			const probeHost = hosts.get(key) ?? config.dns?.hostField;
			const members = addressesOf(config).map((address) =>
				member(config, withHost(address, probeHost), own.probeOptions),
			);
			const waiting = config.limits && this.#waitingOf(key);
			upstreams.set(key, { config, endpoints: members, probeHost, waiting, ...own });
		}
		const traffic = new Map(routes.map(({ prefix }) => [prefix, this.#trafficOf(prefix)]));
		return { routes, endpoints, upstreams, tls, traffic, fresh };
	}

	#waitingOf(key: string): PendingQueueSeed {
		const known = this.#pending.get(key);
		if (known !== undefined) return known;
		const waiting = {
			count: UpstreamLoad.allocate(this.#workers, 0),
			claims: QueueClaims.allocate(this.#workers),
			freed: WakeUp.allocate(),
			wanted: WakeUp.allocate(),
			stats: QueueStats.allocate(this.#workers),
		};
		this.#pending.set(key, waiting);
		return waiting;
	}

	#trafficOf(prefix: string): RouteCounters {
		const known = this.#traffic.get(prefix);
		if (known !== undefined) return known;
		const memory = RouteStats.allocate(this.#workers);
		const stats = Array.from({ length: this.#workers }, (_, worker) => RouteStats.view(memory, worker));
		return { memory, stats, createdSeconds: this.#clock.wallSeconds() };
	}

	apply(plan: RoutingPlan): void {
		this.#current = plan;
		for (const { endpoints, probeHost, probeOptions } of plan.upstreams.values()) {
			for (const endpoint of endpoints) {
				endpoint.address = withHost(endpoint.address, probeHost);
				endpoint.tls = probeOptions(endpoint);
			}
		}
		this.#counters.use(new Map(Array.from(plan.endpoints, ([key, { counters }]) => [key, counters])));
		this.#traffic.use(plan.traffic);
	}

	/** Clears the connections and requests in flight of a worker that is gone. */
	clearGauges(worker: number): void {
		for (const { place, connectionsMemory } of this.#current.endpoints.values()) {
			UpstreamLoad.reclaim(place.loads, worker, place.at);
			UpstreamLoad.reclaim(connectionsMemory, worker);
		}
		for (const { count, claims, freed } of this.#pending.values()) {
			QueueClaims.reclaim(claims, worker);
			UpstreamLoad.reclaim(count, worker);
			new WakeUp(freed).ring();
		}
		for (const { stats } of this.#counters.values) new UpstreamStats(stats[worker]!).clearGauges();
		for (const { stats } of this.#traffic.values) stats[worker]!.clearGauges();
	}

	#create(
		{ name: group, health, protocol }: UpstreamConfig,
		address: UpstreamAddress,
		known: Endpoint | undefined,
	): Endpoint {
		const key = endpointKey(address.authority, group);
		const counters = this.#counters.get(key) ?? this.#newCounters();
		// Without probes nothing would close it.
		const now = this.#clock.now();
		const place = this.#newPlace();
		const breakerMemory = BreakerCell.allocate(now, health === undefined ? CLOSED : OPEN, place);
		const load = new UpstreamLoad(place.loads, 0, place.at);
		load.servesSince(now);
		const connectionsMemory = known?.connectionsMemory ?? UpstreamLoad.allocate(this.#workers, now);
		const log = new RateLimitedLog(this.#log, this.#clock);
		const breaker = new BreakerCell(
			breakerMemory,
			watchCircuit({ upstream: address.authority, group }, counters.transitions, load, log, this.#clock),
			place,
		);
		const breakerId = ++this.#breakers;
		return {
			address,
			group,
			breaker,
			breakerId,
			breakerMemory,
			place,
			connectionsMemory,
			counters,
			made: { at: now, wallSeconds: this.#clock.wallSeconds() },
			health,
			protocol,
			alive: known?.alive,
			aliveSince: known?.aliveSince,
			lastProbe: known?.lastProbe,
		};
	}

	/** A place that no endpoint has had before: a worker may still count requests at one that has left the table. */
	#newPlace(): EndpointPlace {
		const last = this.#place;
		this.#place =
			last !== undefined && last.at + 1 < PLACES
				? { ...last, at: last.at + 1 }
				: { states: BreakerCell.allocateStates(PLACES), loads: UpstreamLoad.allocate(this.#workers, 0, PLACES), at: 0 };
		return this.#place;
	}

	#newCounters(): Counters {
		const stats = Array.from({ length: this.#workers }, () => UpstreamStats.allocate());
		const durations = BucketCounts.allocate(this.#durations, this.#workers);
		return { stats, durations, transitions: new TransitionCounts(), createdSeconds: this.#clock.wallSeconds() };
	}
}

/** Endpoints in one region. A region lives as long as any of them: few, so that one endpoint that stays holds little memory. */
const PLACES = 64;

/** How many names are kept after they have left the table. The first to leave is dropped first. */
const MAX_DEPARTED = 256;

/** Counters by name, for names in the table and those that have left it, so that counts go on if they come back. */
class Departed<Kept> {
	#inForce: ReadonlyMap<string, Kept> = new Map();
	readonly #departed = new Map<string, Kept>();

	get(name: string): Kept | undefined {
		return this.#inForce.get(name) ?? this.#departed.get(name);
	}

	get values(): readonly Kept[] {
		return [...this.#inForce.values(), ...this.#departed.values()];
	}

	/** @param inForce of the table that comes into force. */
	use(inForce: ReadonlyMap<string, Kept>): void {
		for (const [name, kept] of this.#inForce) this.#departed.set(name, kept);
		for (const name of inForce.keys()) this.#departed.delete(name);
		for (const name of this.#departed.keys()) {
			if (this.#departed.size <= MAX_DEPARTED) break;
			this.#departed.delete(name);
		}
		this.#inForce = inForce;
	}
}

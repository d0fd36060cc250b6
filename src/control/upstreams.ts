import type { ConnectionOptions, SecureContext } from 'node:tls';
import type { HealthSettings, RouteConfig, UpstreamAddress, UpstreamGroupConfig } from '../config/config.ts';
import { groupKey } from '../config/upstream.ts';
import { BreakerCell, CLOSED, OPEN } from '../shared/breaker-cell.ts';
import { BucketCounts, type BucketLayout } from '../shared/bucket-counts.ts';
import { watchCircuit } from '../shared/circuit-watch.ts';
import type { Clock } from '../shared/clock.ts';
import type { Logger } from '../shared/log.ts';
import type {
	RouteSeed,
	RoutingSeed,
	UpstreamPlace,
	UpstreamSeed,
	UpstreamTlsSeed,
	WaitingSeed,
} from '../shared/messages.ts';
import { QueueClaims } from '../shared/queue-claims.ts';
import { QueueStats } from '../shared/queue-stats.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import { RouteStats } from '../shared/route-stats.ts';
import { UpstreamStats } from '../shared/stats.ts';
import { type LastTransition, TransitionCounts } from '../shared/transition-counts.ts';
import { UpstreamLoad } from '../shared/upstream-load.ts';
import { createUpstreamContext, upstreamTlsOptions } from '../shared/upstream-tls.ts';
import { WakeUp } from '../shared/wake-up.ts';
import type { UpstreamTlsMaterial } from './files/upstream-tls-files.ts';
import { inWords, type ProbeOutcome } from './health/outcome.ts';

/** One address of the table in force, or of one that is being prepared. */
export interface Upstream {
	/** Its `hostField` is that of probes. Another one with each table that is applied. */
	address: UpstreamAddress;
	/** Of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly group: string | undefined;
	readonly breaker: BreakerCell;
	/** Unique in the process. */
	readonly breakerId: number;
	/** What `breaker` stands on, for the workers: all but its state. */
	readonly breakerMemory: UpstreamSeed['breaker'];
	/** Where that state lies, and what is under way there, for the workers. */
	readonly place: UpstreamPlace;
	/** Connections there, for the workers. */
	readonly connectionsMemory: UpstreamSeed['connections'];
	readonly counters: Counters;
	/** When its breaker was made, monotonic milliseconds and seconds since the epoch: its counters may be older. */
	readonly made: { readonly at: number; readonly wallSeconds: number };
	/** How it is probed; `undefined`: not at all. */
	readonly health: HealthSettings | undefined;
	/** How probes connect; `undefined`: plain HTTP. Another one with each table that is applied. */
	tls?: ConnectionOptions | undefined;
	/** The last verdict of the health check; `undefined` before the first. */
	alive: boolean | undefined;
	/** What the last probe found; `undefined` before the first. */
	lastProbe: ProbeOutcome | undefined;
}

/** A routing table with all the memory it needs, ready to take the place of the one in force. */
export interface RoutingPlan {
	readonly routes: readonly RouteConfig[];
	/** By key (`upstreamKey`). */
	readonly upstreams: ReadonlyMap<string, Upstream>;
	/** Who serves the requests of a route, by key (`groupKey`). */
	readonly groups: ReadonlyMap<string, UpstreamGroup>;
	/** What TLS to groups is made of, by key (`groupKey`). */
	readonly tls: UpstreamTlsMaterial;
	/** By prefix: what is counted of each route. */
	readonly traffic: ReadonlyMap<string, RouteCounters>;
	/** Those of `upstreams` whose breaker is a new one: open and unproven. */
	readonly fresh: readonly Upstream[];
}

/** The addresses among which a route's requests are spread. */
export interface UpstreamGroup {
	readonly config: UpstreamGroupConfig;
	/** In the order of the configuration. */
	readonly upstreams: readonly Upstream[];
	/** Who waits, for the workers; `undefined`: it has no limits. */
	readonly waiting: WaitingSeed | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls: UpstreamTlsSeed | undefined;
	/** What a health probe puts into `Host`; `undefined`: the address. */
	readonly probeHost: string | undefined;
	/** What a health probe connects with (`Upstream.tls`). */
	readonly probeOptions: (upstream: Upstream) => ConnectionOptions | undefined;
}

export type AddressesOf = (group: UpstreamGroupConfig) => readonly UpstreamAddress[];

/** An address that is in two groups is two upstreams: what holds for it is said by each group. */
export function upstreamKey(authority: string, group: string | undefined): string {
	return group === undefined ? authority : `${group}/${authority}`;
}

/** TLS to the upstreams of a table. */
export function tlsOf({ groups }: RoutingPlan): UpstreamTlsSeed[] {
	return Array.from(groups.values(), ({ tls }) => tls).filter((tls) => tls !== undefined);
}

/** What is counted of one upstream. */
export interface Counters {
	/** One region a worker, by index. */
	readonly stats: readonly UpstreamSeed['stats'][];
	/** Of the round trips: one region for all workers. */
	readonly durations: UpstreamSeed['durations'];
	/** What this thread, by its health probes, has made of the circuit. */
	readonly transitions: TransitionCounts;
	/** When they began, seconds since the epoch. */
	readonly createdSeconds: number;
}

/** What some thread has last made of an upstream's circuit; `undefined`: it is as it was at its beginning. */
export function lastTransition({ counters, made }: Pick<Upstream, 'counters' | 'made'>): LastTransition | undefined {
	const lasts = [counters.transitions, ...counters.stats.map((region) => new UpstreamStats(region).transitions)].map(
		({ last }) => last,
	);
	const last = lasts.reduce((latest, last) => ((last?.at ?? -1) >= (latest?.at ?? -1) ? (last ?? latest) : latest));
	// That of another breaker before this one says nothing of this one.
	return last !== undefined && last.at >= made.at ? last : undefined;
}

/** Why the circuit of an upstream without a transition is open, and since when: it begins so. */
export function beginning({
	made,
	lastProbe,
}: Pick<Upstream, 'made' | 'lastProbe'>): Pick<LastTransition, 'wallSeconds' | 'reason' | 'cause'> {
	const cause = 'no health probe has passed yet';
	return {
		wallSeconds: made.wallSeconds,
		reason: 'health',
		cause: lastProbe === undefined ? cause : `${cause}; ${inWords(lastProbe)}`,
	};
}

/** What is counted of one route. */
export interface RouteCounters {
	readonly memory: RouteSeed['stats'];
	/** By worker; the same memory. */
	readonly stats: readonly RouteStats[];
	readonly createdSeconds: number;
}

/**
 * The upstreams of the routing table in force: their breakers and counters. A route reload plans the next table, probes
 * what is fresh in it, and applies it once every worker has agreed.
 *
 * The counters of an upstream that leaves are no longer shown, and go on from where they were should it come back.
 */
export class Upstreams {
	readonly #workers: number;
	readonly #clock: Clock;
	readonly #log: Logger;
	readonly #durations: BucketLayout;
	#current: RoutingPlan = {
		routes: [],
		upstreams: new Map(),
		groups: new Map(),
		tls: new Map(),
		traffic: new Map(),
		fresh: [],
	};
	readonly #departed = new Departed<Counters>();
	readonly #departedRoutes = new Departed<RouteCounters>();
	#breakers = 0;
	/** What was given out last. */
	#place: UpstreamPlace | undefined;
	/** By `groupKey`. Workers keep rooms as long, and names are few. */
	readonly #rooms = new Map<string, WaitingSeed>();

	/**
	 * @param workers number of worker threads.
	 * @param clock the scale of all breakers.
	 * @param log told of what health probes make of breakers.
	 * @param durations how the histogram of an upstream's round trips lies in memory.
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
	 * @param tls of each group that has `tls` in its configuration; by default what is in force.
	 * @param addressesOf a group's, of the moment.
	 */
	plan(
		routes: readonly RouteConfig[],
		tls: UpstreamTlsMaterial = this.#current.tls,
		addressesOf: AddressesOf = ({ addresses }) => addresses,
	): RoutingPlan {
		// Breaker state is kept for rules of which nothing has changed. The breaker is the upstream's,
		// so one such rule is enough.
		const rules = new Set(this.#current.routes.map(ruleOf));
		const kept = new Set(routes.filter((route) => rules.has(ruleOf(route))).map(({ group }) => groupKey(group)));
		const hosts = probeHosts(routes);
		const upstreams = new Map<string, Upstream>();
		const groups = new Map<string, UpstreamGroup>();
		const fresh: Upstream[] = [];
		const member = (
			config: UpstreamGroupConfig,
			address: UpstreamAddress,
			probeOptions: UpstreamGroup['probeOptions'],
		): Upstream => {
			const key = upstreamKey(address.authority, config.name);
			const known = this.#current.upstreams.get(key);
			const upstream = known !== undefined && kept.has(groupKey(config)) ? known : this.#create(config, address, known);
			if (upstream !== known) {
				upstream.tls = probeOptions(upstream);
				fresh.push(upstream);
			}
			upstreams.set(key, upstream);
			return upstream;
		};
		for (const { group: config } of routes) {
			const key = groupKey(config);
			if (groups.has(key)) continue;
			const own = connectionOf(config, tls);
			const probeHost = hosts.get(key) ?? config.dns?.hostField;
			const members = addressesOf(config).map((address) =>
				member(config, withHost(address, probeHost), own.probeOptions),
			);
			const waiting = config.limits && this.#waitingOf(key);
			groups.set(key, { config, upstreams: members, probeHost, waiting, ...own });
		}
		const traffic = new Map(routes.map(({ prefix }) => [prefix, this.#trafficOf(prefix)]));
		return { routes, upstreams, groups, tls, traffic, fresh };
	}

	#waitingOf(key: string): WaitingSeed {
		const known = this.#rooms.get(key);
		if (known !== undefined) return known;
		const waiting = {
			count: UpstreamLoad.allocate(this.#workers, 0),
			claims: QueueClaims.allocate(this.#workers),
			freed: WakeUp.allocate(),
			wanted: WakeUp.allocate(),
			stats: QueueStats.allocate(this.#workers),
		};
		this.#rooms.set(key, waiting);
		return waiting;
	}

	#trafficOf(prefix: string): RouteCounters {
		const known = this.#current.traffic.get(prefix) ?? this.#departedRoutes.get(prefix);
		if (known !== undefined) return known;
		const memory = RouteStats.allocate(this.#workers);
		const stats = Array.from({ length: this.#workers }, (_, worker) => RouteStats.of(memory, worker));
		return { memory, stats, createdSeconds: this.#clock.wallSeconds() };
	}

	apply(plan: RoutingPlan): void {
		for (const [key, { counters }] of this.#current.upstreams) this.#departed.add(key, counters);
		for (const [prefix, counters] of this.#current.traffic) this.#departedRoutes.add(prefix, counters);
		this.#current = plan;
		for (const { upstreams, probeHost, probeOptions } of plan.groups.values()) {
			for (const upstream of upstreams) {
				upstream.address = withHost(upstream.address, probeHost);
				upstream.tls = probeOptions(upstream);
			}
		}
		this.#departed.forget(plan.upstreams.keys());
		this.#departedRoutes.forget(plan.traffic.keys());
	}

	/** What one worker gets to know of a table: its own counters, and the breakers that all share. */
	seed(plan: RoutingPlan, worker: number): RoutingSeed {
		const upstreams = [...plan.upstreams.values()];
		const indexes = new Map(upstreams.map((upstream, index) => [upstream, index]));
		const groups = [...plan.groups.values()];
		const groupIndexes = new Map([...plan.groups.keys()].map((key, index) => [key, index]));
		const configs = new Map(groups.flatMap((one) => one.upstreams.map((upstream) => [upstream, one.config])));
		return {
			upstreams: upstreams.map((upstream) => ({
				...withHost(upstream.address, configs.get(upstream)!.dns?.hostField),
				group: upstream.group,
				breakerId: upstream.breakerId,
				breaker: upstream.breakerMemory,
				place: upstream.place,
				connections: upstream.connectionsMemory,
				stats: upstream.counters.stats[worker]!,
				durations: upstream.counters.durations,
				idleTimeoutMs: configs.get(upstream)!.idleTimeoutMs,
				connectTimeoutMs: configs.get(upstream)!.connectTimeoutMs,
			})),
			groups: groups.map(({ config, tls, upstreams: members, waiting }) => ({
				name: config.name,
				...(tls && { tls }),
				upstreams: members.map((upstream) => indexes.get(upstream)!),
				weights: config.dns === undefined ? config.addresses.map(({ weight = 1 }) => weight) : members.map(() => 1),
				balancing: config.balancing,
				limits: config.limits,
				waiting,
			})),
			routes: plan.routes.map(
				({
					prefix,
					caseInsensitive,
					cooldownMs,
					opening,
					rate,
					group,
					access,
					certificateHeaders,
					forwarding,
					requestLimits,
				}) => ({
					prefix,
					caseInsensitive,
					cooldownMs,
					opening,
					rate,
					group: groupIndexes.get(groupKey(group))!,
					access,
					certificateHeaders,
					forwarding,
					requestLimits,
					stats: plan.traffic.get(prefix)!.memory,
				}),
			),
		};
	}

	/** Nothing of a worker that is gone is connected or under way any more. */
	clearGauges(worker: number): void {
		for (const { place, connectionsMemory } of this.#current.upstreams.values()) {
			UpstreamLoad.reclaim(place.loads, worker, place.at);
			UpstreamLoad.reclaim(connectionsMemory, worker);
		}
		for (const { count, claims, freed } of this.#rooms.values()) {
			QueueClaims.reclaim(claims, worker);
			UpstreamLoad.reclaim(count, worker);
			new WakeUp(freed).ring();
		}
		const everywhere = [...this.#current.upstreams.values()].map(({ counters }) => counters);
		for (const { stats } of [...everywhere, ...this.#departed.values]) new UpstreamStats(stats[worker]!).clearGauges();
		for (const { stats } of [...this.#current.traffic.values(), ...this.#departedRoutes.values]) {
			stats[worker]!.clearGauges();
		}
	}

	#create(
		{ name: group, health }: UpstreamGroupConfig,
		address: UpstreamAddress,
		known: Upstream | undefined,
	): Upstream {
		const key = upstreamKey(address.authority, group);
		const counters = known?.counters ?? this.#departed.get(key) ?? this.#newCounters();
		// Nobody will prove one that is not probed.
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
			alive: known?.alive,
			lastProbe: known?.lastProbe,
		};
	}

	/** One that no other upstream has had: a worker may still count requests at one that has left the table. */
	#newPlace(): UpstreamPlace {
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

/** @throws Error where the material of a group that is to be spoken to over TLS is missing: it must never be plain then. */
function connectionOf(
	config: UpstreamGroupConfig,
	material: UpstreamTlsMaterial,
): Pick<UpstreamGroup, 'tls' | 'probeOptions'> {
	if (config.tls === undefined) return { tls: undefined, probeOptions: () => undefined };
	const tls = material.get(groupKey(config));
	if (tls === undefined) throw new Error(`the TLS files of ${groupKey(config)} have not been read`);
	const context = contextOf(tls);
	return { tls, probeOptions: ({ address }) => upstreamTlsOptions(tls, address.host, context) };
}

/** Reading certificates and keys is expensive, and a change of addresses plans a table with the material that is in force. */
function contextOf(tls: UpstreamTlsSeed): SecureContext {
	const context = CONTEXTS.get(tls) ?? createUpstreamContext(tls);
	CONTEXTS.set(tls, context);
	return context;
}

const CONTEXTS = new WeakMap<UpstreamTlsSeed, SecureContext>();

/** Counters of what has left the table; those that left first are forgotten first. */
class Departed<Kept> {
	readonly #kept = new Map<string, Kept>();

	get(name: string): Kept | undefined {
		return this.#kept.get(name);
	}

	get values(): Iterable<Kept> {
		return this.#kept.values();
	}

	add(name: string, counters: Kept): void {
		this.#kept.set(name, counters);
	}

	/** @param inForce have not left, or have come back. */
	forget(inForce: Iterable<string>): void {
		for (const name of inForce) this.#kept.delete(name);
		for (const name of this.#kept.keys()) {
			if (this.#kept.size <= MAX_DEPARTED) break;
			this.#kept.delete(name);
		}
	}
}

const MAX_DEPARTED = 256;

/** Upstreams that share a region. It lives as long as one of them: few, so that one that stays among many that go holds little. */
const PLACES = 64;

/**
 * All of a route that its breaker has to do with. A breaker that was closed by another health check is unproven, and so is one that was
 * closed for another `Host`: a server of several sites answers for the one that is named.
 */
function ruleOf({ prefix, group, cooldownMs, opening, forwarding }: RouteConfig): string {
	const { failures, tenants } = opening;
	const isTls = group.tls !== undefined;
	const hosts = [nameOf(forwarding), group.dns?.hostField];
	return JSON.stringify([prefix, groupKey(group), isTls, cooldownMs, failures, tenants, group.health, hosts]);
}

/**
 * `Host` of probes, by `groupKey`, for groups all of whose routes put one name there (`host = "billing.internal"`): probes ask as
 * requests do. Where routes differ there is no such name, and the probes of a group that is not there name the address.
 */
function probeHosts(routes: readonly RouteConfig[]): ReadonlyMap<string, string | undefined> {
	const hosts = new Map<string, string | undefined>();
	for (const { group, forwarding } of routes) {
		const key = groupKey(group);
		const name = nameOf(forwarding);
		hosts.set(key, !hosts.has(key) || hosts.get(key) === name ? name : undefined);
	}
	return hosts;
}

function nameOf(forwarding: RouteConfig['forwarding']): string | undefined {
	return typeof forwarding?.host === 'object' ? forwarding.host.name : undefined;
}

function withHost({ hostField: _, ...address }: UpstreamAddress, hostField: string | undefined): UpstreamAddress {
	return hostField === undefined ? address : { ...address, hostField };
}

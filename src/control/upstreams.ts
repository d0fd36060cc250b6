import type { HealthSettings, RouteConfig, UpstreamAddress } from '../config/config.ts';
import { BreakerCell, CLOSED, OPEN } from '../shared/breaker-cell.ts';
import { watchCircuit } from '../shared/circuit-watch.ts';
import type { Clock } from '../shared/clock.ts';
import type { Logger } from '../shared/log.ts';
import type { RoutingSeed, UpstreamSeed } from '../shared/messages.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import { TransitionCounts, UpstreamStats } from '../shared/stats.ts';

/** One upstream of the table in force, or of one that is being prepared. */
export interface Upstream {
	readonly address: UpstreamAddress;
	readonly breaker: BreakerCell;
	/** Unique in the process. */
	readonly breakerId: number;
	/** What `breaker` stands on, for the workers. */
	readonly breakerMemory: UpstreamSeed['breaker'];
	readonly counters: Counters;
	/** How it is probed; `undefined`: not at all. */
	readonly health: HealthSettings | undefined;
	/** The last verdict of the health check; `undefined` before the first. */
	alive: boolean | undefined;
}

/** A routing table with all the memory it needs, ready to take the place of the one in force. */
export interface RoutingPlan {
	readonly routes: readonly RouteConfig[];
	/** By authority. */
	readonly upstreams: ReadonlyMap<string, Upstream>;
	/** Those of `upstreams` whose breaker is a new one: open and unproven. */
	readonly fresh: readonly Upstream[];
}

/** What is counted of one upstream. */
export interface Counters {
	/** One region a worker, by index. */
	readonly stats: readonly UpstreamSeed['stats'][];
	/** What this thread, by its health probes, has made of the circuit. */
	readonly transitions: TransitionCounts;
}

/** Upstreams that have left and whose counters are kept; the one that left first is forgotten first. */
const MAX_DEPARTED = 256;

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
	#current: RoutingPlan = { routes: [], upstreams: new Map(), fresh: [] };
	readonly #departed = new Map<string, Counters>();
	#breakers = 0;

	/**
	 * @param workers number of worker threads.
	 * @param clock the scale of all breakers.
	 * @param log told of what health probes make of breakers.
	 */
	constructor(workers: number, clock: Clock, log: Logger) {
		this.#workers = workers;
		this.#clock = clock;
		this.#log = log;
	}

	get current(): RoutingPlan {
		return this.#current;
	}

	/** Works out the next table. Nothing changes before `apply`. */
	plan(routes: readonly RouteConfig[]): RoutingPlan {
		// Specification 3.1: breaker state is kept for rules of which nothing has changed. The breaker is the upstream's,
		// so one such rule is enough (decisions "Circuit breaker").
		const rules = new Set(this.#current.routes.map(ruleOf));
		const kept = new Set(routes.filter((route) => rules.has(ruleOf(route))).map(({ upstream }) => upstream.authority));
		const upstreams = new Map<string, Upstream>();
		const fresh: Upstream[] = [];
		for (const route of routes) {
			const { authority } = route.upstream;
			if (upstreams.has(authority)) continue;
			const known = this.#current.upstreams.get(authority);
			const upstream = known !== undefined && kept.has(authority) ? known : this.#create(route, known);
			if (upstream !== known) fresh.push(upstream);
			upstreams.set(authority, upstream);
		}
		return { routes, upstreams, fresh };
	}

	apply(plan: RoutingPlan): void {
		for (const [authority, { counters }] of this.#current.upstreams) {
			if (!plan.upstreams.has(authority)) this.#departed.set(authority, counters);
		}
		this.#current = plan;
		for (const authority of plan.upstreams.keys()) this.#departed.delete(authority);
		for (const authority of this.#departed.keys()) {
			if (this.#departed.size <= MAX_DEPARTED) break;
			this.#departed.delete(authority);
		}
	}

	/** What one worker gets to know of a table: its own counters, and the breakers that all share. */
	seed(plan: RoutingPlan, worker: number): RoutingSeed {
		const indexes = new Map([...plan.upstreams.keys()].map((authority, index) => [authority, index]));
		const idleTimeouts = new Map(plan.routes.map(({ upstream, idleTimeoutMs }) => [upstream.authority, idleTimeoutMs]));
		return {
			upstreams: [...plan.upstreams.values()].map(({ address, breakerId, breakerMemory, counters }) => ({
				...address,
				breakerId,
				breaker: breakerMemory,
				stats: counters.stats[worker]!,
				idleTimeoutMs: idleTimeouts.get(address.authority)!,
			})),
			routes: plan.routes.map(({ prefix, cooldownMs, opening, rate, upstream, access, certificateHeaders }) => ({
				prefix,
				cooldownMs,
				opening,
				rate,
				upstream: indexes.get(upstream.authority)!,
				access,
				certificateHeaders,
			})),
		};
	}

	/** Nothing of a worker that is gone is connected any more. */
	clearGauges(worker: number): void {
		const everywhere = [...this.#current.upstreams.values()].map(({ counters }) => counters);
		for (const { stats } of [...everywhere, ...this.#departed.values()])
			new UpstreamStats(stats[worker]!).clearGauges();
	}

	#create({ upstream: address, health }: RouteConfig, known: Upstream | undefined): Upstream {
		const { authority } = address;
		const counters = known?.counters ?? this.#departed.get(authority) ?? this.#newCounters();
		// Nobody will prove one that is not probed.
		const breakerMemory = BreakerCell.allocate(this.#clock.now(), health === undefined ? CLOSED : OPEN);
		const log = new RateLimitedLog(this.#log, this.#clock);
		const breaker = new BreakerCell(breakerMemory, watchCircuit(authority, counters.transitions, log));
		const breakerId = ++this.#breakers;
		return { address, breaker, breakerId, breakerMemory, counters, health, alive: known?.alive };
	}

	#newCounters(): Counters {
		const stats = Array.from({ length: this.#workers }, () => UpstreamStats.allocate());
		return { stats, transitions: new TransitionCounts() };
	}
}

/** All of a route that its breaker has to do with; a breaker that was closed by another health check is unproven. */
function ruleOf({ prefix, upstream, cooldownMs, opening, health }: RouteConfig): string {
	return JSON.stringify([prefix, upstream.authority, cooldownMs, opening.failures, opening.tenants, health]);
}

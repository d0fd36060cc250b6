import type { RouteConfig, UpstreamAddress } from '../config/config.ts';
import { BreakerCell } from '../shared/breaker-cell.ts';
import type { RoutingSeed, UpstreamSeed } from '../shared/messages.ts';
import { UpstreamStats } from '../shared/stats.ts';

/** One upstream of the table in force, or of one that is being prepared. */
export interface Upstream {
	readonly address: UpstreamAddress;
	readonly breaker: BreakerCell;
	/** Unique in the process. */
	readonly breakerId: number;
	/** What `breaker` stands on, for the workers. */
	readonly breakerMemory: UpstreamSeed['breaker'];
	/** One region a worker, by index. */
	readonly stats: StatsRegions;
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

type StatsRegions = readonly UpstreamSeed['stats'][];

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
	readonly #now: () => number;
	#current: RoutingPlan = { routes: [], upstreams: new Map(), fresh: [] };
	readonly #departed = new Map<string, StatsRegions>();
	#breakers = 0;

	/**
	 * @param workers number of worker threads.
	 * @param now monotonic milliseconds, the scale of all breakers.
	 */
	constructor(workers: number, now: () => number) {
		this.#workers = workers;
		this.#now = now;
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
		for (const { upstream: address } of routes) {
			const { authority } = address;
			if (upstreams.has(authority)) continue;
			const known = this.#current.upstreams.get(authority);
			const upstream = known !== undefined && kept.has(authority) ? known : this.#create(address, known);
			if (upstream !== known) fresh.push(upstream);
			upstreams.set(authority, upstream);
		}
		return { routes, upstreams, fresh };
	}

	apply(plan: RoutingPlan): void {
		for (const [authority, { stats }] of this.#current.upstreams) {
			if (!plan.upstreams.has(authority)) this.#departed.set(authority, stats);
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
		return {
			upstreams: [...plan.upstreams.values()].map(({ address, breakerId, breakerMemory, stats }) => ({
				...address,
				breakerId,
				breaker: breakerMemory,
				stats: stats[worker]!,
			})),
			routes: plan.routes.map(({ prefix, cooldownMs, upstream }) => ({
				prefix,
				cooldownMs,
				upstream: indexes.get(upstream.authority)!,
			})),
		};
	}

	/** Nothing of a worker that is gone is connected any more. */
	clearGauges(worker: number): void {
		const everywhere = [...this.#current.upstreams.values()].map(({ stats }) => stats);
		for (const stats of [...everywhere, ...this.#departed.values()]) new UpstreamStats(stats[worker]!).clearGauges();
	}

	#create(address: UpstreamAddress, known: Upstream | undefined): Upstream {
		const breakerMemory = BreakerCell.allocate(this.#now());
		const stats =
			known?.stats ??
			this.#departed.get(address.authority) ??
			Array.from({ length: this.#workers }, () => UpstreamStats.allocate());
		const breakerId = ++this.#breakers;
		return { address, breaker: new BreakerCell(breakerMemory), breakerId, breakerMemory, stats, alive: known?.alive };
	}
}

function ruleOf({ prefix, upstream, cooldownMs }: RouteConfig): string {
	return JSON.stringify([prefix, upstream.authority, cooldownMs]);
}

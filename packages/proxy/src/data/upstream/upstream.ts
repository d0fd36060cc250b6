import type { Balancer, Candidates } from '../../gates/balancing/balancer.ts';
import { createBalancer } from '../../gates/balancing/create-balancer.ts';
import { RetryBudget } from '../../gates/balancing/retry-budget.ts';
import type { BalancingSettings } from '../../gates/balancing/settings.ts';
import { warmth } from '../../gates/balancing/slow-start.ts';
import { type Admission, NORMAL, REFUSED } from '../../gates/breaker.ts';
import type { UpstreamLoad } from '../../memory/upstream-load.ts';
import type { UpstreamLimits } from '../../shared/messages.ts';
import type { Endpoint } from './endpoint.ts';
import type { PendingQueue } from './pending-queue.ts';

/** Settings shared by all requests of an upstream. */
export interface UpstreamParts extends BalancingSettings {
	/** Name of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly name: string | undefined;
	/** At least one. */
	readonly endpoints: readonly Endpoint[];
	/** One for each endpoint. */
	readonly weights: readonly number[];
	readonly random: () => number;
	/** Limits of each endpoint, and the queue for requests beyond them; `undefined`: no limit. */
	readonly limits?: UpstreamLimits | undefined;
	readonly pending?: PendingQueue | undefined;
	/** The upstream of that name in the previous routing table, whose counts continue. */
	readonly before?: Upstream | undefined;
}

/** The addresses that share a route's requests, each with its own breaker. */
export class Upstream {
	readonly name: string | undefined;
	readonly endpoints: readonly Endpoint[];
	/** Set if there is only one endpoint. */
	readonly only: Endpoint | undefined;
	/** Whether requests under way are counted for each address (`Endpoint.load`). */
	readonly counts: boolean;
	/** How often one request may be sent again. */
	readonly retries: number;
	/** `undefined`: there is nowhere else to go. */
	readonly retryBudget: RetryBudget | undefined;
	/** `undefined`: nobody waits. */
	readonly pending: PendingQueue | undefined;
	// For `Moment`. Per address: reading the endpoint itself may miss the cache.
	readonly breakers: readonly Endpoint['breaker'][];
	readonly loads: readonly Endpoint['load'][];
	readonly weights: readonly number[];
	readonly slowStartMs: number;
	readonly limits: UpstreamLimits | undefined;
	/** Index of the last choice, and its moment. */
	latest = -1;
	latestAt = Number.NEGATIVE_INFINITY;
	/** Set if there is nothing to choose and nothing to count. */
	readonly #simple: Endpoint | undefined;
	readonly #balancedBy: string;
	readonly #balancer: Balancer;
	/** The same for the upstreams of that name in all routing tables. */
	readonly #lineage: { inForce: Upstream };
	/** By address: the choice while its breaker is closed. */
	readonly #ordinary: readonly Choice[];

	constructor(parts: UpstreamParts) {
		const { name, endpoints, weights, balance, slowStartMs, retries, random, limits, pending, before } = parts;
		const isOne = endpoints.length === 1;
		this.name = name;
		this.endpoints = endpoints;
		this.only = isOne ? endpoints[0] : undefined;
		this.counts = (!isOne && balance === 'least-requests') || limits?.maxRequests !== undefined;
		this.pending = pending;
		this.limits = limits;
		this.#simple = limits === undefined ? this.only : undefined;
		this.retries = retries;
		this.retryBudget = isOne || retries === 0 ? undefined : (before?.retryBudget ?? new RetryBudget());
		this.breakers = endpoints.map(({ breaker }) => breaker);
		this.loads = endpoints.map(({ load }) => load);
		this.#ordinary = endpoints.map((endpoint) => this.#choice(endpoint, NORMAL));
		this.weights = weights;
		this.slowStartMs = slowStartMs;
		const addresses = endpoints.map(({ authority }) => authority);
		// All that a choice depends on, except the moment.
		this.#balancedBy = JSON.stringify([balance, addresses, weights]);
		const isAsBefore = before !== undefined && this.#balancedBy === before.#balancedBy;
		this.#balancer = isAsBefore ? before.#balancer : createBalancer(balance, addresses, weights, random);
		this.#lineage = before === undefined ? { inForce: this } : before.#lineage;
	}

	/** A routing table with this upstream is in force now. */
	comesIntoForce(): void {
		this.#lineage.inForce = this;
	}

	/** The upstream of that name in the routing table that is in force, or was the last to have one: this one, or a later one. */
	get inForce(): Upstream {
		return this.#lineage.inForce;
	}

	/**
	 * Chooses the endpoint for one request. It may spend the one probe of a half-open breaker. If the upstream `counts`, the request
	 * counts as under way there from now on.
	 *
	 * @param now monotonic milliseconds.
	 * @param tenant of the request.
	 * @param tried endpoints that did not take it: it gets a connection that no request has used. `undefined`: it is sent for the first time.
	 * @returns `full`: breakers admit it, but their endpoints are all at a limit, ours or their own; `none`: no breaker admits it.
	 */
	choose(now: number, cooldownMs: number, tenant: string, tried?: readonly Endpoint[]): Choice | 'full' | 'none' {
		const only = this.#simple;
		if (only !== undefined && tried === undefined) {
			if (only.pool.isShut) return only.breaker.admits(now, cooldownMs) ? 'full' : 'none';
			const admission = only.breaker.admit(now, cooldownMs);
			return admission === REFUSED ? 'none' : this.#chosen(0, admission);
		}
		const moment = new Moment(this, now, cooldownMs, tried);
		for (;;) {
			const i = this.#balancer.choose(moment, tenant);
			if (i === -1) return this.#isLimited(moment) && moment.anyBreakerAdmits ? 'full' : 'none';
			const endpoint = this.endpoints[i]!;
			// Checked only for the chosen one: without limits, a choice need not read all endpoints.
			if (endpoint.pool.isShut) {
				moment.leaveOut(i);
				continue;
			}
			const admission = this.#take(endpoint, moment);
			if (admission !== REFUSED) {
				this.latest = i;
				this.latestAt = now;
				return this.#chosen(i, admission);
			}
			// Meanwhile another thread has sent the probe, opened the breaker or taken the last place.
		}
	}

	#isLimited({ leavesOut }: Moment): boolean {
		return this.limits !== undefined || leavesOut;
	}

	/** Whether an endpoint has declared that it takes no requests. */
	get isShut(): boolean {
		return this.endpoints.some(({ pool }) => pool.isShut);
	}

	/** Predicts the result of `choose` without taking anything; `free`: an endpoint. */
	look(now: number, cooldownMs: number, tried: readonly Endpoint[]): 'free' | 'full' | 'none' {
		const moment = new Moment(this, now, cooldownMs, tried);
		if (this.endpoints.some((_, i) => moment.admits(i))) return 'free';
		return moment.anyBreakerAdmits ? 'full' : 'none';
	}

	/**
	 * For a request that is sent again to the endpoint that has not taken it, on another connection.
	 *
	 * @returns `undefined`: there is no room any more.
	 */
	again(attempt: Repeated, now: number): Choice | undefined {
		const { endpoint } = attempt;
		if (!this.#counted(endpoint)) return undefined;
		if (endpoint.pool.reserve(now, true)) return this.#choice(endpoint, attempt.passAdmission());
		if (this.counts) endpoint.load.dec();
		return undefined;
	}

	/** @returns `REFUSED`: it is not available after all, and nothing is taken. */
	#take(endpoint: Endpoint, { now, cooldownMs, tried }: Moment): Admission | typeof REFUSED {
		if (!this.#counted(endpoint)) return REFUSED;
		const { breaker, pool, load } = endpoint;
		let admission: Admission | typeof REFUSED = REFUSED;
		let isTaken = false;
		try {
			admission = breaker.admit(now, cooldownMs);
			isTaken = admission !== REFUSED && (this.limits === undefined || pool.reserve(now, tried !== undefined));
		} finally {
			if (!isTaken) {
				if (admission !== REFUSED) breaker.report(admission, 'abandoned');
				if (this.counts) load.dec();
			}
		}
		return isTaken ? admission : REFUSED;
	}

	#counted({ load }: Endpoint): boolean {
		const max = this.limits?.maxRequests;
		if (max !== undefined) return load.tryInc(max);
		if (this.counts) load.inc();
		return true;
	}

	#chosen(i: number, admission: Admission): Choice {
		return admission === NORMAL ? this.#ordinary[i]! : this.#choice(this.endpoints[i]!, admission);
	}

	#choice(endpoint: Endpoint, admission: Admission | typeof REFUSED): Choice {
		return { endpoint, admission, load: this.counts ? endpoint.load : undefined };
	}
}

/** An endpoint for one request. `UpstreamAttempt` releases all of it. */
export interface Choice {
	readonly endpoint: Endpoint;
	/** The admission that its breaker awaits a report on; `REFUSED`: already reported. */
	readonly admission: Admission | typeof REFUSED;
	/** The counter that includes the request; `undefined`: the upstream does not count. */
	readonly load: UpstreamLoad | undefined;
}

/** An attempt whose endpoint may get the request again. */
interface Repeated {
	readonly endpoint: Endpoint;
	/** Passes its admission to the next attempt. */
	passAdmission(): Admission | typeof REFUSED;
}

/** The state of an upstream's addresses for one request. */
export class Moment implements Candidates {
	readonly now: number;
	readonly cooldownMs: number;
	readonly tried: readonly Endpoint[] | undefined;
	readonly #upstream: Upstream;
	#leftOut: Set<number> | undefined;

	constructor(upstream: Upstream, now: number, cooldownMs: number, tried: readonly Endpoint[] | undefined) {
		this.#upstream = upstream;
		this.now = now;
		this.cooldownMs = cooldownMs;
		this.tried = tried;
	}

	admits(i: number): boolean {
		return this.#leftOut?.has(i) !== true && this.#breakerAdmits(i) && this.#hasRoom(i);
	}

	/** Excludes an endpoint that turns out to have no room. */
	leaveOut(i: number): void {
		this.#leftOut ??= new Set();
		this.#leftOut.add(i);
	}

	get leavesOut(): boolean {
		return this.#leftOut !== undefined;
	}

	get anyBreakerAdmits(): boolean {
		return this.#upstream.endpoints.some((_, i) => this.#breakerAdmits(i));
	}

	#breakerAdmits(i: number): boolean {
		if (this.tried?.includes(this.#upstream.endpoints[i]!)) return false;
		return this.#upstream.breakers[i]!.admits(this.now, this.cooldownMs);
	}

	#hasRoom(i: number): boolean {
		const { limits, endpoints } = this.#upstream;
		if (limits === undefined) return true;
		const { load, pool } = endpoints[i]!;
		return (limits.maxRequests === undefined || load.total < limits.maxRequests) && pool.hasRoom(this.now);
	}

	/** The last choice of the same turn: `DispatchQueue` gives all requests of a turn the same time. */
	get latest(): number {
		return this.now === this.#upstream.latestAt ? this.#upstream.latest : -1;
	}

	load(i: number): number {
		return this.#upstream.loads[i]!.recent;
	}

	weight(i: number): number {
		const { weights, slowStartMs, loads } = this.#upstream;
		const weight = weights[i]!;
		return slowStartMs === 0 ? weight : weight * warmth(this.now - loads[i]!.since, slowStartMs);
	}
}

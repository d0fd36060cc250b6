import type { Balancer, Candidates } from '../../gates/balancing/balancer.ts';
import { createBalancer } from '../../gates/balancing/create-balancer.ts';
import { RetryBudget } from '../../gates/balancing/retry-budget.ts';
import type { BalancingSettings } from '../../gates/balancing/settings.ts';
import { warmth } from '../../gates/balancing/slow-start.ts';
import { type Admission, NORMAL, REFUSED } from '../../gates/breaker.ts';
import type { UpstreamLoad } from '../../memory/upstream-load.ts';
import type { UpstreamLimits } from '../../shared/messages.ts';
import type { PendingQueue } from './pending-queue.ts';
import type { Upstream } from './upstream.ts';

/** What is the same for all requests of a group. */
export interface GroupParts extends BalancingSettings {
	/** Of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly name: string | undefined;
	/** At least one. */
	readonly upstreams: readonly Upstream[];
	/** Of each of them. */
	readonly weights: readonly number[];
	readonly random: () => number;
	/** What each of them may have at once, and where requests wait that are over it; `undefined`: no limit. */
	readonly limits?: UpstreamLimits | undefined;
	readonly room?: PendingQueue | undefined;
	/** The group of that name in the routing table of before: what it has counted goes on. */
	readonly before?: UpstreamGroup | undefined;
}

/** The addresses among which a route's requests are spread, each behind a breaker of its own. */
export class UpstreamGroup {
	readonly name: string | undefined;
	readonly upstreams: readonly Upstream[];
	/** Where there is nothing to choose. */
	readonly only: Upstream | undefined;
	/** Whether requests under way are counted for each address (`Upstream.load`). */
	readonly counts: boolean;
	/** How often one request may be sent again. */
	readonly retries: number;
	/** `undefined`: there is nowhere else to go. */
	readonly retryBudget: RetryBudget | undefined;
	/** `undefined`: nobody waits. */
	readonly room: PendingQueue | undefined;
	/** Of each address, what a choice looks at: the address itself may be met cold. */
	readonly #breakers: readonly Upstream['breaker'][];
	readonly #loads: readonly Upstream['load'][];
	readonly #weights: readonly number[];
	readonly #slowStartMs: number;
	readonly #limits: UpstreamLimits | undefined;
	/** Where there is nothing to choose, and nothing to count. */
	readonly #simple: Upstream | undefined;
	readonly #balancedBy: string;
	readonly #balancer: Balancer;
	/** The same for the groups of that name in all routing tables. */
	readonly #lineage: { inForce: UpstreamGroup };
	/** By address: what is chosen while its breaker is closed. */
	readonly #ordinary: readonly Choice[];

	constructor(parts: GroupParts) {
		const { name, upstreams, weights, balance, slowStartMs, retries, random, limits, room, before } = parts;
		const isOne = upstreams.length === 1;
		this.name = name;
		this.upstreams = upstreams;
		this.only = isOne ? upstreams[0] : undefined;
		this.counts = (!isOne && balance === 'least-requests') || limits?.maxRequests !== undefined;
		this.room = room;
		this.#limits = limits;
		this.#simple = limits === undefined ? this.only : undefined;
		this.retries = retries;
		this.retryBudget = isOne || retries === 0 ? undefined : (before?.retryBudget ?? new RetryBudget());
		this.#breakers = upstreams.map(({ breaker }) => breaker);
		this.#loads = upstreams.map(({ load }) => load);
		this.#ordinary = upstreams.map((upstream) => this.#choice(upstream, NORMAL));
		this.#weights = weights;
		this.#slowStartMs = slowStartMs;
		const addresses = upstreams.map(({ authority }) => authority);
		// All that a choice depends on, except the moment.
		this.#balancedBy = JSON.stringify([balance, addresses, weights]);
		const isAsBefore = before !== undefined && this.#balancedBy === before.#balancedBy;
		this.#balancer = isAsBefore ? before.#balancer : createBalancer(balance, addresses, weights, random);
		this.#lineage = before === undefined ? { inForce: this } : before.#lineage;
	}

	/** A routing table with this group is in force now. */
	comesIntoForce(): void {
		this.#lineage.inForce = this;
	}

	/** The group of that name in the routing table that is in force, or was the last to have one: this one, or a later one. */
	get inForce(): UpstreamGroup {
		return this.#lineage.inForce;
	}

	/**
	 * Chooses the upstream for one request. It may spend the one probe of a half-open breaker. Where the group `counts`, the request is
	 * under way there from now on.
	 *
	 * @param now monotonic milliseconds.
	 * @param tenant whose request it is.
	 * @param tried upstreams that did not take it: it gets a connection that no request has used. `undefined`: it is sent for the first time.
	 * @returns `full`: breakers admit it, but each of their upstreams is at a limit; `none`: no breaker admits it.
	 */
	choose(now: number, cooldownMs: number, tenant: string, tried?: readonly Upstream[]): Choice | 'full' | 'none' {
		const only = this.#simple;
		if (only !== undefined && tried === undefined) {
			const admission = only.breaker.admit(now, cooldownMs);
			return admission === REFUSED ? 'none' : this.#chosen(0, admission);
		}
		const moment = new Moment(this, now, cooldownMs, tried);
		for (;;) {
			const i = this.#balancer.choose(moment, tenant);
			if (i === -1) return this.#limits !== undefined && moment.anyBreakerAdmits ? 'full' : 'none';
			const admission = this.#take(this.upstreams[i]!, moment);
			if (admission !== REFUSED) return this.#chosen(i, admission);
			// Another thread has sent the probe, has opened the breaker or has taken the last place since it was looked at.
		}
	}

	/** What `choose` would find; `free`: an upstream. Takes nothing. */
	look(now: number, cooldownMs: number, tried: readonly Upstream[]): 'free' | 'full' | 'none' {
		const moment = new Moment(this, now, cooldownMs, tried);
		if (this.upstreams.some((_, i) => moment.admits(i))) return 'free';
		return moment.anyBreakerAdmits ? 'full' : 'none';
	}

	/**
	 * For a request that is sent once more to the upstream that has not taken it, on another connection.
	 *
	 * @returns `undefined`: there is no room any more.
	 */
	again(attempt: Repeated, now: number): Choice | undefined {
		const { upstream } = attempt;
		if (!this.#counted(upstream)) return undefined;
		if (upstream.pool.reserve(now, true)) return this.#choice(upstream, attempt.passAdmission());
		if (this.counts) upstream.load.dec();
		return undefined;
	}

	/** @returns `REFUSED`: it cannot be had after all, and nothing is taken. */
	#take(upstream: Upstream, { now, cooldownMs, tried }: Moment): Admission | typeof REFUSED {
		if (!this.#counted(upstream)) return REFUSED;
		const { breaker, pool, load } = upstream;
		let admission: Admission | typeof REFUSED = REFUSED;
		let isTaken = false;
		try {
			admission = breaker.admit(now, cooldownMs);
			isTaken = admission !== REFUSED && (this.#limits === undefined || pool.reserve(now, tried !== undefined));
		} finally {
			if (!isTaken) {
				if (admission !== REFUSED) breaker.report(admission, 'abandoned');
				if (this.counts) load.dec();
			}
		}
		return isTaken ? admission : REFUSED;
	}

	#counted({ load }: Upstream): boolean {
		const max = this.#limits?.maxRequests;
		if (max !== undefined) return load.tryInc(max);
		if (this.counts) load.inc();
		return true;
	}

	#chosen(i: number, admission: Admission): Choice {
		return admission === NORMAL ? this.#ordinary[i]! : this.#choice(this.upstreams[i]!, admission);
	}

	#choice(upstream: Upstream, admission: Admission | typeof REFUSED): Choice {
		return { upstream, admission, load: this.counts ? upstream.load : undefined };
	}

	/** For `Moment`. */
	hasRoom(i: number, now: number): boolean {
		if (this.#limits === undefined) return true;
		const { load, pool } = this.upstreams[i]!;
		const max = this.#limits.maxRequests;
		return (max === undefined || load.total < max) && pool.hasRoom(now);
	}

	/** For `Moment`. */
	breakerAdmits(i: number, now: number, cooldownMs: number): boolean {
		return this.#breakers[i]!.admits(now, cooldownMs);
	}

	/** For `Moment`. */
	load(i: number): number {
		return this.#loads[i]!.recent;
	}

	/** For `Moment`. */
	weight(i: number, now: number): number {
		const weight = this.#weights[i]!;
		if (this.#slowStartMs === 0) return weight;
		return weight * warmth(now - this.#loads[i]!.since, this.#slowStartMs);
	}
}

/** An upstream for one request. All of it has to be given back: `UpstreamAttempt` does. */
export interface Choice {
	readonly upstream: Upstream;
	/** What its breaker was promised a report on; `REFUSED`: that was reported before. */
	readonly admission: Admission | typeof REFUSED;
	/** Where the request is counted as under way; `undefined`: the group does not count. */
	readonly load: UpstreamLoad | undefined;
}

/** An attempt whose upstream may get the request again. */
interface Repeated {
	readonly upstream: Upstream;
	/** Its admission is the next attempt's from now on. */
	passAdmission(): Admission | typeof REFUSED;
}

/** The addresses of a group as one request finds them. */
class Moment implements Candidates {
	readonly now: number;
	readonly cooldownMs: number;
	readonly tried: readonly Upstream[] | undefined;
	readonly #group: UpstreamGroup;

	constructor(group: UpstreamGroup, now: number, cooldownMs: number, tried: readonly Upstream[] | undefined) {
		this.#group = group;
		this.now = now;
		this.cooldownMs = cooldownMs;
		this.tried = tried;
	}

	admits(i: number): boolean {
		return this.#breakerAdmits(i) && this.#group.hasRoom(i, this.now);
	}

	get anyBreakerAdmits(): boolean {
		return this.#group.upstreams.some((_, i) => this.#breakerAdmits(i));
	}

	#breakerAdmits(i: number): boolean {
		if (this.tried?.includes(this.#group.upstreams[i]!)) return false;
		return this.#group.breakerAdmits(i, this.now, this.cooldownMs);
	}

	load(i: number): number {
		return this.#group.load(i);
	}

	weight(i: number): number {
		return this.#group.weight(i, this.now);
	}
}

import type { Balancer, Candidates } from '../../gates/balancing/balancer.ts';
import { createBalancer } from '../../gates/balancing/create-balancer.ts';
import { RetryBudget } from '../../gates/balancing/retry-budget.ts';
import type { BalancingSettings } from '../../gates/balancing/settings.ts';
import { warmth } from '../../gates/balancing/slow-start.ts';
import { type Admission, REFUSED } from '../../gates/breaker.ts';
import type { UpstreamLimits } from '../../shared/messages.ts';
import type { Upstream } from '../plane.ts';
import type { WaitingRoom } from './waiting-room.ts';

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
	readonly room?: WaitingRoom | undefined;
	/** The group of that name in the routing table of before: what it has counted goes on. */
	readonly before?: UpstreamGroup | undefined;
}

/** The addresses among which a route's requests are spread, each behind a breaker of its own. */
export class UpstreamGroup implements Candidates {
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
	readonly room: WaitingRoom | undefined;
	/** Why the last `admit` has chosen none: there are some whose breakers admit it, and they are at a limit. */
	isFull = false;
	/** What the breaker of the upstream that `admit` has chosen last was promised a report on. */
	admission: Admission | typeof REFUSED = REFUSED;
	/** Of each address, what a choice looks at: the address itself may be met cold. */
	readonly #breakers: readonly Upstream['breaker'][];
	readonly #loads: readonly Upstream['load'][];
	readonly #weights: readonly number[];
	readonly #slowStartMs: number;
	readonly #limits: UpstreamLimits | undefined;
	/** Where there is nothing to choose, and nothing to count. */
	readonly #simple: Upstream | undefined;
	readonly #choice: string;
	readonly #balancer: Balancer;
	/** The same for the groups of that name in all routing tables. */
	readonly #lineage: { inForce: UpstreamGroup };
	/** Of the choice at hand. */
	#now = 0;
	#cooldownMs = 0;
	#tried: readonly Upstream[] = NONE;

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
		this.#weights = weights;
		this.#slowStartMs = slowStartMs;
		const addresses = upstreams.map(({ authority }) => authority);
		// All that a choice depends on, beside the moment.
		this.#choice = JSON.stringify([balance, addresses, weights]);
		const isAsBefore = before !== undefined && this.#choice === before.#choice;
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
	 * Chooses the upstream for one request. It may spend the one probe of a half-open breaker; what is admitted must be reported.
	 *
	 * @param now monotonic milliseconds.
	 * @param tenant whose request it is.
	 * @returns `undefined`: no breaker admits it, or `isFull`. Where the group `counts`, it is under way there from now on.
	 */
	admit(now: number, cooldownMs: number, tenant: string): Upstream | undefined {
		const only = this.#simple;
		if (only !== undefined) {
			this.admission = only.breaker.admit(now, cooldownMs);
			return this.admission === REFUSED ? undefined : only;
		}
		return this.admitOther(now, cooldownMs, tenant, NONE);
	}

	/** The same for a request that the upstreams `tried` did not take: it gets a connection that nobody has used. */
	admitOther(now: number, cooldownMs: number, tenant: string, tried: readonly Upstream[]): Upstream | undefined {
		this.#now = now;
		this.#cooldownMs = cooldownMs;
		this.#tried = tried;
		for (;;) {
			const chosen = this.#balancer.choose(this, tenant);
			if (chosen === -1) {
				this.isFull = this.#limits !== undefined && this.upstreams.some((_, i) => this.#breakerAdmits(i));
				return undefined;
			}
			const upstream = this.upstreams[chosen]!;
			if (this.#take(upstream)) return upstream;
			// Another thread has sent the probe, has opened the breaker or has taken the last place since it was looked at.
		}
	}

	/** What `admitOther` would find: an upstream; only such as are at a limit; none whose breaker admits it. Takes nothing. */
	lookForOther(now: number, cooldownMs: number, tried: readonly Upstream[]): 'free' | 'full' | 'none' {
		this.#now = now;
		this.#cooldownMs = cooldownMs;
		this.#tried = tried;
		if (this.upstreams.some((_, i) => this.admits(i))) return 'free';
		return this.upstreams.some((_, i) => this.#breakerAdmits(i)) ? 'full' : 'none';
	}

	/** For a request that is sent once more to the upstream that has not taken it, on another connection. */
	again(upstream: Upstream, now: number): boolean {
		if (!this.#counted(upstream)) return false;
		if (upstream.pool.reserve(now, true)) return true;
		if (this.counts) upstream.load.dec();
		return false;
	}

	#take(upstream: Upstream): boolean {
		if (!this.#counted(upstream)) return false;
		const { breaker, pool, load } = upstream;
		let isTaken = false;
		this.admission = REFUSED;
		try {
			this.admission = breaker.admit(this.#now, this.#cooldownMs);
			if (this.admission === REFUSED) return false;
			isTaken = this.#limits === undefined || pool.reserve(this.#now, this.#tried !== NONE);
			return isTaken;
		} finally {
			if (!isTaken) {
				if (this.admission !== REFUSED) breaker.report(this.admission, 'abandoned');
				if (this.counts) load.dec();
			}
		}
	}

	#counted({ load }: Upstream): boolean {
		const max = this.#limits?.maxRequests;
		if (max !== undefined) return load.tryInc(max);
		if (this.counts) load.inc();
		return true;
	}

	admits(i: number): boolean {
		return this.#breakerAdmits(i) && (this.#limits === undefined || this.#hasRoom(this.upstreams[i]!));
	}

	#hasRoom({ load, pool }: Upstream): boolean {
		const max = this.#limits?.maxRequests;
		return (max === undefined || load.total < max) && pool.hasRoom(this.#now);
	}

	#breakerAdmits(i: number): boolean {
		if (this.#tried.length > 0 && this.#tried.includes(this.upstreams[i]!)) return false;
		return this.#breakers[i]!.admits(this.#now, this.#cooldownMs);
	}

	load(i: number): number {
		return this.#loads[i]!.recent;
	}

	weight(i: number): number {
		const weight = this.#weights[i]!;
		if (this.#slowStartMs === 0) return weight;
		return weight * warmth(this.#now - this.#loads[i]!.since, this.#slowStartMs);
	}
}

/** Of a request that has not been sent yet. */
const NONE: readonly Upstream[] = [];

/** The result of a turn: used; not usable by this request, though maybe by another one; no place is left for any request. */
export type Turn = 'taken' | 'passed' | 'over';

/**
 * Pending requests, in turns by tenant: the first of each tenant before the second of any. A tenant that sends a hundred at once
 * delays only itself: another tenant's only request waits for at most one request of each tenant.
 */
export class FairQueue<Tenant, Waiting> {
	/** In the order of their turns; each has at least one pending request. */
	readonly #tenants = new Map<Tenant, Places<Waiting>>();
	/** The tenants that have a certain number of pending requests, by that number. */
	readonly #bySize: Set<Tenant>[] = [];
	#size = 0;

	get size(): number {
		return this.#size;
	}

	/** Pending requests of the tenant that has most. */
	get most(): number {
		return Math.max(0, this.#bySize.length - 1);
	}

	/** Pending requests of `tenant`. */
	sizeOf(tenant: Tenant): number {
		return this.#tenants.get(tenant)?.size ?? 0;
	}

	add(tenant: Tenant, waiting: Waiting): void {
		let own = this.#tenants.get(tenant);
		if (own === undefined) {
			own = new Places();
			this.#tenants.set(tenant, own);
		}
		own.add(waiting);
		this.#size++;
		this.#resize(tenant, own.size - 1, own.size);
	}

	/**
	 * Offers turns, to the first request of each tenant before the second of any, until one reports that no place is left. A request
	 * that takes its turn leaves the queue, and its tenant goes to the end. One that passes keeps its place.
	 */
	serve(offer: (waiting: Waiting) => Turn): void {
		// A tenant that is moved to the end comes again in this loop.
		for (const [tenant, own] of this.#tenants) {
			for (const waiting of own.all) {
				const turn = offer(waiting);
				if (turn === 'over') return;
				if (turn === 'passed') continue;
				this.remove(tenant, waiting);
				if (this.#tenants.delete(tenant)) this.#tenants.set(tenant, own);
				break;
			}
		}
	}

	/** The last request of a tenant with the most pending ones, if it has more than `least`. */
	lastOfMost(least: number): readonly [Tenant, Waiting] | undefined {
		if (this.most <= least) return undefined;
		const [tenant] = this.#bySize[this.most]!;
		return [tenant!, this.#tenants.get(tenant!)!.last];
	}

	/** Removes a request that has had no turn. @returns `false`: it was not in the queue. */
	remove(tenant: Tenant, waiting: Waiting): boolean {
		const own = this.#tenants.get(tenant);
		if (own === undefined || !own.remove(waiting)) return false;
		this.#size--;
		this.#resize(tenant, own.size + 1, own.size);
		if (own.size === 0) this.#tenants.delete(tenant);
		return true;
	}

	#resize(tenant: Tenant, before: number, now: number): void {
		this.#bySize[before]?.delete(tenant);
		if (now > 0) {
			this.#bySize[now] ??= new Set();
			this.#bySize[now].add(tenant);
		}
		this.#bySize[0] ??= new Set();
		while (this.#bySize.length > 1 && this.#bySize.at(-1)!.size === 0) this.#bySize.pop();
	}
}

/** Requests of one tenant, in their order. Any of them may leave; the last one is found without a walk over all. */
class Places<Waiting> {
	readonly all = new Set<Waiting>();
	/** The same requests, and some that have left. */
	#order: Waiting[] = [];

	get size(): number {
		return this.all.size;
	}

	get last(): Waiting {
		while (!this.all.has(this.#order.at(-1)!)) this.#order.pop();
		return this.#order.at(-1)!;
	}

	add(waiting: Waiting): void {
		this.all.add(waiting);
		this.#order.push(waiting);
		if (this.#order.length > 2 * this.size + SLACK) this.#order = [...this.all];
	}

	remove(waiting: Waiting): boolean {
		return this.all.delete(waiting);
	}
}

/** This many requests that have left are not worth a new array. */
const SLACK = 16;

/** The result of a turn: used; not usable by this request, though maybe by another one; no place is left for any request. */
export type Turn = 'taken' | 'passed' | 'over';

/**
 * Pending requests, in turns by tenant: the first of each tenant before the second of any. A tenant that sends a hundred at once delays
 * itself, and the one request of another tenant is behind at most one of each.
 */
export class FairQueue<Tenant, Waiting> {
	/** In the order of their turns; each has a pending request. */
	readonly #tenants = new Map<Tenant, Places<Waiting>>();
	/** The tenants, by their number of pending requests. */
	readonly #bySize: Set<Tenant>[] = [];
	#size = 0;

	get size(): number {
		return this.#size;
	}

	/** The pending requests of the tenant that has most. */
	get most(): number {
		return Math.max(0, this.#bySize.length - 1);
	}

	/** The pending requests of `tenant`. */
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
	 * Offers turns, to the first of each tenant before the second of any, until one of them reports that no place is left. A request that has
	 * taken its turn waits no longer, and the next one of its tenant comes behind all other tenants. One that passes keeps its place.
	 */
	serve(offer: (waiting: Waiting) => Turn): void {
		// A tenant that is put behind the others comes again in this very loop.
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

	/** The last request of a tenant that has most waiting, if those are more than `least`. */
	lastOfMost(least: number): readonly [Tenant, Waiting] | undefined {
		if (this.most <= least) return undefined;
		const [tenant] = this.#bySize[this.most]!;
		return [tenant!, this.#tenants.get(tenant!)!.last];
	}

	/** It waits no longer, and has had no turn. @returns `false`: it had not been waiting. */
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

/** Requests of one tenant, in their order. Any of them may leave; which is the last is known without a walk. */
class Places<Waiting> {
	readonly all = new Set<Waiting>();
	/** The same, and some that have left. */
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

/** So many that have left are not worth a new array. */
const SLACK = 16;

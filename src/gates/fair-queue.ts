/** What became of a turn: it was used; this one had no use for it, though another one may have; there is nothing left for anybody. */
export type Turn = 'taken' | 'passed' | 'over';

/**
 * Who waits, in turns by tenant: the first of each tenant before the second of any. A tenant that sends a hundred at once delays itself,
 * and the one request of another tenant is behind at most one of each.
 */
export class FairQueue<Tenant, Waiting> {
	/** In the order of their turns; each has somebody waiting. */
	readonly #tenants = new Map<Tenant, Set<Waiting>>();
	#size = 0;

	get size(): number {
		return this.#size;
	}

	add(tenant: Tenant, waiting: Waiting): void {
		const own = this.#tenants.get(tenant);
		if (own === undefined) this.#tenants.set(tenant, new Set([waiting]));
		else own.add(waiting);
		this.#size++;
	}

	/**
	 * Offers turns, to the first of each tenant before the second of any, until one says that there is nothing left to take. Whoever has taken
	 * its turn waits no longer, and the next one of its tenant comes behind all other tenants. Whoever passes keeps its place among those of its tenant.
	 */
	serve(offer: (waiting: Waiting) => Turn): void {
		// A tenant that is put behind the others comes again in this very loop.
		for (const [tenant, own] of this.#tenants) {
			for (const waiting of own) {
				const turn = offer(waiting);
				if (turn === 'over') return;
				if (turn === 'passed') continue;
				this.remove(tenant, waiting);
				if (this.#tenants.delete(tenant)) this.#tenants.set(tenant, own);
				break;
			}
		}
	}

	/**
	 * Who makes room for one more of `tenant` where all places are taken: the last of the tenant that has most waiting. `undefined`: none
	 * has more waiting than `tenant` would have then.
	 */
	lastOfMost(tenant: Tenant): readonly [Tenant, Waiting] | undefined {
		let most: Tenant | undefined;
		let size = (this.#tenants.get(tenant)?.size ?? 0) + 1;
		for (const [other, { size: waiting }] of this.#tenants) {
			if (waiting > size) [most, size] = [other, waiting];
		}
		if (most === undefined) return undefined;
		let last: Waiting | undefined;
		for (const waiting of this.#tenants.get(most)!) last = waiting;
		return [most, last!];
	}

	/** It waits no longer, and has had no turn. @returns `false`: it had not been waiting. */
	remove(tenant: Tenant, waiting: Waiting): boolean {
		const own = this.#tenants.get(tenant);
		if (own === undefined || !own.delete(waiting)) return false;
		this.#size--;
		if (own.size === 0) this.#tenants.delete(tenant);
		return true;
	}
}

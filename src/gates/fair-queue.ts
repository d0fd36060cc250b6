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

	/** Whose turn it is; `undefined`: nobody waits. */
	get first(): Waiting | undefined {
		for (const own of this.#tenants.values()) for (const waiting of own) return waiting;
		return undefined;
	}

	/** The first one has had its turn: the next one of its tenant comes behind all other tenants. */
	shift(): void {
		for (const [tenant, own] of this.#tenants) {
			for (const waiting of own) {
				own.delete(waiting);
				break;
			}
			this.#size--;
			this.#tenants.delete(tenant);
			if (own.size > 0) this.#tenants.set(tenant, own);
			return;
		}
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

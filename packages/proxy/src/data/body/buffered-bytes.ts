import { OVERLOADED, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Budget } from '../../memory/budget.ts';
import type { TenantShares } from '../../memory/tenant-shares.ts';

/** Limits the bytes of bodies that the process may hold in memory, in total and per tenant. */
export class BufferedBytes {
	readonly #all: Budget;
	readonly #shares: TenantShares | undefined;
	/** Bytes that `tryKeep` has granted, in total and by tenant. */
	#kept = 0;
	readonly #keptOf = new Map<bigint, number>();

	/** @param shares `undefined`: one tenant may hold all. */
	constructor(all: Budget, shares: TenantShares | undefined) {
		this.#all = all;
		this.#shares = shares;
	}

	/** @returns why there is no room; otherwise exactly the same amount must be given back. */
	take(tenant: bigint, bytes: number): Rejection | undefined {
		if (this.#shares?.tryClaim(tenant, bytes) === false) return TENANT_HOLDS_ITS_SHARE;
		if (this.#all.tryClaim(bytes)) return undefined;
		this.#shares?.release(tenant, bytes);
		return ALL_IS_HELD;
	}

	/**
	 * Takes memory for what requests can do without. This has a limit of its own in each worker, so it never takes the place of a body.
	 * A tenant gets at most a quarter of it.
	 *
	 * @returns whether there is room; if so, the same amount must be given back by `unkeep`.
	 */
	tryKeep(tenant: bigint, bytes: number): boolean {
		const own = (this.#keptOf.get(tenant) ?? 0) + bytes;
		if (own > MAX_KEPT_OF_TENANT || this.#kept + bytes > MAX_KEPT) return false;
		this.#kept += bytes;
		this.#keptOf.set(tenant, own);
		return true;
	}

	unkeep(tenant: bigint, bytes: number): void {
		this.#kept -= bytes;
		const own = this.#keptOf.get(tenant)! - bytes;
		if (own > 0) this.#keptOf.set(tenant, own);
		else this.#keptOf.delete(tenant);
	}

	release(tenant: bigint, bytes: number): void {
		this.#all.release(bytes);
		this.#shares?.release(tenant, bytes);
	}
}

export class Reservation {
	/** Bytes. */
	size = 0;
	readonly #budget: BufferedBytes;
	readonly #tenant: bigint;

	constructor(budget: BufferedBytes, tenant: bigint) {
		this.#budget = budget;
		this.#tenant = tenant;
	}

	/**
	 * Takes the new size before giving back the old one: amounts are rounded up, so a difference cannot be claimed. Without room for both
	 * the size is unchanged.
	 *
	 * @returns why there is no room for a larger one.
	 */
	resize(bytes: number): Rejection | undefined {
		const refusal = this.#budget.take(this.#tenant, bytes);
		if (refusal) return bytes > this.size ? refusal : undefined;
		this.release();
		this.size = bytes;
		return undefined;
	}

	release(): void {
		if (this.size > 0) this.#budget.release(this.#tenant, this.size);
		this.size = 0;
	}
}

/** Bytes. */
const MAX_KEPT = 2 * 2 ** 20;
const MAX_KEPT_OF_TENANT = MAX_KEPT / 4;

const TENANT_HOLDS_ITS_SHARE = OVERLOADED.because('this tenant holds its share of max_buffered_bytes');
const ALL_IS_HELD = OVERLOADED.because('all of max_buffered_bytes is held');

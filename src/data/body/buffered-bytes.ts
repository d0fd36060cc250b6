import { OVERLOADED, type Rejection } from '../../gates/rejection.ts';
import type { Budget } from '../../shared/budget.ts';
import type { TenantShares } from '../../shared/tenant-shares.ts';

/** The bytes of bodies that the process may hold in memory: all together, and each tenant of them. */
export class BufferedBytes {
	readonly #all: Budget;
	readonly #shares: TenantShares | undefined;

	/** @param shares `undefined` where one tenant may hold all. */
	constructor(all: Budget, shares: TenantShares | undefined) {
		this.#all = all;
		this.#shares = shares;
	}

	/** @returns why there is no room; without a refusal exactly as much has to be given back. */
	take(tenant: bigint, bytes: number): Rejection | undefined {
		if (this.#shares?.tryTake(tenant, bytes) === false) return TENANT_HOLDS_ITS_SHARE;
		if (this.#all.tryTake(bytes)) return undefined;
		this.#shares?.giveBack(tenant, bytes);
		return ALL_IS_HELD;
	}

	giveBack(tenant: bigint, bytes: number): void {
		this.#all.giveBack(bytes);
		this.#shares?.giveBack(tenant, bytes);
	}
}

const TENANT_HOLDS_ITS_SHARE = OVERLOADED.because('this tenant holds its share of max_buffered_bytes');
const ALL_IS_HELD = OVERLOADED.because('all of max_buffered_bytes is held');

import type { Quota, RequestSlots } from '../gates/quota.ts';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { Rate } from '../gates/tenant-limit.ts';

/** The limits of tenants, as the control plane hands them to the workers. */
export interface QuotaSeed {
	/** `[[tenants]]`; names are unique. */
	readonly tenants: readonly TenantSeed[];
}

/** One `[[tenants]]`. */
export interface TenantSeed {
	/** The value of `x-proxy-tenant`. */
	readonly name: string;
	/** `undefined`: the token's claim, or else the default. `null`: no limit. */
	readonly rate: RateSeed | null | undefined;
	/** Maximum number of requests in flight; `undefined`: no limit. */
	readonly concurrency: number | undefined;
}

export interface RateSeed {
	/** At least 1. */
	readonly rps: number;
	readonly burst: number;
}

/** The claim in which an issuer's tokens carry their tenant's rate. */
export interface RateClaim {
	/** Name of the claim. */
	readonly name: string;
	/** Higher claims are reduced to this. */
	readonly maxRps: number;
}

const BAD_RATE = TOKEN_INVALID.because('bad rate claim');

/**
 * Reads a token's requests per second: a whole number, at least 1. Any other value (zero, a fraction, a string) was meant as a limit
 * that cannot be guessed, and is refused.
 *
 * @returns `undefined` if the token has no such claim.
 */
export function readRateClaim(
	payload: Readonly<Record<string, unknown>>,
	claim: RateClaim | undefined,
): number | undefined | Rejection {
	if (claim === undefined || !Object.hasOwn(payload, claim.name)) return undefined;
	const rps = payload[claim.name];
	return Number.isInteger(rps) && (rps as number) >= 1 ? Math.min(rps as number, claim.maxRps) : BAD_RATE;
}

/**
 * The quotas in force: `[[tenants]]` first, then the token's claim, then the default. Immutable; a reload creates another one.
 * Usage is counted elsewhere, so it survives a reload.
 */
export class Quotas {
	readonly #forAll: Quota;
	readonly #tenants: ReadonlyMap<string, TenantQuota>;

	/**
	 * @param seed `undefined`: no tenant has its own quota.
	 * @param defaultRps requests per second for each tenant; 0: no limit.
	 * @param openSlots finds the slots of a tenant; throws if there is no room for them.
	 */
	constructor(
		seed: QuotaSeed | undefined,
		defaultRps: number,
		openSlots: (tenant: string, limit: number) => RequestSlots,
	) {
		this.#forAll = { rate: defaultRps === 0 ? undefined : new Rate(defaultRps), slots: undefined };
		this.#tenants = new Map(
			(seed?.tenants ?? []).map(({ name, rate, concurrency }) => {
				const slots = concurrency === undefined ? undefined : openSlots(name, concurrency);
				const own = rate === undefined ? undefined : { rate: rate === null ? undefined : rateOf(rate), slots };
				return [name, { own, slots }];
			}),
		);
	}

	/** @param claimedRps from `readRateClaim`. */
	of(tenant: string, claimedRps: number | undefined): Quota {
		const { own, slots } = this.#tenants.get(tenant) ?? NOTHING_SAID;
		if (own !== undefined) return own;
		if (claimedRps !== undefined) return { rate: new Rate(claimedRps), slots };
		return slots === undefined ? this.#forAll : { rate: this.#forAll.rate, slots };
	}

	/** The source of the rate that `of` gives; the two use the same order. */
	sourceOf(tenant: string, claimedRps: number | undefined): RateSource {
		if (this.#tenants.get(tenant)?.own !== undefined) return 'tenants';
		return claimedRps === undefined ? 'default' : 'claim';
	}
}

/** `[[tenants]]`, the token's `rate_claim`, or `tenant_rps`. */
type RateSource = 'tenants' | 'claim' | 'default';

interface TenantQuota {
	/** `undefined`: `[[tenants]]` sets no rate. */
	readonly own: Quota | undefined;
	readonly slots: RequestSlots | undefined;
}

const NOTHING_SAID: TenantQuota = { own: undefined, slots: undefined };

export function rateOf({ rps, burst }: RateSeed): Rate {
	return new Rate(rps, burst);
}

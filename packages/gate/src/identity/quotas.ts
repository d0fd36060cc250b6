import type { Quota, RequestSlots } from '../gates/quota.ts';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { Rate } from '../gates/tenant-limit.ts';

/** How much each tenant may ask for, as the control plane hands it to the workers. */
export interface QuotaSeed {
	/** `[[tenants]]`, no name twice. */
	readonly tenants: readonly TenantSeed[];
}

/** One `[[tenants]]`. */
export interface TenantSeed {
	/** As in `x-proxy-tenant`. */
	readonly name: string;
	/** `undefined`: what the token claims, or what holds for all. `null`: no limit. */
	readonly rate: RateSeed | null | undefined;
	/** Requests under way at once; `undefined`: as many as there are. */
	readonly concurrency: number | undefined;
}

export interface RateSeed {
	/** At least 1. */
	readonly rps: number;
	readonly burst: number;
}

/** Where the tokens of an issuer say how much their tenant may ask for. */
export interface RateClaim {
	/** Name of the claim. */
	readonly name: string;
	/** What says more means this. */
	readonly maxRps: number;
}

const BAD_RATE = TOKEN_INVALID.because('bad rate claim');

/**
 * Reads a token's requests per second: a whole number, at least 1. What is anything else was meant to be a limit, and cannot be
 * guessed: zero, a fraction, a text.
 *
 * @returns `undefined` where the token has no such claim.
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
 * The quotas in force: `[[tenants]]` before the token's claim before what holds for all. Never changed; a reload brings another one.
 * What has been spent and taken is not in here, so it stays.
 */
export class Quotas {
	readonly #forAll: Quota;
	readonly #tenants: ReadonlyMap<string, TenantQuota>;

	/**
	 * @param seed `undefined`: no tenant has its own quota.
	 * @param defaultRps requests per second for each tenant; 0: no limit.
	 * @param openSlots finds the slots of a tenant; throws where there is no room for them.
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

	/** @param claimedRps `readRateClaim`. */
	of(tenant: string, claimedRps: number | undefined): Quota {
		const { own, slots } = this.#tenants.get(tenant) ?? NOTHING_SAID;
		if (own !== undefined) return own;
		if (claimedRps !== undefined) return { rate: new Rate(claimedRps), slots };
		return slots === undefined ? this.#forAll : { rate: this.#forAll.rate, slots };
	}

	/** Who has said how many requests a second `of` gives: in the same order. */
	sourceOf(tenant: string, claimedRps: number | undefined): RateSource {
		if (this.#tenants.get(tenant)?.own !== undefined) return 'tenants';
		return claimedRps === undefined ? 'default' : 'claim';
	}
}

/** `[[tenants]]`, the token's `rate_claim`, or `tenant_rps`. */
export type RateSource = 'tenants' | 'claim' | 'default';

interface TenantQuota {
	/** `undefined`: `[[tenants]]` says nothing of the rate. */
	readonly own: Quota | undefined;
	readonly slots: RequestSlots | undefined;
}

const NOTHING_SAID: TenantQuota = { own: undefined, slots: undefined };

export function rateOf({ rps, burst }: RateSeed): Rate {
	return new Rate(rps, burst);
}

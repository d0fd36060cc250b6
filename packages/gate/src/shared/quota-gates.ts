import type { Quota, RateLimitReason, RequestSlots } from '../gates/quota.ts';
import { isRateLimitField, RateLimitFields, type RatePolicy, TENANT_POLICY } from '../gates/rate-limit-fields.ts';
import { RATE_LIMITED, type Rejection } from '../gates/rejection.ts';
import type { Rate } from '../gates/tenant-limit.ts';
import type { TenantLimiter } from '../memory/limiter.ts';

/**
 * The three limits of a tenant: its rate, its rate on one route, and its concurrency. Each gate counts what it admits. A refusal carries
 * the limit that was exceeded, and the time until a retry can pass. `report` has the limits that were applied before, and exists
 * only if all responses report their limits.
 */

/** The limit of each tenant on one route. */
export interface RouteLimit {
	readonly rate: Rate;
	/** Combined with a tenant's key, this gives the key of its bucket for the route. */
	readonly key: bigint;
	readonly policy: RatePolicy;
}

type Tenant = { readonly tenantKey: bigint; readonly quota: Quota };

/** @param now monotonic milliseconds. */
export function refuseOverTenantRate(
	limiter: TenantLimiter,
	{ tenantKey, quota: { rate } }: Tenant,
	now: number,
	report: RateLimitFields | undefined,
): Rejection | undefined {
	if (rate === undefined) return undefined;
	return count(limiter, tenantKey, now, rate, TENANT_POLICY, report)
		? undefined
		: refusal('tenant', limiter, rate, TENANT_POLICY, report);
}

export function refuseOverRouteRate(
	limiter: TenantLimiter,
	{ tenantKey }: Tenant,
	{ key, rate, policy }: RouteLimit,
	now: number,
	report: RateLimitFields | undefined,
): Rejection | undefined {
	// Both keys are unpredictable hashes: two pairs with one sum are as unlikely as two tenants with one key.
	const both = tenantKey ^ key || 1n;
	return count(limiter, both, now, rate, policy, report) ? undefined : refusal('route', limiter, rate, policy, report);
}

/** Claims a slot. An admitted request must release it exactly once. */
export function refuseOverConcurrency(slots: RequestSlots, report: RateLimitFields | undefined): Rejection | undefined {
	if (slots.tryClaim()) {
		report?.concurrency(slots.limit, Math.max(0, slots.limit - slots.taken));
		return undefined;
	}
	const fields = report ?? new RateLimitFields();
	fields.concurrency(slots.limit, 0);
	// It is unknown when the other requests will end.
	return OVER.concurrency.withHeaders([...fields.fields, 'retry-after', '1']);
}

function count(
	limiter: TenantLimiter,
	key: bigint,
	now: number,
	rate: Rate,
	policy: RatePolicy,
	report: RateLimitFields | undefined,
): boolean {
	if (!limiter.admit(key, now, rate)) return false;
	report?.admitted(policy, rate, limiter.bucket);
	return true;
}

function refusal(
	reason: 'tenant' | 'route',
	{ bucket }: TenantLimiter,
	rate: Rate,
	policy: RatePolicy,
	report: RateLimitFields | undefined,
): Rejection {
	const fields = report ?? new RateLimitFields();
	const wait = fields.refused(policy, rate, bucket);
	return OVER[reason].withHeaders([...fields.fields, 'retry-after', String(wait)]);
}

const OVER: Readonly<Record<RateLimitReason, Rejection>> = {
	tenant: RATE_LIMITED.because("over the tenant's rps"),
	route: RATE_LIMITED.because("over the route's rps"),
	concurrency: RATE_LIMITED.because("over the tenant's concurrency"),
};

/** Which limit a refusal is for. */
export function limitOf({ reason }: Rejection): RateLimitReason {
	if (reason === OVER.route.reason) return 'route';
	return reason === OVER.concurrency.reason ? 'concurrency' : 'tenant';
}

/** Adds the `RateLimit` fields. @param fields names and values in turn; the proxy's own values replace the upstream's. */
export function withReport(fields: string[], report: RateLimitFields | undefined): string[] {
	const own = report?.fields ?? [];
	if (own.length === 0) return fields;
	return [...fields.filter((_, i) => !isRateLimitField(fields[i - (i % 2)]!)), ...own];
}

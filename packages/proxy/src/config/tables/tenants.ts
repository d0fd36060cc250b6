import { MAX_RPS } from '@mtls-edge-proxy/gate/gates/tenant-limit.ts';
import { nonEmpty, optional, table, text, wholeNumber } from './kinds.ts';

/** `conflicts.ts` checks that the rate refills a burst in time. */
const MAX_BURST = MAX_RPS;
/** Half the range of a 32-bit word. */
const MAX_CONCURRENCY = 2 ** 30;

/** A tenant as upstreams see it in `x-proxy-tenant`. */
export const TENANT = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

const burst = optional(
	wholeNumber(1, MAX_BURST, 'that of rps', 'of requests at once'),
	'number of requests allowed at once after a pause; needs `rps`',
	'as many as `rps`',
);

/** Keys of a route: its rate limit for each tenant. */
export const routeRateKeys = {
	rps: optional(
		wholeNumber(0, MAX_RPS, 'no limit', 'of requests per second'),
		'requests per second for each tenant on this route, in addition to the limit of the tenant; 0: no limit',
		'no limit',
	),
	burst,
};

/** Keys of an issuer: the claim with the tenant's rate limit. */
export const rateClaimKeys = {
	rate_claim: optional(
		nonEmpty('the name of a claim', 'set it to the claim with the requests per second, or leave it out for tenant_rps'),
		"claim with the tenant's requests per second: a whole number, at least 1. With any other value the token is refused",
		'none',
	),
	max_rps: optional(
		wholeNumber(1, MAX_RPS, String(MAX_RPS), 'of requests per second'),
		'upper bound of `rate_claim`',
		`\`${MAX_RPS}\``,
	),
};

/** One `[[tenants]]`. */
export const tenant = table('[[tenants]]', {
	name: text("a tenant's name", 'set it to the tenant as upstreams see it in x-proxy-tenant')
		.regex(TENANT, {
			error: () => 'cannot be the name of a tenant: write visible ASCII characters, as in x-proxy-tenant',
		})
		.describe('the tenant as upstreams see it in `x-proxy-tenant`'),
	rps: optional(
		wholeNumber(0, MAX_RPS, 'what the token claims, or tenant_rps', 'of requests per second'),
		'requests per second; 0: no limit',
		"the token's claim, or `tenant_rps`",
	),
	burst,
	concurrency: optional(
		wholeNumber(1, MAX_CONCURRENCY, 'no limit', 'of requests in flight'),
		'requests in flight at once, across all threads',
		'no limit',
	),
}).describe('a tenant with its own limits, one table for each');

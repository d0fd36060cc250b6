import type { IssuerConfig } from './config.ts';

/**
 * Words for a tenant that no token can name, because it has no issuer's prefix: a setting for it has no effect.
 *
 * @param issuers empty: `[jwt]`, whose tenants have no prefix.
 */
export function nobodysTenant(tenant: string, issuers: readonly IssuerConfig[]): string | undefined {
	const prefixes = issuers.map(({ rules }) => rules.tenantPrefix);
	if (prefixes.length === 0 || prefixes.some((prefix) => tenant.startsWith(prefix))) return undefined;
	const shown = prefixes.slice(0, MAX_PREFIXES).map((prefix) => `"${prefix}"`);
	return `is not the name of any issuer's tenant: their names begin with ${shown.join(', ')}; write it with the prefix`;
}

/** As many as fit on one line. */
const MAX_PREFIXES = 5;

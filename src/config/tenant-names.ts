import type { IssuerConfig } from './config.ts';

/**
 * What is to be said of a tenant that no token can name, since it stands behind no issuer's prefix: whatever is written about it
 * holds for nobody.
 *
 * @param issuers none: `[jwt]`, whose tenants have no prefix.
 */
export function nobodysTenant(tenant: string, issuers: readonly IssuerConfig[]): string | undefined {
	const prefixes = issuers.map(({ rules }) => rules.tenantPrefix);
	if (prefixes.length === 0 || prefixes.some((prefix) => tenant.startsWith(prefix))) return undefined;
	const shown = prefixes.slice(0, MAX_PREFIXES).map((prefix) => `"${prefix}"`);
	return `is the name of no issuer's tenant: these begin with ${shown.join(', ')}; write it with the prefix`;
}

/** So many fit in a line. */
const MAX_PREFIXES = 5;

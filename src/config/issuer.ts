import type { RequiredClaim } from '../gates/required-claims.ts';
import { MAX_RPS } from '../gates/tenant-limit.ts';
import type { IssuerRules } from '../identity/issuer.ts';
import type { RateClaim } from '../identity/quotas.ts';
import type { Config, IssuerConfig, IssuerFile, KeySource } from './config.ts';
import type { ConfigFile } from './schema.ts';
import type { TomlTable } from './toml.ts';

type IssuerTable = ConfigFile['issuers'][number];

export function toIssuers(tables: readonly IssuerTable[]): Pick<Config, 'issuers' | 'issuerFiles'> {
	return {
		issuers: tables.map((table, i) => toIssuer(table, i)),
		issuerFiles: tables.flatMap((table, i) => issuerFiles(table, i, () => true)),
	};
}

function toIssuer(table: IssuerTable, i: number): IssuerConfig {
	const rules: IssuerRules = {
		issuer: table.issuer,
		audience: table.audience,
		leewaySeconds: table.leeway_secs,
		tenantClaim: table.tenant_claim,
		requiredClaims: Object.entries(table.required_claims).map(([name, values]): RequiredClaim => ({ name, values })),
		algorithms: table.algorithms,
		tenantPrefix: table.tenant_prefix,
		certificateBound: table.certificate_bound,
		rateClaim: toRateClaim(table),
	};
	return { issuer: table.issuer, rules, keys: toSource(table, i) };
}

/** Of `[jwt]` or of an `[[issuers]]`. */
export function toRateClaim({
	rate_claim,
	max_rps = MAX_RPS,
}: {
	rate_claim?: string | undefined;
	max_rps?: number | undefined;
}): RateClaim | undefined {
	return rate_claim === undefined ? undefined : { name: rate_claim, maxRps: max_rps };
}

function toSource(table: IssuerTable, i: number): KeySource {
	for (const key of ['public_key_path', 'jwks_path'] as const) {
		if (table[key] !== undefined) return { type: 'file', key: `issuers[${i}].${key}` };
	}
	return {
		type: 'network',
		key: `issuers[${i}].${table.jwks_url === undefined ? 'discovery' : 'jwks_url'}`,
		url: table.jwks_url,
		caKey: table.jwks_ca_path === undefined ? undefined : `issuers[${i}].jwks_ca_path`,
		refreshMs: Math.round((table.refresh_secs ?? 300) * 1000),
		maxStaleMs: Math.round((table.max_stale_secs ?? 86_400) * 1000),
	};
}

/**
 * The files that an `[[issuers]]` names, also of one that is wrong elsewhere.
 *
 * @param isRight whether nothing is wrong with the key, by its full name.
 */
export function issuerFiles(table: TomlTable, i: number, isRight: (key: string) => boolean): IssuerFile[] {
	const algorithms = table.algorithms ?? ['RS256'];
	if (!Array.isArray(algorithms) || !isRight(`issuers[${i}].algorithms`)) return [];
	return (['public_key_path', 'jwks_path', 'jwks_ca_path'] as const).flatMap((name) => {
		const path = table[name];
		const key = `issuers[${i}].${name}`;
		if (typeof path !== 'string' || !isRight(key)) return [];
		return [{ key, path, content: CONTENTS[name], algorithms }];
	});
}

const CONTENTS = { public_key_path: 'key', jwks_path: 'keys', jwks_ca_path: 'authorities' } as const;

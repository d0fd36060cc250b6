import { SCOPE_TOKEN } from '@mtls-edge-proxy/gate/gates/scopes.ts';
import { z } from 'zod';
import { MAX_TENANTS } from '../../gates/breaker.ts';
import { XFCC_MEMBERS } from '../../identity/forwarded-client-cert.ts';
import { parseNamePattern } from '../../identity/name-pattern.ts';
import { show } from '../wording.ts';
import { routeBreakerKeys } from './breaker.ts';
import { alternatives, checked, either, expected, oneOf, oneOfOr, optional, text } from './kinds.ts';
import { TENANT } from './tenants.ts';

/** Keys of a route: its callers, and the header fields that describe the client's certificate to the upstream. */
export const routeCallerKeys = {
	allow: optional(
		someOf(namePattern(), 'names of client certificates', 'every certificate that "deny" does not name'),
		'names of client certificates that may use the route: `"spiffe://example.org/ns/pay/*"` (URI SAN), `"dns:*.billing.internal"` (DNS SAN), `"cn:legacy-client"`. `*` is one whole segment or label',
		'all',
	),
	deny: optional(
		someOf(namePattern(), 'names of client certificates', 'none'),
		'names of client certificates that may not use the route, even if `allow` lists them',
		'none',
	),
	/** A number is the breaker's setting, as before lists existed. */
	tenants: optional(
		countOrNames(),
		'a list: tenants that may use the route, exactly as in `x-proxy-tenant`. A number: as in `[breaker]`',
		'all',
	),
	scopes: optional(
		someOf(scope(), 'scopes', 'tokens of any scope'),
		'scopes that the token must have, all of them, in `scope` or `scp`',
		'none',
	),
	client_cert: oneOfOr(['none', 'leaf', 'chain'], 'none').describe(
		'`"leaf"` sends the client\'s certificate to the upstream in `Client-Cert` (RFC 9440). `"chain"` also sends the rest of its chain, in `Client-Cert-Chain`',
	),
	xfcc: optional(
		z.array(oneOf(XFCC_MEMBERS, 'only By and Hash'), {
			error: expected(`a list of ${alternatives(XFCC_MEMBERS)}`, 'leave it out for no x-forwarded-client-cert'),
		}),
		'`x-forwarded-client-cert` as Envoy writes it: always with By and Hash, plus the members listed here',
		'no such header',
	),
};

/** Refuses an empty list: readers could take it for none or for all. */
function someOf<Item extends z.ZodType>(item: Item, what: string, unset: string) {
	const remedy = `leave it out for ${unset}`;
	return z
		.array(item, { error: expected(`a list of ${what}`, remedy) })
		.min(1, { error: `is an empty list; ${remedy}` });
}

function namePattern() {
	const type = text('"spiffe://…", "dns:…" or "cn:…"', 'write each name as a string');
	return checked(type, '^(?:spiffe://|dns:|cn:)', (pattern) => {
		const parsed = parseNamePattern(pattern);
		return 'wanted' in parsed ? `must be ${parsed.wanted} (got ${show(pattern)}); ${parsed.remedy}` : undefined;
	});
}

function countOrNames() {
	const name = text(
		'a tenant as in x-proxy-tenant, visible ASCII without leading or trailing spaces',
		'write each tenant as a string',
		TENANT,
	);
	const names = someOf(name, 'tenants', 'all of them');
	const choose = (value: unknown): z.ZodType<string[] | number | undefined> =>
		typeof value === 'number' ? routeBreakerKeys.tenants : names;
	const number = { type: 'integer', minimum: 1, maximum: MAX_TENANTS };
	const list = { type: 'array', minItems: 1, items: { type: 'string', pattern: TENANT.source } };
	return either(choose, { anyOf: [number, list] });
}

function scope() {
	const wanted = 'a scope (RFC 6749 section 3.3): visible ASCII without spaces, quotes and backslashes';
	return text(wanted, 'write each scope as its own string', SCOPE_TOKEN);
}

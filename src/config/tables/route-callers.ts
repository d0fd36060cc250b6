import { z } from 'zod';
import { MAX_TENANTS } from '../../gates/breaker.ts';
import { SCOPE_TOKEN } from '../../gates/scopes.ts';
import { XFCC_MEMBERS } from '../../identity/forwarded-client-cert.ts';
import { parseNamePattern } from '../../identity/name-pattern.ts';
import { show } from '../wording.ts';
import { routeBreakerKeys } from './breaker.ts';
import { alternatives, expected, explained, oneOf, text } from './kinds.ts';
import { TENANT } from './tenants.ts';

/** Of a route: who may use it, and what its upstream is told of the client's certificate. */
export const routeCallerKeys = {
	allow: someOf(namePattern(), 'names of client certificates', 'every certificate that "deny" does not name')
		.optional()
		.meta(
			explained(
				'names of client certificates that may use the route: `"spiffe://example.org/ns/pay/*"` (URI SAN), `"dns:*.billing.internal"` (DNS SAN), `"cn:legacy-client"`; `*` stands for one whole segment or label',
				{ unset: 'all' },
			),
		),
	deny: someOf(namePattern(), 'names of client certificates', 'none')
		.optional()
		.meta(explained('names that may not, even if `allow` names them', { unset: 'none' })),
	/** As a number it is the breaker's, as it was before there were lists. */
	tenants: countOrNames()
		.optional()
		.meta(
			explained(
				"a list: tenants that may use the route, exactly as in `x-proxy-tenant`. A number is the breaker's, as in `[breaker]`; a route with a list has that of `[breaker]`",
				{ unset: 'all' },
			),
		),
	scopes: someOf(scope(), 'scopes', 'tokens of any scope')
		.optional()
		.meta(explained('scopes that a token needs, all of them, in `scope` or `scp`', { unset: 'none' })),
	client_cert: oneOf(['none', 'leaf', 'chain'], '"none"')
		.default('none')
		.describe(
			'`"leaf"` tells the upstream the client\'s certificate in `Client-Cert` (RFC 9440), `"chain"` also what was sent behind it, in `Client-Cert-Chain`',
		),
	xfcc: z
		.array(oneOf(XFCC_MEMBERS, 'By and Hash alone'), {
			error: expected(`a list of ${alternatives(XFCC_MEMBERS)}`, 'leave it out for no x-forwarded-client-cert'),
		})
		.optional()
		.meta(
			explained(
				'`x-forwarded-client-cert` as Envoy writes it: By and Hash always, and of `"cert"`, `"chain"`, `"subject"`, `"uri"`, `"dns"` those named',
				{ unset: 'no such header' },
			),
		),
};

/** An empty list may mean none or all, depending on who reads it. */
function someOf<Item extends z.ZodType>(item: Item, what: string, unset: string) {
	const remedy = `leave it out for ${unset}`;
	return z
		.array(item, { error: expected(`a list of ${what}`, remedy) })
		.min(1, { error: `is an empty list; ${remedy}` });
}

function namePattern() {
	const kinds = '"spiffe://…", "dns:…" or "cn:…"';
	return text(kinds, 'write each name as a text')
		.superRefine((pattern, context) => {
			const parsed = parseNamePattern(pattern);
			if (!('wanted' in parsed)) return;
			context.addIssue(`must be ${parsed.wanted} (got ${show(pattern)}); ${parsed.remedy}`);
		})
		.meta({ pattern: '^(?:spiffe://|dns:|cn:)' });
}

function countOrNames() {
	const error = expected(
		'a tenant as in x-proxy-tenant, visible ASCII without a blank at an end',
		'write each tenant as a text',
	);
	const name = z.string({ error }).regex(TENANT, { error });
	const names = someOf(name, 'tenants', 'all of them');
	const count = routeBreakerKeys.tenants;
	const either = z.unknown().transform((value, context): string[] | number | undefined => {
		const result = (typeof value === 'number' ? count : names).safeParse(value, { reportInput: true });
		if (result.success) return result.data;
		for (const { path, message } of result.error.issues) {
			context.issues.push({ code: 'custom', path: [...path], message, input: value });
		}
		return z.NEVER;
	});
	// Of a transformation zod's JSON Schema knows nothing.
	const number = { type: 'integer', minimum: 1, maximum: MAX_TENANTS };
	const list = { type: 'array', minItems: 1, items: { type: 'string', pattern: TENANT.source } };
	return either.meta({ anyOf: [number, list] });
}

function scope() {
	const wanted = 'a scope (RFC 6749 section 3.3): visible ASCII without blanks, quotes and backslashes';
	const remedy = 'write each scope as a text of its own';
	return text(wanted, remedy).regex(SCOPE_TOKEN, { error: expected(wanted, remedy) });
}

import { z } from 'zod';
import { SCOPE_TOKEN } from '../../gates/scopes.ts';
import { XFCC_MEMBERS } from '../../identity/forwarded-client-cert.ts';
import { parseNamePattern } from '../../identity/name-pattern.ts';
import { show } from '../wording.ts';
import { routeBreakerKeys } from './breaker.ts';
import { expected, text } from './kinds.ts';

/** Of a route: who may use it, and what its upstream is told of the client's certificate. */
export const routeCallerKeys = {
	allow: someOf(
		namePattern(),
		'names of client certificates',
		'every certificate that "deny" does not name',
	).optional(),
	deny: someOf(namePattern(), 'names of client certificates', 'none').optional(),
	/** As a number it is the breaker's, as it was before there were lists. */
	tenants: countOrNames().optional(),
	scopes: someOf(scope(), 'scopes', 'tokens of any scope').optional(),
	client_cert: oneOf(['none', 'leaf', 'chain'], '"none"').default('none'),
	xfcc: z
		.array(oneOf(XFCC_MEMBERS, 'By and Hash alone'), {
			error: expected(`a list of ${alternatives(XFCC_MEMBERS)}`, 'leave it out for no x-forwarded-client-cert'),
		})
		.optional(),
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
	return text(kinds, 'write each name as a text').superRefine((pattern, context) => {
		const parsed = parseNamePattern(pattern);
		if (!('wanted' in parsed)) return;
		context.addIssue(`must be ${parsed.wanted} (got ${show(pattern)}); ${parsed.remedy}`);
	});
}

function countOrNames() {
	const error = expected(
		'a tenant as in x-proxy-tenant, visible ASCII without a blank at an end',
		'write each tenant as a text',
	);
	const name = z.string({ error }).regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, { error });
	const names = someOf(name, 'tenants', 'all of them');
	const count = routeBreakerKeys.tenants;
	return z.unknown().transform((value, context): string[] | number | undefined => {
		const result = (typeof value === 'number' ? count : names).safeParse(value, { reportInput: true });
		if (result.success) return result.data;
		for (const { path, message } of result.error.issues) {
			context.issues.push({ code: 'custom', path: [...path], message, input: value });
		}
		return z.NEVER;
	});
}

function scope() {
	const wanted = 'a scope (RFC 6749 section 3.3): visible ASCII without blanks, quotes and backslashes';
	const remedy = 'write each scope as a text of its own';
	return text(wanted, remedy).regex(SCOPE_TOKEN, { error: expected(wanted, remedy) });
}

function oneOf<const Values extends readonly [string, ...string[]]>(values: Values, unset: string) {
	return z.enum(values, { error: expected(alternatives(values), `leave it out for ${unset}`) });
}

function alternatives(values: readonly string[]): string {
	const quoted = values.map((value) => `"${value}"`);
	return `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

import { ALGORITHMS } from '@mtls-edge-proxy/gate/gates/algorithm.ts';
import type { RequiredClaim } from '@mtls-edge-proxy/gate/gates/required-claims.ts';
import { parseJwksUrl } from '@mtls-edge-proxy/gate/jwks/jwks-url.ts';
import { z } from 'zod';
import { show } from '../wording.ts';
import { certificateBound } from './jwt.ts';
import {
	claim,
	expected,
	file,
	flag,
	fromZeroTo,
	nonEmpty,
	oneOrSeveral,
	optional,
	secondsOr,
	table,
	text,
	url,
} from './kinds.ts';
import { rateClaimKeys } from './tenants.ts';

/** A longer leeway would extend the lifetime of tokens rather than allow for clock skew. */
const MAX_LEEWAY_SECONDS = 600;
const MAX_PREFIX_LENGTH = 64;
const MAX_LIST = 16;
const ONE_SOURCE = 'another source of keys';

/** One `[[issuers]]`. `conflicts.ts` judges its keys together. */
export const issuer = table('[[issuers]]', {
	issuer: nonEmpty('the "iss" of its tokens', 'set it to the issuer, for example "https://issuer.example"').describe(
		'`iss` of its tokens. The proxy uses it to choose the issuer, before it chooses a key',
	),
	audience: optional(
		someTexts(claim('aud', 'tokens that have no "aud"'), 'the "aud" that tokens must carry, or a list of alternatives'),
		'the `aud` that every token must have, or a list: a token needs one of its values. Set this key',
		'tokens with any `aud` are refused',
	),
	algorithms: z
		.array(algorithm(), { error: expected('a list of algorithms', 'leave it out for ["RS256"]') })
		.min(1, { error: () => 'must name an algorithm; leave it out for ["RS256"]' })
		.default(['RS256'])
		.describe('signature algorithms that its tokens may use; EdDSA is Ed25519'),
	leeway_secs: fromZeroTo(MAX_LEEWAY_SECONDS, 60, 'seconds').describe('tolerance for `exp` and `nbf`'),
	public_key_path: optional(
		file('the public key that tokens are verified with, PEM'),
		'a PEM public key. Each issuer needs one source of keys: this, `jwks_path`, `jwks_url` or `discovery = true`',
		ONE_SOURCE,
	),
	jwks_path: optional(
		file(
			'the keys that tokens are verified with, a JWK Set or one PEM public key',
			'use jwks_url instead for keys over the network',
		),
		'a JWK Set, or one PEM public key',
		ONE_SOURCE,
	),
	jwks_url: optional(
		url('an https:// address', 'set it to the URL of the JWK Set of the issuer', parseJwksUrl),
		'URL of its JWK Set: `https://`, or `http://` to 127.0.0.1 or [::1]',
		ONE_SOURCE,
	),
	discovery: optional(
		flag('another source of keys'),
		"`true`: find the JWK Set in the issuer's metadata (RFC 8414, OpenID Connect)",
		ONE_SOURCE,
	),
	jwks_ca_path: optional(
		file('the CAs that the certificate of the issuer must chain to, PEM'),
		"CAs for the issuer's server, PEM, instead of the default ones",
		"Node's CAs",
	),
	refresh_secs: optional(
		secondsOr('300'),
		'time between two fetches. A `max-age` in the response overrides it, within the range of 10 s to an hour, and never above half of `max_stale_secs`',
		'`300`',
	),
	max_stale_secs: optional(
		secondsOr('86400, a day'),
		"maximum age of the keys if fetches fail. After that the proxy refuses the issuer's tokens. At least `refresh_secs`; `proxy check` warns if a single failed fetch could leave the proxy without keys",
		'`86400`',
	),
	tenant_prefix: prefix().describe(
		'prefix of its tenants in `x-proxy-tenant`, limits and logs. With several issuers each needs one, and no prefix may begin with another. A new prefix renames the tenants, so set it from the start',
	),
	tenant_claim: someTexts(
		nonEmpty('the name of a claim', 'leave it out for "sub"'),
		'the name of a claim, or the path of names to it',
	)
		.default(['sub'])
		.meta({
			description:
				'claim that contains the tenant: its name, or the path to a nested claim as a list of names, such as `["org", "id"]`',
			unset: '`"sub"`',
		}),
	required_claims: requiredClaims().meta({
		description:
			'claims that a token needs: `["email"]`, or `{ org = "acme", env = ["prod", "test"] }` with the allowed values',
		unset: 'none',
	}),
	certificate_bound: certificateBound(),
	...rateClaimKeys,
}).describe('an issuer of tokens, one table for each. These tables replace `[jwt]`');

function algorithm() {
	const error = ({ input }: { readonly input?: unknown }) =>
		`must be one of ${ALGORITHMS.join(', ')} (got ${show(input)}); ${
			typeof input === 'string' && /^HS|^none$/i.test(input)
				? 'anyone could sign such a token'
				: 'leave it out for RS256'
		}`;
	return z.enum(ALGORITHMS, { error });
}

/** The prefix precedes the tenant in a header, which would lose leading blanks. */
function prefix() {
	const wanted = `up to ${MAX_PREFIX_LENGTH} visible characters of ASCII`;
	const remedy = 'leave it out if there is only one issuer, or write for example "acme:"';
	return text(wanted, remedy, new RegExp(`^[\\x21-\\x7e]{0,${MAX_PREFIX_LENGTH}}$`)).default('');
}

function someTexts(one: z.ZodString, wanted: string) {
	const list = z.array(one, { error: expected(wanted, 'write it as "name" or ["name", ...]') });
	return oneOrSeveral(
		list
			.min(1, { error: () => 'is an empty list; leave it out, or name one' })
			.max(MAX_LIST, { error: () => `is a list of more than ${MAX_LIST}` }),
	);
}

/** `["email"]`, or `{ org = "acme", env = ["prod", "test"] }`. */
function requiredClaims() {
	const remedy = 'write the names as ["name"], or names and values as { name = "value" }';
	const error = expected('a list of names, or a table of names and the values they must have', remedy);
	const value = z.union([z.string(), z.number(), z.boolean()], {
		error: expected('a string, a number, true, false, or a list of these', remedy),
	});
	return z
		.preprocess(
			(claims) => (isListOfNames(claims) ? Object.fromEntries(claims.map((name) => [name, undefined])) : claims),
			z.record(
				z.string().min(1),
				z
					.preprocess(
						(one) => (Array.isArray(one) || one === undefined ? one : [one]),
						z
							.array(value)
							.min(1, { error: `is an empty list; ${remedy}` })
							.optional(),
					)
					.meta({ or: 'one' }),
				{ error },
			),
		)
		.meta({ or: { type: 'array', items: { type: 'string', minLength: 1 } } })
		.default({})
		.transform((claims) => Object.entries(claims).map(([name, values]): RequiredClaim => ({ name, values })));
}

function isListOfNames(claims: unknown): claims is string[] {
	return Array.isArray(claims) && claims.every((name) => typeof name === 'string');
}

import { readScopes } from '../gates/scopes.ts';
import type { Identity } from '../gates/token-cache.ts';

/** What a verified token says: its whole payload, in which these members are known to be of these types. */
export interface Claims {
	/** The tenant, unless another claim names it: 1 to 256 visible ASCII characters. The empty string where the token has none. */
	readonly sub: string;
	/** The empty string where the token has no `scope`, or one that is no string. */
	readonly scope: string;
	/** Expiry, seconds since the epoch. */
	readonly exp: number;
	/** Everything else, as signed: check its type before you rely on it. */
	readonly [claim: string]: unknown;
}

/**
 * The claims as handlers get them, frozen throughout: every request with the same token is given the same object.
 *
 * @internal
 */
export function claimsOf(identity: Identity): Claims {
	const { payload, sub, scope, exp, scopes } = identity.claims;
	const claims = freeze({ ...payload, sub, scope, exp });
	SCOPES.set(claims, scopes);
	return claims;
}

/** By the claims that a gate has given out. */
const SCOPES = new WeakMap<Claims, ReadonlySet<string>>();

/**
 * The scopes of a token, as its gate has read them. Claims that a wrapper of a gate has made have those of `scope`.
 *
 * @internal
 */
export function scopesOf(claims: Claims): ReadonlySet<string> {
	return SCOPES.get(claims) ?? readScopes({ scope: claims.scope });
}

function freeze<T extends object>(value: T): T {
	for (const member of Object.values(value)) if (typeof member === 'object' && member !== null) freeze(member);
	return Object.freeze(value);
}

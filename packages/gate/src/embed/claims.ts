import { readScopes } from '../gates/scopes.ts';
import type { Principal } from '../gates/token-cache.ts';

/** The payload of a verified token. The named members are checked to have these types. */
export interface Claims {
	/** The tenant, unless another claim names it: 1 to 256 visible ASCII characters. Empty if the token has no `sub`. */
	readonly sub: string;
	/** Empty if the token has no `scope`, or its `scope` is not a string. */
	readonly scope: string;
	/** Expiry, seconds since the epoch. */
	readonly exp: number;
	/** Every other claim, as signed. Check its type before you rely on it. */
	readonly [claim: string]: unknown;
}

/**
 * The claims as handlers get them. Deeply frozen, because all requests with the same token share one object.
 *
 * @internal
 */
export function claimsOf(principal: Principal): Claims {
	const { payload, sub, scope, exp, scopes } = principal.claims;
	const claims = freeze({ ...payload, sub, scope, exp });
	SCOPES.set(claims, scopes);
	return claims;
}

/** The key is a claims object that a gate has returned. */
const SCOPES = new WeakMap<Claims, ReadonlySet<string>>();

/**
 * The scopes of a token, as its gate has read them. For claims that a wrapper of a gate has made, they are read from `scope`.
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

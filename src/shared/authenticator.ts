import { bearerToken } from '../gates/bearer.ts';
import { type TokenPolicy, verifyToken } from '../gates/jwt.ts';
import { Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { CACHE_CAPACITY, type Identity, TokenCache, usableUntil } from '../gates/token-cache.ts';

const NO_TIME = TOKEN_INVALID.because('the clock gives no finite number');

/**
 * From an `Authorization` header to an identity (specification 5): bearer syntax, then the cache, then the signature and
 * the claims. The proxy and the embedded gate both go through here.
 */
export class Authenticator {
	readonly #policy: TokenPolicy;
	readonly #keys: TenantKeys | undefined;
	readonly #cache: TokenCache;

	/** @param keys gives each identity its tenant's key, so that it is worked out once a token; `undefined`: nobody needs it. */
	constructor(policy: TokenPolicy, keys: TenantKeys | undefined, capacity: number = CACHE_CAPACITY) {
		this.#policy = policy;
		this.#keys = keys;
		this.#cache = new TokenCache(capacity);
	}

	/**
	 * @param authorization `undefined`: no such header; `null`: more than one.
	 * @param wallSeconds seconds since the epoch; without a finite number every token is refused.
	 */
	authenticate(authorization: string | null | undefined, wallSeconds: number): Identity | Rejection {
		// The whole value first: a connection whose requests bring the same bytes hands on the same string, whose hash is known,
		// and nothing has to be cut out of it. Every comparison with NaN is false, so without a time nothing is found.
		const remembered = typeof authorization === 'string' ? this.#cache.find(authorization, wallSeconds) : undefined;
		if (remembered !== undefined) return remembered;
		const token = bearerToken(authorization);
		if (token instanceof Rejection) return token;
		// No token would ever have expired.
		if (!Number.isFinite(wallSeconds)) return NO_TIME;
		// One spelling of the scheme for the table, so that each token has one entry.
		const key = `Bearer ${token}`;
		const known = key === authorization ? undefined : this.#cache.find(key, wallSeconds);
		if (known !== undefined) return known;
		const claims = verifyToken(token, this.#policy, wallSeconds);
		if (claims instanceof Rejection) return claims;
		const identity: Identity = {
			claims,
			tenantHeader: `x-proxy-tenant: ${claims.sub}\r\n`,
			tenantKey: this.#keys?.keyOf(claims.sub) ?? 0n,
			usableUntil: usableUntil(claims, wallSeconds),
		};
		this.#cache.add(key, identity);
		return identity;
	}
}

/** Keys of tenants in memory that threads share (`tenantKey`). */
export interface TenantKeys {
	keyOf(sub: string): bigint;
}

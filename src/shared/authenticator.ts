import { bearerToken } from '../gates/bearer.ts';
import { type TokenPolicy, verifyToken } from '../gates/jwt.ts';
import { Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { CACHE_CAPACITY, type Identity, TokenCache, usableUntil } from '../gates/token-cache.ts';
import type { TenantLimiter } from './limiter.ts';

const NO_TIME = TOKEN_INVALID.because('the clock gives no finite number');

/**
 * From an `Authorization` header to an identity (specification 5): bearer syntax, then the cache, then the signature and
 * the claims. The proxy and the embedded gate both go through here.
 */
export class Authenticator {
	readonly #policy: TokenPolicy;
	readonly #limiter: TenantLimiter | undefined;
	readonly #cache: TokenCache;

	/** @param limiter whose key goes into each identity, so that it is worked out once a token; `undefined`: no limit. */
	constructor(policy: TokenPolicy, limiter: TenantLimiter | undefined, capacity: number = CACHE_CAPACITY) {
		this.#policy = policy;
		this.#limiter = limiter;
		this.#cache = new TokenCache(capacity);
	}

	/**
	 * @param authorization `undefined`: no such header; `null`: more than one.
	 * @param wallSeconds seconds since the epoch; without a finite number every token is refused.
	 */
	authenticate(authorization: string | null | undefined, wallSeconds: number): Identity | Rejection {
		const token = bearerToken(authorization);
		if (token instanceof Rejection) return token;
		// Every comparison with NaN is false, and no token would ever have expired.
		if (!Number.isFinite(wallSeconds)) return NO_TIME;
		const known = this.#cache.find(token, wallSeconds);
		if (known !== undefined) return known;
		const claims = verifyToken(token, this.#policy, wallSeconds);
		if (claims instanceof Rejection) return claims;
		const identity: Identity = {
			claims,
			tenantHeader: `x-proxy-tenant: ${claims.sub}\r\n`,
			limiterKey: this.#limiter?.keyOf(claims.sub) ?? 0n,
			usableUntil: usableUntil(claims, wallSeconds),
		};
		this.#cache.add(token, identity);
		return identity;
	}
}

import { bearerToken } from '../gates/bearer.ts';
import { type Quota, UNLIMITED } from '../gates/quota.ts';
import { Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { CACHE_CAPACITY, type Principal, TokenCache, usableUntil, type VerifiedToken } from '../gates/token-cache.ts';
import type { Quotas } from '../identity/quotas.ts';
import type { RevokedTokens } from '../identity/revocations.ts';
import type { Trust } from '../identity/trust.ts';

const NO_TIME = TOKEN_INVALID.because('the clock gives no finite number');

/**
 * From an `Authorization` header to a principal: bearer syntax, then the cache, then the signature and
 * the claims. The proxy and the embedded gate both go through here.
 */
export class Authenticator {
	#trust: Trust;
	readonly #keys: TenantKeys | undefined;
	#quotas: Quotas | undefined;
	readonly #cache: TokenCache;
	readonly #lookups: CacheLookups | undefined;
	/** `undefined`: nothing is revoked by hand. */
	#revoked: RevokedTokens | undefined;

	/**
	 * @param keys gives each principal its tenant's key, so that it is computed once per token; `undefined`: not needed.
	 * @param quotas gives each principal its tenant's quota; `undefined`: no tenant has a limit.
	 * @param lookups counts hits and misses of remembered verdicts.
	 */
	constructor(
		trust: Trust,
		keys: TenantKeys | undefined,
		quotas?: Quotas,
		capacity: number = CACHE_CAPACITY,
		lookups?: CacheLookups,
	) {
		this.#trust = trust;
		this.#keys = keys;
		this.#quotas = quotas;
		this.#cache = new TokenCache(capacity);
		this.#lookups = lookups;
	}

	/** Judges tokens by these from now on, and forgets remembered verdicts that no longer hold. */
	use(trust: Trust, quotas?: Quotas): void {
		this.#trust = trust;
		this.#quotas = quotas;
		this.#cache.keepOnly((principal) => {
			principal.quota = this.#quotaOf(principal);
			return trust.stillVerifies(principal);
		});
	}

	/** Refuses these tokens from now on, and forgets remembered verdicts on them. */
	refuseRevoked(revoked: RevokedTokens): void {
		this.#revoked = revoked;
		this.#cache.keepOnly((principal) => revoked.refuse(principal) === undefined);
	}

	/** Whether a principal that was valid before has been revoked. */
	isRevoked(principal: Principal): boolean {
		return this.#revoked?.refuse(principal) !== undefined;
	}

	/**
	 * @param authorization `undefined`: no such header; `null`: more than one.
	 * @param wallSeconds seconds since the epoch; without a finite number every token is refused.
	 */
	authenticate(authorization: string | null | undefined, wallSeconds: number): Principal | Rejection {
		// The whole value is looked up first, which needs no slicing. Without a valid time, expiry cannot be judged.
		const hasTime = Number.isFinite(wallSeconds);
		if (hasTime && typeof authorization === 'string') {
			const remembered = this.#cache.find(authorization, wallSeconds);
			if (remembered !== undefined) {
				this.#lookups?.count('tokenCache', 'hit');
				return remembered;
			}
		}
		const token = bearerToken(authorization);
		if (token instanceof Rejection) return token;
		if (!hasTime) return NO_TIME;
		// The cache uses one spelling of the scheme, so that each token has one entry.
		const key = `Bearer ${token}`;
		const known = key === authorization ? undefined : this.#cache.find(key, wallSeconds);
		if (known !== undefined) {
			this.#lookups?.count('tokenCache', 'hit');
			return known;
		}
		this.#lookups?.count('tokenCache', 'miss');
		const verified = this.#trust.verify(token, wallSeconds);
		if (verified instanceof Rejection) return verified;
		const revoked = this.#revoked?.refuse(verified);
		if (revoked) return revoked;
		const principal: Principal = {
			...verified,
			tenantHeader: `x-proxy-tenant: ${verified.tenant}\r\n`,
			tenantKey: this.#keys?.keyOf(verified.tenant) ?? 0n,
			quota: this.#quotaOf(verified),
			usableUntil: usableUntil(verified.claims, wallSeconds, verified.leewaySeconds),
		};
		// A copy: the token may be a slice of a whole header block, which it would keep alive.
		this.#cache.add(Buffer.from(key, 'latin1').toString('latin1'), principal);
		return principal;
	}

	#quotaOf({ tenant, claimedRps }: VerifiedToken): Quota {
		return this.#quotas?.of(tenant, claimedRps) ?? UNLIMITED;
	}
}

/** Keys of tenants in memory that threads share (`tenantKey`). */
interface TenantKeys {
	keyOf(tenant: string): bigint;
}

/** A token that fails verification is a miss as well. */
interface CacheLookups {
	count(name: 'tokenCache', result: 'hit' | 'miss'): void;
}

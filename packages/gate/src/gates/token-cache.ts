import { type Claims, LEEWAY_SECONDS } from './jwt.ts';
import type { Quota } from './quota.ts';

/** The result of verifying a token. */
export interface VerifiedToken {
	readonly claims: Claims;
	/** The caller's tenant, for the upstream, the limits and the logs: `sub` by default. */
	readonly tenant: string;
	/** Leeway for `exp`. */
	readonly leewaySeconds: number;
	/** Identifies the rules, the key and the algorithm that verified it. With the same three, it would be verified again. */
	readonly vouchedBy: string;
	/** SHA-256 of the only client certificate that it may be used with (RFC 8705), 32 bytes; `undefined`: any. */
	readonly confirmation: Buffer | undefined;
	/** Requests per second that it claims for its tenant; `undefined` without such a claim, or without `rate_claim`. */
	readonly claimedRps?: number | undefined;
}

/** A verified token with the values that are computed once per token instead of once per request. */
export interface Principal extends VerifiedToken {
	/** The header line that names the tenant to the upstream, ready to write. */
	readonly tenantHeader: string;
	/** Identifies the tenant's bucket in the limiter, and its share of the memory for bodies. */
	readonly tenantKey: bigint;
	/** The limits of its tenant with this token. Replaced when the quotas change. */
	quota: Quota;
	/** Seconds since the epoch from which the verdict may no longer be used. */
	readonly usableUntil: number;
}

/** Maximum number of entries, and their lifetime in seconds. */
export const CACHE_CAPACITY = 10_000;
const CACHE_SECONDS = 300;

/** When a verdict reached now expires: after five minutes, or when the token's own leeway ends before that. */
export function usableUntil(
	{ exp }: Pick<Claims, 'exp'>,
	nowSeconds: number,
	leewaySeconds: number = LEEWAY_SECONDS,
): number {
	return Math.min(nowSeconds + CACHE_SECONDS, exp + leewaySeconds);
}

/**
 * Verdicts by the exact token (as `Bearer <token>`). Only successes are kept, because anybody could fill a table of refusals. A full
 * table drops the oldest entry; its token is then verified again.
 *
 * The key is 30 bits of the token's last characters. They belong to the signature, so tokens rarely share them, and a lookup builds
 * and hashes no string. The whole token is then compared. Tokens that share a key replace each other.
 */
export class TokenCache {
	readonly #entries = new Map<number, Entry>();
	readonly #capacity: number;
	/** Ends of the list of all entries. A `Map` has their order as well, but to find its first entry it steps over all that were dropped. */
	#oldest: Entry | undefined;
	#newest: Entry | undefined;

	constructor(capacity: number = CACHE_CAPACITY) {
		this.#capacity = capacity;
	}

	get size(): number {
		return this.#entries.size;
	}

	/** @param nowSeconds wall-clock time, seconds since the epoch. */
	find(token: string, nowSeconds: number): Principal | undefined {
		const entry = this.#entries.get(endOf(token));
		if (entry === undefined || entry.token !== token) return undefined;
		if (nowSeconds < entry.principal.usableUntil) return entry.principal;
		this.#drop(entry);
		return undefined;
	}

	/** Removes all verdicts that no longer hold. */
	keepOnly(holds: (principal: Principal) => boolean): void {
		for (const entry of this.#entries.values()) if (!holds(entry.principal)) this.#drop(entry);
	}

	add(token: string, principal: Principal): void {
		const end = endOf(token);
		const replaced = this.#entries.get(end) ?? (this.size >= this.#capacity ? this.#oldest : undefined);
		if (replaced !== undefined) this.#drop(replaced);
		const entry: Entry = { end, token, principal, older: this.#newest, newer: undefined };
		if (this.#newest === undefined) this.#oldest = entry;
		else this.#newest.newer = entry;
		this.#newest = entry;
		this.#entries.set(end, entry);
	}

	#drop({ end, older, newer }: Entry): void {
		if (older === undefined) this.#oldest = newer;
		else older.newer = newer;
		if (newer === undefined) this.#newest = older;
		else newer.older = older;
		this.#entries.delete(end);
	}
}

interface Entry {
	/** See `endOf`. */
	readonly end: number;
	readonly token: string;
	readonly principal: Principal;
	older: Entry | undefined;
	newer: Entry | undefined;
}

/** Characters of base64url: six bits each. */
const END_LENGTH = 6;

function endOf(token: string): number {
	const { length } = token;
	let end = 0;
	for (let i = Math.max(0, length - END_LENGTH); i < length; i++) end = Math.imul(end, 67) + token.charCodeAt(i);
	return end & 0x3fff_ffff;
}

import { type Claims, LEEWAY_SECONDS } from './jwt.ts';
import type { Quota } from './quota.ts';

/** What the verification of a token has shown. */
export interface VerifiedToken {
	readonly claims: Claims;
	/** Who is calling, for the upstream, the limits and the logs: `sub`, unless the configuration says otherwise. */
	readonly tenant: string;
	/** By so much `exp` may be missed. */
	readonly leewaySeconds: number;
	/** Names the rules, the key and the algorithm by which it was verified: who has the same would verify it, too. */
	readonly vouchedBy: string;
	/** SHA-256 of the one client certificate that it may be used with (RFC 8705), 32 bytes; `undefined`: with any. */
	readonly confirmation: Buffer | undefined;
	/** Requests per second that it claims for its tenant; `undefined` without such a claim, or without `rate_claim`. */
	readonly claimedRps?: number | undefined;
}

/** A verified token with all that is worth working out once for it rather than once for each request. */
export interface Identity extends VerifiedToken {
	/** The header line that tells the upstream who is calling, ready to write. */
	readonly tenantHeader: string;
	/** Under which the tenant is counted: its bucket in the limiter, its share of the memory for bodies. */
	readonly tenantKey: bigint;
	/** What its tenant may ask for with this token. Exchanged when the quotas are. */
	quota: Quota;
	/** Seconds since the epoch from which the verdict may no longer be used. */
	readonly usableUntil: number;
}

/** Entries kept, and seconds each is kept. */
export const CACHE_CAPACITY = 10_000;
export const CACHE_SECONDS = 300;

/** When a verdict reached now stops being usable: after five minutes, or when the token's own leeway ends before that. */
export function usableUntil(
	{ exp }: Pick<Claims, 'exp'>,
	nowSeconds: number,
	leewaySeconds: number = LEEWAY_SECONDS,
): number {
	return Math.min(nowSeconds + CACHE_SECONDS, exp + leewaySeconds);
}

/**
 * Verdicts on tokens, by the exact token (as `Bearer <token>`), successes only: a refusal costs a caller its own request, while a table of
 * refusals could be filled by anybody. When full the oldest entry goes; what it covered is merely verified anew.
 *
 * The table is keyed by 30 bits of a token's last characters. They are of its signature, so hardly two tokens share them, and a lookup
 * makes and hashes no text. The whole text is compared. Tokens that do share them take each other's place.
 */
export class TokenCache {
	readonly #entries = new Map<number, Entry>();
	readonly #capacity: number;

	constructor(capacity: number = CACHE_CAPACITY) {
		this.#capacity = capacity;
	}

	get size(): number {
		return this.#entries.size;
	}

	/** @param nowSeconds wall-clock time, seconds since the epoch. */
	find(token: string, nowSeconds: number): Identity | undefined {
		const end = endOf(token);
		const entry = this.#entries.get(end);
		if (entry === undefined || entry.token !== token) return undefined;
		if (nowSeconds < entry.identity.usableUntil) return entry.identity;
		this.#entries.delete(end);
		return undefined;
	}

	/** Forgets the verdicts that no longer hold. */
	keepOnly(holds: (identity: Identity) => boolean): void {
		for (const [end, { identity }] of this.#entries) if (!holds(identity)) this.#entries.delete(end);
	}

	add(token: string, identity: Identity): void {
		const end = endOf(token);
		// A Map remembers the order of insertion, so its first key is the oldest.
		if (!this.#entries.has(end) && this.#entries.size >= this.#capacity) {
			const oldest = this.#entries.keys().next();
			if (!oldest.done) this.#entries.delete(oldest.value);
		}
		this.#entries.set(end, { token, identity });
	}
}

interface Entry {
	readonly token: string;
	readonly identity: Identity;
}

/** Characters of base64url: six bits each. */
const END_LENGTH = 6;

function endOf(token: string): number {
	const { length } = token;
	let end = 0;
	for (let i = Math.max(0, length - END_LENGTH); i < length; i++) end = Math.imul(end, 67) + token.charCodeAt(i);
	return end & 0x3fff_ffff;
}

import type { Bucket, Rate } from './tenant-limit.ts';

/**
 * `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11): Lists of structured fields (RFC 9651) with an item for
 * each policy that was applied to a request.
 */
export class RateLimitFields {
	#policies = '';
	#limits = '';

	/** Adds a bucket, right after it has admitted the request. */
	admitted(policy: RatePolicy, rate: Rate, bucket: Bucket): void {
		this.#rate(policy, rate, bucket.remaining(rate), bucket.secondsToFull(rate));
	}

	/** Adds a bucket, right after it has refused the request. @returns seconds until a retry can pass (`Retry-After`). */
	refused(policy: RatePolicy, rate: Rate, bucket: Bucket): number {
		const wait = bucket.secondsToRoom(rate);
		// `Retry-After` should not come before the end of the effective window (section 6).
		this.#rate(policy, rate, 0, wait);
		return wait;
	}

	/**
	 * Adds the limit on requests in flight. It has no window: the end of a request is unknown.
	 *
	 * @param left how many more requests may start.
	 */
	concurrency(limit: number, left: number): void {
		this.#add(`"concurrency";q=${limit};qu="concurrent-requests"`, `"concurrency";r=${left}`);
	}

	/** Names and values in turn; empty if no policy was applied. */
	get fields(): readonly string[] {
		return this.#policies === '' ? [] : ['ratelimit-policy', this.#policies, 'ratelimit', this.#limits];
	}

	#rate({ name, partition }: RatePolicy, rate: Rate, left: number, window: number): void {
		// The time in which the whole bucket fills: a client that uses the quota once in each window is never refused.
		const policy = `"${name}";q=${rate.burst};w=${Math.max(1, Math.ceil(rate.burst / rate.rps))}${partition}`;
		this.#add(policy, `"${name}";r=${left};t=${window}${partition}`);
	}

	#add(policy: string, limit: string): void {
		const separator = this.#policies === '' ? '' : ', ';
		this.#policies += separator + policy;
		this.#limits += separator + limit;
	}
}

/** A bucket's name for clients. */
export interface RatePolicy {
	readonly name: 'tenant' | 'route';
	/** Parameter `pk` with its semicolon, if a client's requests may count in several buckets of this name; otherwise empty. */
	readonly partition: string;
}

export const TENANT_POLICY: RatePolicy = { name: 'tenant', partition: '' };

/** A tenant has one bucket for each route: the partition key is the route's prefix. */
export function routePolicy(prefix: string): RatePolicy {
	return { name: 'route', partition: `;pk=:${Buffer.from(prefix).toString('base64')}:` };
}

/** Recognises these fields in an upstream's response: a client with two values may believe the wrong one. */
export function isRateLimitField(name: string): boolean {
	return name === 'ratelimit' || name === 'ratelimit-policy';
}

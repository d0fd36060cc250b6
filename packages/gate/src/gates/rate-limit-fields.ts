import type { Bucket, Rate } from './tenant-limit.ts';

/**
 * `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11): Lists of structured fields (RFC 9651), an item for each
 * policy that has been asked about a request.
 */
export class RateLimitFields {
	#policies = '';
	#limits = '';

	/** A bucket, right after it has admitted the request. */
	admitted(policy: RatePolicy, rate: Rate, bucket: Bucket): void {
		this.#rate(policy, rate, bucket.remaining(rate), bucket.secondsToFull(rate));
	}

	/** A bucket, right after it has refused the request. @returns seconds after which to come again (`Retry-After`). */
	refused(policy: RatePolicy, rate: Rate, bucket: Bucket): number {
		const wait = bucket.secondsToRoom(rate);
		// `Retry-After` should not come before the end of the effective window (section 6).
		this.#rate(policy, rate, 0, wait);
		return wait;
	}

	/**
	 * Requests in flight. There is no window: the end of a request is unknown.
	 *
	 * @param left how many more may be begun.
	 */
	concurrency(limit: number, left: number): void {
		this.#add(`"concurrency";q=${limit};qu="concurrent-requests"`, `"concurrency";r=${left}`);
	}

	/** Names and values in turn; none where nothing has been asked. */
	get fields(): readonly string[] {
		return this.#policies === '' ? [] : ['ratelimit-policy', this.#policies, 'ratelimit', this.#limits];
	}

	#rate({ name, partition }: RatePolicy, rate: Rate, left: number, window: number): void {
		// Who uses the quota once in each window is never refused: in that time the whole bucket fills up.
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
	/** Parameter `pk` with its semicolon, where a client's requests may be counted in several buckets of this name; or nothing. */
	readonly partition: string;
}

export const TENANT_POLICY: RatePolicy = { name: 'tenant', partition: '' };

/** Each route has a bucket of its own for a tenant: the partition key is its prefix. */
export function routePolicy(prefix: string): RatePolicy {
	return { name: 'route', partition: `;pk=:${Buffer.from(prefix).toString('base64')}:` };
}

/** Whether an upstream's field is one of these: a client with two values may believe the wrong one. */
export function isRateLimitField(name: string): boolean {
	return name === 'ratelimit' || name === 'ratelimit-policy';
}

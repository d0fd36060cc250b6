/** Tokens that come back at a steady rate, up to so many. Time is an argument, so that it costs nothing to read. */
export class TokenBucket {
	readonly #burst: number;
	readonly #perMs: number;
	#tokens: number;
	/** Milliseconds; the first call begins to count. */
	#at = Number.POSITIVE_INFINITY;

	/** @param perSecond how many come back. */
	constructor(burst: number, perSecond: number) {
		this.#burst = burst;
		this.#perMs = perSecond / 1000;
		this.#tokens = burst;
	}

	/** @param now monotonic milliseconds. @returns false when there are not that many. */
	take(count: number, now: number): boolean {
		if (now > this.#at) this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs);
		this.#at = now;
		this.#tokens -= count;
		return this.#tokens >= 0;
	}

	/** Gives tokens back, for example for the frames that an answer makes necessary. */
	release(count: number): void {
		this.#tokens = Math.min(this.#burst, this.#tokens + count);
	}
}

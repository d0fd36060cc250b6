/** A token bucket: tokens come back at a steady rate, up to `burst`. Time is an argument, so it need not be read again. */
export class TokenBucket {
	readonly #burst: number;
	readonly #perMs: number;
	#tokens: number;
	/** Time of the last call, milliseconds; infinite before the first. */
	#at = Number.POSITIVE_INFINITY;

	/** @param perSecond tokens that come back. */
	constructor(burst: number, perSecond: number) {
		this.#burst = burst;
		this.#perMs = perSecond / 1000;
		this.#tokens = burst;
	}

	/** @param now monotonic milliseconds. @returns `false` if there are fewer than `count`. */
	take(count: number, now: number): boolean {
		if (now > this.#at) this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs);
		this.#at = now;
		this.#tokens -= count;
		return this.#tokens >= 0;
	}

	/** Gives tokens back, for example for the frames that a response requires. */
	release(count: number): void {
		this.#tokens = Math.min(this.#burst, this.#tokens + count);
	}
}

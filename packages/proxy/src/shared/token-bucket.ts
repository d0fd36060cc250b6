/** Tokens that come back at a steady rate, up to `burst`. Times are monotonic milliseconds, given so that the clock need not be read again. */
export class TokenBucket {
	readonly #burst: number;
	readonly #perMs: number;
	/** Negative: a debt. */
	#tokens: number;
	/** Time of the last call. */
	#at = Number.NEGATIVE_INFINITY;

	constructor(burst: number, perSecond: number) {
		this.#burst = burst;
		this.#perMs = perSecond / 1000;
		this.#tokens = burst;
	}

	/** Whether there is a debt; `settle` says whether it has been paid by now. */
	get isOverdrawn(): boolean {
		return this.#tokens < 0;
	}

	settle(now: number): boolean {
		if (now > this.#at) {
			// At the first call no time has passed.
			if (this.#at > Number.NEGATIVE_INFINITY) this.release((now - this.#at) * this.#perMs);
			this.#at = now;
		}
		return !this.isOverdrawn;
	}

	/** Spends more than there is, if need be. */
	spend(count: number): void {
		this.#tokens -= count;
	}

	/** @returns `false`: there were fewer than `count`. */
	take(count: number, now: number): boolean {
		this.settle(now);
		this.spend(count);
		return !this.isOverdrawn;
	}

	/** @returns how many of the `wanted` tokens were taken. */
	takeSome(wanted: number, now: number): number {
		this.settle(now);
		const taken = Math.max(0, Math.min(wanted, this.#tokens));
		this.spend(taken);
		return taken;
	}

	/** Gives tokens back. */
	release(count: number): void {
		this.#tokens = Math.min(this.#burst, this.#tokens + count);
	}
}

/**
 * Whether a client takes its answer fast enough, by what it takes while it is waited for: an upstream that has nothing to
 * give at the moment is not the client's slowness. It is looked at over windows, so that a pause is made up for by what
 * comes after it, and so that what the kernel's buffers have taken at once is no credit for the rest of the answer.
 */
export class ResponsePace {
	readonly #leastRate: number;
	readonly #windowMs: number;
	#bytes = 0;
	#ms = 0;

	/** @param leastRate bytes per second. @param windowMs least time of waiting that is judged. */
	constructor(leastRate: number, windowMs: number) {
		this.#leastRate = leastRate;
		this.#windowMs = windowMs;
	}

	/**
	 * The client has taken something.
	 *
	 * @param bytes since the last call.
	 * @param waitedMs how long that was waited for.
	 * @returns whether it may go on: false once a window's average is below the least rate.
	 */
	took(bytes: number, waitedMs: number): boolean {
		this.#bytes += bytes;
		this.#ms += waitedMs;
		if (this.#ms < this.#windowMs) return true;
		const inTime = this.#bytes * 1000 >= this.#leastRate * this.#ms;
		this.#bytes = 0;
		this.#ms = 0;
		return inTime;
	}
}

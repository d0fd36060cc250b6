/**
 * Whether a client takes its answer fast enough. Only the time during which the proxy waits for the client counts: a slow upstream
 * is not the client's fault. The average is judged over windows. So a client can make up for a pause, and bytes that the kernel's
 * buffers took at once are no credit for the rest of the response.
 */
export class ResponsePace {
	readonly #leastRate: number;
	readonly #windowMs: number;
	#bytes = 0;
	#ms = 0;

	/** @param leastRate bytes per second. @param windowMs shortest time of waiting that is judged. */
	constructor(leastRate: number, windowMs: number) {
		this.#leastRate = leastRate;
		this.#windowMs = windowMs;
	}

	/**
	 * The client has taken bytes.
	 *
	 * @param bytes since the last call.
	 * @param waitedMs how long the proxy waited for that.
	 * @returns whether the response may go on: false once the average of a window is below the least rate.
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

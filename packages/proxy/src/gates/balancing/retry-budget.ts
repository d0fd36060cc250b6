/**
 * How many requests may be sent again: a fifth as many as there were requests, over the last ten seconds. Where all that is sent
 * again fails as well, it must not become a multiple of the load that has brought the upstream down.
 *
 * Each worker has one for each group. If each keeps to the fifth, so does their sum.
 */
export class RetryBudget {
	/** By second, `SECONDS` of them and then from the beginning. */
	readonly #requests = new Float64Array(SECONDS);
	readonly #retries = new Float64Array(SECONDS);
	/** The second that is counted now. */
	#second = 0;

	/** @param now monotonic milliseconds. */
	request(now: number): void {
		this.#requests[this.#at(now)]! += 1;
	}

	/** Whether one more may be sent again. */
	allows(now: number): boolean {
		this.#at(now);
		return sum(this.#retries) + 1 <= FLOOR + SHARE * sum(this.#requests);
	}

	/** One is sent again. */
	retry(now: number): void {
		this.#retries[this.#at(now)]! += 1;
	}

	#at(now: number): number {
		const second = Math.floor(now / 1000);
		if (second > this.#second) {
			const passed = Math.min(second - this.#second, SECONDS);
			for (let i = 0; i < passed; i++) {
				const at = (second - i) % SECONDS;
				this.#requests[at] = 0;
				this.#retries[at] = 0;
			}
			this.#second = second;
		}
		return this.#second % SECONDS;
	}
}

export const SHARE = 0.2;
/** Over the same time: a quiet service would have no retry at all. */
export const FLOOR = 10;
const SECONDS = 10;

function sum(cells: Float64Array): number {
	let total = 0;
	for (const cell of cells) total += cell;
	return total;
}

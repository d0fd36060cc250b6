/**
 * How many retries are allowed: one for five requests, over the last ten seconds. If retries fail as well, they must not multiply
 * the load that has brought the upstream down.
 *
 * Each worker has a budget for each upstream. If each keeps to a fifth, so does their sum.
 */
export class RetryBudget {
	/** Counts by second, in a ring of `SECONDS` cells. */
	readonly #requests = new Float64Array(SECONDS);
	readonly #retries = new Float64Array(SECONDS);
	/** The current second. */
	#second = 0;

	/** @param now monotonic milliseconds. */
	request(now: number): void {
		this.#requests[this.#at(now)]! += 1;
	}

	/** Whether one more retry is allowed. */
	allows(now: number): boolean {
		this.#at(now);
		return sum(this.#retries) + 1 <= FLOOR + SHARE * sum(this.#requests);
	}

	/** Counts a retry. @param now as above. */
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
/** Retries that are allowed in any case, over the same time: without them a quiet service would have none. */
export const FLOOR = 10;
const SECONDS = 10;

function sum(cells: Float64Array): number {
	let total = 0;
	for (const cell of cells) total += cell;
	return total;
}

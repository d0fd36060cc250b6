/** A delay is kept at least this long, and at most twice as long, ms. */
const KEPT_MS = 10_000;

/** The longest delay of the last seconds. Time is an argument. */
export class LongestDelay {
	#now = 0;
	#before = 0;
	#since: number;

	constructor(now: number) {
		this.#since = now;
	}

	get ms(): number {
		return Math.max(this.#now, this.#before);
	}

	add(ms: number, now: number): void {
		if (now - this.#since >= KEPT_MS) {
			this.#before = now - this.#since < 2 * KEPT_MS ? this.#now : 0;
			this.#now = 0;
			this.#since = now;
		}
		this.#now = Math.max(this.#now, ms);
	}
}

/**
 * Limits a client's messages: a bucket of one second's messages, which refills evenly. A client that has used it up waits. Pure: time
 * arrives as an argument.
 */
export class MessagePace {
	readonly #perMs: number;
	readonly #burst: number;
	#tokens: number;
	#at: number;

	/** @param perSec at least 1. @param now monotonic milliseconds. */
	constructor(perSec: number, now: number) {
		this.#perMs = perSec / 1000;
		this.#burst = perSec;
		this.#tokens = perSec;
		this.#at = now;
	}

	/** How many messages may begin now, a whole number. @param now monotonic milliseconds. */
	left(now: number): number {
		if (now > this.#at) {
			this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs);
			this.#at = now;
		}
		return Math.floor(this.#tokens);
	}

	/** Counts messages that have begun. */
	spend(messages: number): void {
		this.#tokens -= messages;
	}
}

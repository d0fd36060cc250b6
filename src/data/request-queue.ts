/**
 * How many requests a turn of the loop begins. Hundreds that go through each step together push each other out of the
 * processor's caches between two steps, and each takes an upstream connection of its own. 16 to 64 cost the same, and more
 * of them more (`bench/RESULTS.md`).
 */
const PER_TURN = 32;

export interface QueuedRequest {
	/** Its client has left or has reset it: nobody waits for anything. */
	readonly isGone: boolean;
	start(): void;
}

/**
 * The requests that a worker's connections have brought, in their order. They begin at the end of a turn of the loop, a few
 * each time; what upstreams have answered meanwhile goes out in between. Whoever opens streams and resets them at once
 * (rapid reset, CVE-2023-44487) has done both by then, and nobody has gone to an upstream in vain.
 */
export class RequestQueue {
	#waiting: QueuedRequest[] = [];

	add(request: QueuedRequest): void {
		if (this.#waiting.push(request) === 1) setImmediate(this.#startSome);
	}

	readonly #startSome = (): void => {
		// All of them are looked at, so that those who are gone do not wait in memory behind those who are not.
		const next = this.#waiting.filter((request) => !request.isGone);
		this.#waiting = next.splice(PER_TURN);
		if (this.#waiting.length > 0) setImmediate(this.#startSome);
		for (const request of next) request.start();
	};
}

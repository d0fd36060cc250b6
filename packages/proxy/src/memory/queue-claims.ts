import type { UpstreamLoad } from './upstream-load.ts';

/**
 * How workers pass on the places of a full queue. Each worker keeps its own pending requests, and only it can end one of them. So
 * it publishes here the number of places of its largest tenant, and another worker may claim one of these for a tenant that has
 * fewer. The place counts for the other worker at once. The bell wakes the worker that must give up the place, and it ends a
 * request.
 */
export class QueueClaims {
	readonly #words: Int32Array;
	readonly #worker: number;

	/** @param worker index of this thread. */
	constructor(memory: SharedArrayBuffer, worker: number) {
		this.#words = new Int32Array(memory);
		this.#worker = worker;
	}

	static allocate(workers: number): SharedArrayBuffer {
		return new SharedArrayBuffer(workers * WORDS * Int32Array.BYTES_PER_ELEMENT);
	}

	/** Clears the claims of a dead worker. Call it only after its thread has ended. */
	static reclaim(memory: SharedArrayBuffer, worker: number): void {
		const words = new Int32Array(memory);
		for (let word = 0; word < WORDS; word++) Atomics.store(words, worker * WORDS + word, 0);
	}

	/** Publishes how many places the largest tenant of this worker has. */
	publish(most: number): void {
		Atomics.store(this.#words, this.#worker * WORDS + MOST, most);
	}

	/**
	 * Claims a place from the worker with the largest tenant, if that tenant has more than `least`.
	 *
	 * @param count pending requests by worker: the place moves to this worker.
	 */
	claim(least: number, count: UpstreamLoad): boolean {
		for (;;) {
			const words = this.#words;
			let [from, most] = [-1, least];
			for (let worker = 0; worker < words.length / WORDS; worker++) {
				const others = Atomics.load(words, worker * WORDS + MOST);
				if (worker !== this.#worker && others > most) [from, most] = [worker, others];
			}
			if (from === -1) return false;
			// Two workers must not claim the same place.
			if (Atomics.compareExchange(words, from * WORDS + MOST, most, most - 1) !== most) continue;
			count.moveFrom(from);
			Atomics.add(words, from * WORDS + CLAIMED, 1);
			return true;
		}
	}

	/** How many places other workers have claimed from this one since the last call. */
	take(): number {
		const at = this.#worker * WORDS + CLAIMED;
		return Atomics.load(this.#words, at) === 0 ? 0 : Atomics.exchange(this.#words, at, 0);
	}
}

/** Words of each worker. */
const WORDS = 2;
const MOST = 0;
const CLAIMED = 1;

/** Results of requests that had to wait for an upstream. */
export const QUEUE_RESULTS = [
	/** They left for it. */
	'served',
	/** There was no room for them, or they made room for another tenant's. */
	'full',
	/** They had waited for as long as they may. */
	'timeout',
	/** When their turn came, no breaker admitted them. */
	'unavailable',
	/** The client had left. */
	'gone',
] as const;
export type QueueResult = (typeof QUEUE_RESULTS)[number];

/** Counts of one upstream. Each worker writes its own cells, and readers sum them. */
export class QueueStats {
	readonly #cells: Float64Array;
	readonly #own: number;

	/** @param worker index of this thread. */
	constructor(memory: SharedArrayBuffer, worker: number) {
		this.#cells = new Float64Array(memory);
		this.#own = worker * QUEUE_RESULTS.length;
	}

	static allocate(workers: number): SharedArrayBuffer {
		return new SharedArrayBuffer(workers * QUEUE_RESULTS.length * Float64Array.BYTES_PER_ELEMENT);
	}

	count(result: QueueResult): void {
		this.#cells[this.#own + QUEUE_RESULTS.indexOf(result)]! += 1;
	}

	/** Of all workers. */
	total(result: QueueResult): number {
		let sum = 0;
		for (let i = QUEUE_RESULTS.indexOf(result); i < this.#cells.length; i += QUEUE_RESULTS.length)
			sum += this.#cells[i]!;
		return sum;
	}
}

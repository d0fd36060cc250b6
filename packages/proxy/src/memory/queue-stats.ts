/** Results of requests that had to wait for an upstream. */
export const QUEUE_RESULTS = [
	/** Sent to the upstream. */
	'served',
	/** Refused because the queue was full, or removed in favour of another tenant. */
	'full',
	/** Waited for the longest permitted time. */
	'timeout',
	/** No breaker admitted them in their turn. */
	'unavailable',
	/** The client left. */
	'gone',
] as const;
type QueueResult = (typeof QUEUE_RESULTS)[number];

/** Counts of one upstream. Each worker writes its own cells, and readers add them up. */
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

	/** The sum over all workers. */
	total(result: QueueResult): number {
		let sum = 0;
		for (let i = QUEUE_RESULTS.indexOf(result); i < this.#cells.length; i += QUEUE_RESULTS.length)
			sum += this.#cells[i]!;
		return sum;
	}
}

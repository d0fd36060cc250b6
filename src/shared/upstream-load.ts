/**
 * What all workers know of one address of an upstream that has others beside it: how many requests are under way there, and since
 * when it has been serving.
 *
 * Each worker counts its own requests in a word that nobody else writes, and the load is their sum. There is no total beside them: a
 * thread may be ended between any two instructions, and a total would then disagree with its parts for ever. The words lie side by side,
 * so that a sum reads one cache line for every 16 workers: it is asked for more often than a worker changes its own.
 */
export class UpstreamLoad {
	readonly #words: Int32Array;
	readonly #own: number;
	readonly #since: Float64Array;
	/** 0, or 1 + the index of the worker that is looking at the words for `tryInc`. */
	readonly #lock: Int32Array;

	/** @param worker index of this thread; it alone calls `inc` and `dec` with it. Whoever only reads gives any. */
	constructor(memory: SharedArrayBuffer, worker: number) {
		this.#words = new Int32Array(memory, WORDS);
		this.#own = worker;
		this.#since = new Float64Array(memory, 0, 1);
		this.#lock = new Int32Array(memory, LOCK, 1);
	}

	/** Nothing is under way. @param now monotonic milliseconds; it serves from now on. */
	static allocate(workers: number, now: number): SharedArrayBuffer {
		const memory = new SharedArrayBuffer(WORDS + workers * Int32Array.BYTES_PER_ELEMENT);
		new UpstreamLoad(memory, 0).servesSince(now);
		return memory;
	}

	/** Nothing of a worker that is gone is under way any more, and it holds no lock. Only once its thread has ended. */
	static reclaim(memory: SharedArrayBuffer, worker: number): void {
		Atomics.compareExchange(new Int32Array(memory, LOCK, 1), 0, worker + 1, 0);
		Atomics.store(new Int32Array(memory, WORDS), worker, 0);
	}

	/** One more request is under way. Give it back by `dec`, whatever becomes of it. */
	inc(): void {
		Atomics.add(this.#words, this.#own, 1);
	}

	/**
	 * One more, if there are less than `limit` in the whole process. Exact: those who ask at the same moment ask one after the other,
	 * each for as long as it takes to add up the words.
	 *
	 * @returns whether it was granted; if so, give it back by `dec`.
	 */
	tryInc(limit: number): boolean {
		while (Atomics.compareExchange(this.#lock, 0, 0, this.#own + 1) !== 0);
		const granted = this.total < limit;
		if (granted) this.inc();
		Atomics.store(this.#lock, 0, 0);
		return granted;
	}

	dec(): void {
		Atomics.sub(this.#words, this.#own, 1);
	}

	/** Requests under way in the whole process. */
	get total(): number {
		const words = this.#words;
		let sum = 0;
		for (let worker = 0; worker < words.length; worker++) sum += Atomics.load(words, worker);
		return sum;
	}

	/** The same for a choice that need not be exact: plain loads cost a tenth of atomic ones, and may be a moment late. */
	get recent(): number {
		const words = this.#words;
		let sum = 0;
		for (let worker = 0; worker < words.length; worker++) sum += words[worker]!;
		return sum;
	}

	/** Those of this thread. */
	get own(): number {
		return Atomics.load(this.#words, this.#own);
	}

	/** Threads that have any. */
	get threads(): number {
		const words = this.#words;
		let count = 0;
		for (let worker = 0; worker < words.length; worker++) if (Atomics.load(words, worker) > 0) count++;
		return count;
	}

	/** Monotonic milliseconds: when its breaker last closed, or when it was new. */
	get since(): number {
		return this.#since[0]!;
	}

	/** It has come back. @param now monotonic milliseconds. */
	servesSince(now: number): void {
		this.#since[0] = now;
	}
}

/** Where in its memory the lock stands, bytes, and behind it the workers' words. */
const LOCK = Float64Array.BYTES_PER_ELEMENT;
const WORDS = LOCK + Int32Array.BYTES_PER_ELEMENT;

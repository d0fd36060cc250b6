/**
 * The load of one address of an upstream, across all workers: its requests in flight, and since when it has been serving.
 *
 * Each worker counts its own requests in a word that only it writes, and the load is the sum. A separate total does not exist: a
 * thread may be terminated between any two instructions, and the total would then disagree with its parts for ever.
 *
 * Addresses that were added together are in one region: first since when each of them serves, then their locks, then the words of
 * the first worker, those of the second, and so on. Balancing looks at two addresses of many, over and over. So the values of all
 * addresses are contiguous, share a few views, and stay in the processor's caches.
 */
export class UpstreamLoad {
	readonly #views: Views;
	/** Index of the address in its region. */
	readonly #at: number;
	/** Value of the lock while this thread holds it. */
	readonly #holder: number;
	/** Index of this thread's word. */
	readonly #own: number;

	/**
	 * @param worker index of this thread; only this thread calls `inc` and `dec` with it. Readers may pass any index.
	 * @param at index of the address in the region.
	 */
	constructor(memory: SharedArrayBuffer, worker: number, at = 0) {
		this.#views = viewsOf(memory);
		this.#at = at;
		this.#holder = worker + 1;
		this.#own = this.#views.words + worker * this.#views.addresses + at;
	}

	/** Memory for this many addresses, without requests. @param now monotonic milliseconds: since then they have been serving. */
	static allocate(workers: number, now: number, addresses = 1): SharedArrayBuffer {
		const bytes = HEADER_BYTES + addresses * (8 + 4 + workers * 4);
		const memory = new SharedArrayBuffer(Math.ceil(bytes / 8) * 8);
		new Int32Array(memory).set([addresses, workers]);
		viewsOf(memory).since.fill(now);
		return memory;
	}

	/** Clears the word and the lock of a dead worker. Call it only after its thread has ended. */
	static reclaim(memory: SharedArrayBuffer, worker: number, at = 0): void {
		const { ints, locks, words, addresses } = viewsOf(memory);
		const holder = worker + 1;
		Atomics.compareExchange(ints, locks + at, holder, 0);
		Atomics.store(ints, words + worker * addresses + at, 0);
	}

	/** One more request is in flight. Call `dec` exactly once for it. */
	inc(): void {
		Atomics.add(this.#views.ints, this.#own, 1);
	}

	/**
	 * One more, if there are fewer than `limit` in the whole process. Exact: a lock serializes callers, each for the time of adding
	 * up the words.
	 *
	 * @returns whether it was granted; if so, call `dec` exactly once.
	 */
	tryInc(limit: number): boolean {
		const { ints, locks } = this.#views;
		const lock = locks + this.#at;
		this.#lock(lock);
		const granted = this.total < limit;
		if (granted) this.inc();
		Atomics.store(ints, lock, 0);
		return granted;
	}

	/** Moves one request from another worker's count to this one's; the total stays. */
	moveFrom(worker: number): void {
		const { ints, locks, words, addresses } = this.#views;
		const lock = locks + this.#at;
		this.#lock(lock);
		Atomics.sub(ints, words + worker * addresses + this.#at, 1);
		this.inc();
		Atomics.store(ints, lock, 0);
	}

	#lock(at: number): void {
		while (Atomics.compareExchange(this.#views.ints, at, 0, this.#holder) !== 0);
	}

	dec(): void {
		Atomics.sub(this.#views.ints, this.#own, 1);
	}

	/** Requests in flight in the whole process. */
	get total(): number {
		const { ints, words, end, addresses } = this.#views;
		let sum = 0;
		for (let i = words + this.#at; i < end; i += addresses) sum += Atomics.load(ints, i);
		return sum;
	}

	/** Like `total`, for a choice that need not be exact: plain loads cost a tenth of atomic ones, and may be slightly stale. */
	get recent(): number {
		const { ints, words, end, addresses } = this.#views;
		let sum = 0;
		for (let i = words + this.#at; i < end; i += addresses) sum += ints[i]!;
		return sum;
	}

	/** Requests of this thread. */
	get own(): number {
		return Atomics.load(this.#views.ints, this.#own);
	}

	/** Number of threads with requests in flight. */
	get threads(): number {
		const { ints, words, end, addresses } = this.#views;
		let count = 0;
		for (let i = words + this.#at; i < end; i += addresses) if (Atomics.load(ints, i) > 0) count++;
		return count;
	}

	/** Monotonic milliseconds: when its breaker last closed, or when the address was added. */
	get since(): number {
		return this.#views.since[this.#at]!;
	}

	/** The address has recovered. @param now monotonic milliseconds. */
	servesSince(now: number): void {
		this.#views.since[this.#at] = now;
	}
}

/** The number of addresses, and the number of workers. */
const HEADER_BYTES = 8;

/** One thread's views of a region. */
interface Views {
	readonly addresses: number;
	readonly since: Float64Array;
	readonly ints: Int32Array;
	/** Indexes in `ints`: where the locks begin, where the words begin, and where these end. */
	readonly locks: number;
	readonly words: number;
	readonly end: number;
}

const VIEWS = new WeakMap<SharedArrayBuffer, Views>();

function viewsOf(memory: SharedArrayBuffer): Views {
	let views = VIEWS.get(memory);
	if (views === undefined) {
		const ints = new Int32Array(memory);
		const [addresses = 0, workers = 0] = ints;
		const locks = HEADER_BYTES / 4 + addresses * 2;
		const words = locks + addresses;
		const since = new Float64Array(memory, HEADER_BYTES, addresses);
		views = { addresses, since, ints, locks, words, end: words + workers * addresses };
		VIEWS.set(memory, views);
	}
	return views;
}

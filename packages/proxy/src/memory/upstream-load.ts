/**
 * The load of one address of a group, shared by all workers: the number of requests in flight there, and since
 * when it has been serving.
 *
 * Each worker counts its own requests in a word that only it writes, and the load is their sum. There is no total next to them: a
 * thread may be ended between any two instructions, and a total would then disagree with its parts for ever.
 *
 * Addresses that came together lie in one region: first since when each of them serves, then their locks, then the words of the first
 * worker, those of the second one, and so on. A choice looks at two addresses of many, over and over: what it reads of all of them lies
 * side by side, behind views that they share, and stays in the processor's caches.
 */
export class UpstreamLoad {
	readonly #views: Views;
	/** Of the address in its region. */
	readonly #at: number;
	/** What its lock has while this thread holds it. */
	readonly #holder: number;
	/** Where this thread's word is. */
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

	/** For so many addresses, with nothing under way. @param now monotonic milliseconds; they serve from now on. */
	static allocate(workers: number, now: number, addresses = 1): SharedArrayBuffer {
		const bytes = HEADER_BYTES + addresses * (8 + 4 + workers * 4);
		const memory = new SharedArrayBuffer(Math.ceil(bytes / 8) * 8);
		new Int32Array(memory).set([addresses, workers]);
		viewsOf(memory).since.fill(now);
		return memory;
	}

	/** Nothing of a worker that is gone is under way at an address any more, and it holds no lock. Only once its thread has ended. */
	static reclaim(memory: SharedArrayBuffer, worker: number, at = 0): void {
		const { ints, locks, words, addresses } = viewsOf(memory);
		const holder = worker + 1;
		Atomics.compareExchange(ints, locks + at, holder, 0);
		Atomics.store(ints, words + worker * addresses + at, 0);
	}

	/** One more request is under way. Give it back by `dec`, whatever becomes of it. */
	inc(): void {
		Atomics.add(this.#views.ints, this.#own, 1);
	}

	/**
	 * One more, if there are less than `limit` in the whole process. Exact: those who ask at the same moment ask one after the other,
	 * each for as long as it takes to add up the words.
	 *
	 * @returns whether it was granted; if so, give it back by `dec`.
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

	/** One of another worker's is this one's from now on: the total does not change. */
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

	/** Requests under way in the whole process. */
	get total(): number {
		const { ints, words, end, addresses } = this.#views;
		let sum = 0;
		for (let i = words + this.#at; i < end; i += addresses) sum += Atomics.load(ints, i);
		return sum;
	}

	/** The same for a choice that need not be exact: plain loads cost a tenth of atomic ones, and may be a moment late. */
	get recent(): number {
		const { ints, words, end, addresses } = this.#views;
		let sum = 0;
		for (let i = words + this.#at; i < end; i += addresses) sum += ints[i]!;
		return sum;
	}

	/** Those of this thread. */
	get own(): number {
		return Atomics.load(this.#views.ints, this.#own);
	}

	/** Threads that have any. */
	get threads(): number {
		const { ints, words, end, addresses } = this.#views;
		let count = 0;
		for (let i = words + this.#at; i < end; i += addresses) if (Atomics.load(ints, i) > 0) count++;
		return count;
	}

	/** Monotonic milliseconds: when its breaker last closed, or when it was new. */
	get since(): number {
		return this.#views.since[this.#at]!;
	}

	/** It has come back. @param now monotonic milliseconds. */
	servesSince(now: number): void {
		this.#views.since[this.#at] = now;
	}
}

/** How many addresses, and how many workers. */
const HEADER_BYTES = 8;

/** How one thread sees a region. */
interface Views {
	readonly addresses: number;
	readonly since: Float64Array;
	readonly ints: Int32Array;
	/** Where in `ints` the locks begin, and the words, and where these end. */
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

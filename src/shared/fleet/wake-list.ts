/**
 * Places of a table that the main thread is to look at. Worker threads add, the main thread takes; a place is in the list at most once, so
 * the list is never longer than the table. Nobody waits for anybody, and nobody is woken up: the main thread looks by itself.
 */
export interface WakeMemory {
	/** By place: 1 while it is in the list. */
	readonly flags: SharedArrayBuffer;
	/** 1 + the place; 0 where there is none. A ring as long as the table. */
	readonly ring: SharedArrayBuffer;
	/** Places ever added. */
	readonly added: SharedArrayBuffer;
}

/** @param places a power of two, so that the count of places may wrap around. */
export function createWakeMemory(places: number): WakeMemory {
	const words = (count: number) => new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT);
	return { flags: words(places), ring: words(places), added: words(1) };
}

export class WakeList {
	readonly #flags: Int32Array;
	readonly #ring: Int32Array;
	readonly #added: Int32Array;
	readonly #mask: number;
	/** Of the main thread: places taken. */
	#taken = 0;
	/** Of the main thread: how often it has met a place that is not written yet. */
	#waits = 0;
	/** Of the main thread: how many of the next places were counted before a thread died, and may never be written. */
	#suspects = 0;

	constructor(memory: WakeMemory) {
		this.#flags = new Int32Array(memory.flags);
		this.#ring = new Int32Array(memory.ring);
		this.#added = new Int32Array(memory.added);
		this.#mask = this.#ring.length - 1;
	}

	/** From any worker. Costs one load where the place is in the list. */
	add(place: number): void {
		if (Atomics.load(this.#flags, place) !== 0 || Atomics.compareExchange(this.#flags, place, 0, 1) !== 0) return;
		Atomics.store(this.#ring, Atomics.add(this.#added, 0, 1) & this.#mask, place + 1);
	}

	/** Main thread only. What happens at the place after this is added anew. @returns -1 when there is none. */
	take(): number {
		const at = this.#taken & this.#mask;
		if (this.#taken === Atomics.load(this.#added, 0)) return -1;
		const entry = Atomics.exchange(this.#ring, at, 0);
		if (entry === 0) return this.#skip();
		this.#advance();
		Atomics.store(this.#flags, entry - 1, 0);
		return entry - 1;
	}

	/** Main thread only, after a thread has died: it may have been about to add a place, which nobody else could add any more. */
	forget(): void {
		// Places that are written stay in the list. Were each of them added once more, the list would be longer than the ring, and stuck.
		const written = new Set(this.#ring);
		for (let place = 0; place < this.#flags.length; place++) {
			if (!written.has(place + 1)) Atomics.store(this.#flags, place, 0);
		}
		this.#suspects = (Atomics.load(this.#added, 0) - this.#taken) | 0;
	}

	/**
	 * A thread is between counting and writing. That is two instructions, but the system may let it sleep there for any time: its place is
	 * waited for, or nobody would ever look at it. One that has died there never writes, and is passed over.
	 */
	#skip(): -1 {
		if (this.#suspects > 0 && ++this.#waits > PATIENCE) this.#advance();
		return -1;
	}

	#advance(): void {
		this.#waits = 0;
		if (this.#suspects > 0) this.#suspects--;
		this.#taken = (this.#taken + 1) | 0;
	}
}

/** Looks at one place, which come every few milliseconds: a second. */
const PATIENCE = 100;

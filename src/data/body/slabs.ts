/**
 * Pieces of memory that are used again. V8 counts the memory of each new `Buffer`, and looks through the whole heap after every
 * few dozen megabytes of them; with bodies in fresh buffers that was a quarter of the time of a large answer.
 *
 * A slab has one owner at a time: from `take` to `giveBack`. Whoever has given it to a write gives it back when the write's
 * callback says that it has succeeded, for until then the kernel or TLS may read it. A slab that cannot be known to be free is
 * never given back; the garbage collector has it then.
 */
export class Slabs {
	readonly #free: Buffer[] = [];
	/** Those that have an owner: nothing can be given back twice, and nothing that is no slab. */
	readonly #taken = new WeakSet<Buffer>();
	readonly #maxFree: number;

	/** @param maxFreeBytes what is kept for later at most. */
	constructor(maxFreeBytes: number) {
		this.#maxFree = Math.floor(maxFreeBytes / SLAB_BYTES);
	}

	/** Bytes that are kept for later. */
	get freeBytes(): number {
		return this.#free.length * SLAB_BYTES;
	}

	/** @returns `SLAB_BYTES` bytes of whatever was there before: no more of them may be shown than have been written. */
	take(): Buffer {
		// The one that came back last, since the processor's caches may still have it.
		const slab = this.#free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
		this.#taken.add(slab);
		return slab;
	}

	/** @param slab that nobody reads or writes any more, as `take` has returned it. Anything else is ignored. */
	giveBack(slab: Buffer): void {
		if (!this.#taken.delete(slab)) return;
		if (this.#free.length < this.#maxFree) this.#free.push(slab);
	}
}

/** Four full TLS records. */
export const SLAB_BYTES = 65_536;

/** Of this thread. It keeps up to 8 MiB. */
export const SLABS = new Slabs(8_388_608);

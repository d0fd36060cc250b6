/**
 * A pool of buffers. V8 accounts for the memory of each new `Buffer`, and collects the whole heap after every few dozen megabytes
 * of them. With bodies in fresh buffers, that was a quarter of the time of a large response.
 *
 * A slab has one owner at a time: from `take` to `release`. An owner that has passed it to a write releases it when the write's
 * callback reports success: until then the kernel or TLS may read it. A slab that may still be in use is never released: the
 * garbage collector frees it.
 *
 * Slabs that have not been needed for a while go back to the operating system (`trim`), so the process shrinks again after a flood.
 * glibc would keep them: it returns freed blocks of this size only from the end of a heap.
 */
export class Slabs {
	/** The last released slab is at the end. */
	readonly #free: Buffer[] = [];
	/** Slabs with an owner: no slab can be released twice, nor any other buffer. */
	readonly #taken = new WeakSet<Buffer>();
	readonly #kept: number;
	/** The fewest free slabs since the last `trim`. */
	#leastFree = 0;

	/** @param keptBytes unused bytes that `trim` keeps for reuse. */
	constructor(keptBytes: number) {
		this.#kept = Math.floor(keptBytes / SLAB_BYTES);
	}

	/** Bytes in free slabs. */
	get freeBytes(): number {
		return this.#free.length * SLAB_BYTES;
	}

	/** @returns `SLAB_BYTES` bytes with old content: show only the bytes that you have written. */
	take(): Buffer {
		// The last released slab: it may still be in the processor's caches.
		const slab = this.#free.pop() ?? createSlab();
		if (this.#free.length < this.#leastFree) this.#leastFree = this.#free.length;
		this.#taken.add(slab);
		return slab;
	}

	/** @param slab from `take`, no longer in use. Other buffers are ignored. */
	release(slab: Buffer): void {
		if (this.#taken.delete(slab)) this.#free.push(slab);
	}

	/** Frees a part of the slabs that were unused since the last call. Call it every `TRIM_MS`. */
	trim(): void {
		const spare = Math.min(this.#leastFree - this.#kept, MAX_TRIMMED);
		if (spare > 0) for (const slab of this.#free.splice(0, spare)) returnMemory(slab);
		this.#leastFree = this.#free.length;
	}
}

/** V8 takes the memory of a resizable buffer from the operating system, not from `malloc`. The view has a fixed length. */
function createSlab(): Buffer {
	return Buffer.from(new ArrayBuffer(SLAB_BYTES, { maxByteLength: SLAB_BYTES }), 0, SLAB_BYTES);
}

/** Returns the memory at once: in an idle process the garbage collector may not run for a long time. */
function returnMemory(slab: Buffer): void {
	(slab.buffer as ArrayBuffer).transferToFixedLength(0);
}

/** Four full TLS records. */
export const SLAB_BYTES = 65_536;

/** The slabs of this thread. `trim` leaves it 8 MiB. */
export const SLABS = new Slabs(8_388_608);

export const TRIM_MS = 250;
/** Slabs that one `trim` returns: a millisecond of work, and 32 MiB a second. */
export const MAX_TRIMMED = 128;

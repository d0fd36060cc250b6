/**
 * Pieces of memory that are used again. V8 counts the memory of each new `Buffer`, and looks through the whole heap after every
 * few dozen megabytes of them; with bodies in fresh buffers that was a quarter of the time of a large answer.
 *
 * A slab has one owner at a time: from `take` to `release`. An owner that has passed it to a write releases it when the write's
 * callback reports success: until then the kernel or TLS may read it. A slab that cannot be known to be free is
 * never given back; the garbage collector has it then.
 *
 * Slabs that have not been needed for a while go back to the operating system (`trim`), so that a flood does not leave the process as
 * large as it was. glibc would keep them: it returns a freed block of this size only from the end of a heap.
 */
export class Slabs {
	/** Those that came back last are at the end. */
	readonly #free: Buffer[] = [];
	/** Those that have an owner: nothing can be given back twice, and nothing that is no slab. */
	readonly #taken = new WeakSet<Buffer>();
	readonly #kept: number;
	/** The fewest that were free at once since the last `trim`. */
	#leastFree = 0;

	/** @param keptBytes the most unused bytes that are kept for reuse. */
	constructor(keptBytes: number) {
		this.#kept = Math.floor(keptBytes / SLAB_BYTES);
	}

	/** Bytes that are kept for later. */
	get freeBytes(): number {
		return this.#free.length * SLAB_BYTES;
	}

	/** @returns `SLAB_BYTES` bytes of whatever was there before: no more of them may be shown than have been written. */
	take(): Buffer {
		// The one that came back last, since the processor's caches may still have it.
		const slab = this.#free.pop() ?? createSlab();
		if (this.#free.length < this.#leastFree) this.#leastFree = this.#free.length;
		this.#taken.add(slab);
		return slab;
	}

	/** @param slab as `take` has returned it, and no longer in use. Anything else is ignored. */
	release(slab: Buffer): void {
		if (this.#taken.delete(slab)) this.#free.push(slab);
	}

	/** Call it every `TRIM_MS`: frees a part of the memory that was unused since the last call. */
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

/** At once: the garbage collector may not run again for a long time in a process that has nothing to do. */
function returnMemory(slab: Buffer): void {
	(slab.buffer as ArrayBuffer).transferToFixedLength(0);
}

/** Four full TLS records. */
export const SLAB_BYTES = 65_536;

/** Of this thread. It keeps 8 MiB in any case. */
export const SLABS = new Slabs(8_388_608);

export const TRIM_MS = 250;
/** Slabs that one `trim` returns: a millisecond of work, and 32 MiB a second. */
export const MAX_TRIMMED = 128;

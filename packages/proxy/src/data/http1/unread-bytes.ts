/**
 * Bytes read from a connection and not taken yet, in one piece. A peer that drips a long head may cause very many
 * reads. The buffer grows by doubling, so each byte is copied at most twice, and mostly never.
 */
export class UnreadBytes {
	/** `undefined`: there are none. */
	bytes: Buffer | undefined;
	/** Contains `bytes`, with room after them. */
	#slab: Buffer | undefined;
	/** `bytes` are a part of the last read. */
	#isView = false;

	/** @param read must not be changed before `keep`. */
	add(read: Buffer): void {
		const { bytes } = this;
		this.#isView = bytes === undefined;
		if (bytes === undefined) {
			this.bytes = read;
			return;
		}
		const length = bytes.length + read.length;
		let slab = this.#slab;
		let start = bytes.byteOffset;
		if (slab === undefined || slab.buffer !== bytes.buffer || start + length > slab.length) {
			// Never reuse the slab from its start: a taker of bytes may still hold them.
			slab = Buffer.allocUnsafeSlow(length * 2);
			slab.set(bytes);
			this.#slab = slab;
			start = 0;
		}
		slab.set(read, start + bytes.length);
		this.bytes = slab.subarray(start, start + length);
	}

	/** Keeps the part of `bytes` after the first `taken` ones. */
	leave(bytes: Buffer, taken: number): void {
		if (taken === bytes.length) this.clear();
		else this.bytes = bytes.subarray(taken);
	}

	/** Copies the bytes of the last read that are still here: its memory is about to be used again. */
	keep(): void {
		if (this.#isView && this.bytes !== undefined) this.bytes = Buffer.from(this.bytes);
		this.#isView = false;
	}

	clear(): void {
		this.bytes = undefined;
		this.#slab = undefined;
	}
}

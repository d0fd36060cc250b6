/**
 * What has been read of a connection and not been taken, in one piece. A client that drips a long head may bring it in very many
 * reads: what is there grows by doubling, so each of its bytes is copied twice at most, and mostly never.
 */
export class UnreadBytes {
	/** `undefined`: there are none. */
	bytes: Buffer | undefined;
	/** `bytes` are a part of it, with room behind them. */
	#slab: Buffer | undefined;

	/** @param read what no one else writes to. */
	add(read: Buffer): void {
		const { bytes } = this;
		if (bytes === undefined) {
			this.bytes = read;
			return;
		}
		const length = bytes.length + read.length;
		let slab = this.#slab;
		let start = bytes.byteOffset;
		if (slab === undefined || slab.buffer !== bytes.buffer || start + length > slab.length) {
			// Never the same slab from its start: who has taken bytes may still hold them.
			slab = Buffer.allocUnsafeSlow(length * 2);
			slab.set(bytes);
			this.#slab = slab;
			start = 0;
		}
		slab.set(read, start + bytes.length);
		this.bytes = slab.subarray(start, start + length);
	}

	/** Leaves of `bytes`, as they were, those behind the first ones. */
	leave(bytes: Buffer, taken: number): void {
		if (taken === bytes.length) this.clear();
		else this.bytes = bytes.subarray(taken);
	}

	clear(): void {
		this.bytes = undefined;
		this.#slab = undefined;
	}
}

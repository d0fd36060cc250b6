/**
 * A bell that any thread rings when something may have become free, and that all listening threads hear. A listener reads the
 * count, checks, and then waits with that count, so it does not miss a ring in between.
 */
export class WakeUp {
	readonly #rings: Int32Array;

	constructor(memory: SharedArrayBuffer) {
		this.#rings = new Int32Array(memory);
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
	}

	get count(): number {
		return Atomics.load(this.#rings, 0);
	}

	ring(): void {
		Atomics.add(this.#rings, 0, 1);
		Atomics.notify(this.#rings, 0);
	}

	/** Calls `run` once, in a later turn, as soon as the count differs from `count`. */
	onRing(count: number, run: () => void): void {
		const { async, value } = Atomics.waitAsync(this.#rings, 0, count);
		if (async) void value.then(run);
		else setImmediate(run);
	}
}

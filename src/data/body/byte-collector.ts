import type { Budget } from '../../shared/budget.ts';

/**
 * Puts a body together in memory. Its bytes are copied into one buffer that grows by doubling, so a body sent in tiny
 * pieces takes no more room than any other; what the buffer takes is drawn from the process's budget first.
 */
export class ByteCollector {
	readonly #budget: Budget;
	#buffer: Buffer = NOTHING;
	#length = 0;

	constructor(budget: Budget) {
		this.#budget = budget;
	}

	get length(): number {
		return this.#length;
	}

	get bytes(): Buffer {
		return this.#buffer.length === this.#length ? this.#buffer : this.#buffer.subarray(0, this.#length);
	}

	/**
	 * @param expected bytes that the whole body is known or likely to have, not counting on them: a hint for growth.
	 * @returns false when the budget has no room for it.
	 */
	append(chunk: Buffer, expected: number): boolean {
		const needed = this.#length + chunk.length;
		if (needed > this.#buffer.length && !this.#grow(needed, expected)) return false;
		this.#buffer.set(chunk, this.#length);
		this.#length = needed;
		return true;
	}

	/** Forgets the bytes and gives the room back. */
	release(): void {
		if (this.#buffer.length !== 0) this.#budget.giveBack(this.#buffer.length);
		this.#buffer = NOTHING;
		this.#length = 0;
	}

	#grow(needed: number, expected: number): boolean {
		// A client that announces 8 MiB and sends nothing takes no 8 MiB: at most four times what is there.
		const size = Math.max(
			needed,
			Math.min(expected, Math.max(needed * 4, FIRST_BYTES)),
			needed === expected ? 0 : 2 * this.#buffer.length,
		);
		if (!this.#budget.tryTake(size)) return false;
		const bigger = Buffer.allocUnsafe(size);
		bigger.set(this.#buffer.subarray(0, this.#length));
		if (this.#buffer.length !== 0) this.#budget.giveBack(this.#buffer.length);
		this.#buffer = bigger;
		return true;
	}
}

const NOTHING = Buffer.alloc(0);
const FIRST_BYTES = 65_536;

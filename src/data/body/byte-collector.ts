import type { Rejection } from '../../gates/rejection.ts';
import type { BufferedBytes } from './buffered-bytes.ts';

/**
 * Puts a body together in memory. Its bytes are copied into one buffer that grows by doubling, so a body sent in tiny
 * pieces takes no more room than any other; what the buffer takes is drawn from the budget of the process, and from the
 * tenant's share of it, first.
 */
export class ByteCollector {
	readonly #budget: BufferedBytes;
	readonly #tenant: bigint;
	#buffer: Buffer = NOTHING;
	#length = 0;

	/** @param tenant key of the one whose body it is. */
	constructor(budget: BufferedBytes, tenant: bigint) {
		this.#budget = budget;
		this.#tenant = tenant;
	}

	get length(): number {
		return this.#length;
	}

	get bytes(): Buffer {
		return this.#buffer.length === this.#length ? this.#buffer : this.#buffer.subarray(0, this.#length);
	}

	/**
	 * @param expected bytes that the whole body is known or likely to have, not counting on them: a hint for growth.
	 * @returns why there is no room for it.
	 */
	append(chunk: Buffer, expected: number): Rejection | undefined {
		const needed = this.#length + chunk.length;
		if (needed > this.#buffer.length) {
			const refusal = this.#grow(needed, expected);
			if (refusal) return refusal;
		}
		this.#buffer.set(chunk, this.#length);
		this.#length = needed;
		return undefined;
	}

	/** Forgets the bytes and gives the room back. */
	release(): void {
		this.#giveBack();
		this.#buffer = NOTHING;
		this.#length = 0;
	}

	#giveBack(): void {
		if (this.#buffer.length !== 0) this.#budget.giveBack(this.#tenant, this.#buffer.length);
	}

	#grow(needed: number, expected: number): Rejection | undefined {
		// A client that announces 8 MiB and sends nothing takes no 8 MiB: at most four times what is there.
		const size =
			expected >= needed
				? Math.min(expected, Math.max(needed * 4, FIRST_BYTES))
				: Math.max(needed, 2 * this.#buffer.length);
		const refusal = this.#budget.take(this.#tenant, size);
		if (refusal) return refusal;
		const bigger = Buffer.allocUnsafe(size);
		bigger.set(this.#buffer.subarray(0, this.#length));
		this.#giveBack();
		this.#buffer = bigger;
		return undefined;
	}
}

const NOTHING = Buffer.alloc(0);
const FIRST_BYTES = 65_536;

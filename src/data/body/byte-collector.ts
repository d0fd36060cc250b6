import type { Rejection } from '../../gates/rejection.ts';
import type { WholeBody } from '../client.ts';
import type { BufferedBytes } from './buffered-bytes.ts';
import { SLAB_BYTES, SLABS } from './slabs.ts';

/**
 * Puts a body together in memory, in pieces of 64 KiB that are used again for other bodies. Its bytes are copied, or read to
 * where they belong (`room`), so a body sent in tiny pieces takes no more memory than any other. What the pieces take is drawn
 * from the budget of the process, and from the tenant's share of it, first.
 */
export class ByteCollector implements WholeBody {
	/** Of the body, bytes. */
	length = 0;
	readonly #budget: BufferedBytes;
	readonly #tenant: bigint;
	/** All but the last one are full. */
	#pieces: Buffer[] = [];
	/** Bytes that the pieces have room for. */
	#capacity = 0;
	/** Pieces that `shift` has handed out, those of them that have been freed, and the bytes that are left. */
	#shifted = 0;
	#freed = 0;
	#shiftedBytes = 0;
	/** The last piece is being read to. */
	#isOpen = false;
	/** Writes that read the pieces. */
	#readers = 0;

	/** @param tenant key of the one whose body it is. */
	constructor(budget: BufferedBytes, tenant: bigint) {
		this.#budget = budget;
		this.#tenant = tenant;
	}

	/**
	 * @param expected bytes that the whole body is known or likely to have, not counting on them: a hint for growth.
	 * @returns why there is no room for it; nothing has been added then.
	 */
	append(chunk: Buffer, expected: number): Rejection | undefined {
		const refusal = this.#reserve(this.length + chunk.length, expected);
		if (refusal) return refusal;
		let from = 0;
		while (from < chunk.length) {
			const at = this.length % SLAB_BYTES;
			const piece = this.#pieces[(this.length - at) / SLAB_BYTES]!;
			const to = Math.min(chunk.length, from + piece.length - at);
			piece.set(from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to), at);
			this.length += to - from;
			from = to;
		}
		return undefined;
	}

	/**
	 * Where the next bytes may be read to; `took` says how many there were.
	 *
	 * @param expected as for `append`, and more than there are so far.
	 * @returns `undefined`: there is no room. `append` says why.
	 */
	room(expected: number): Buffer | undefined {
		if (this.#reserve(this.length + 1, expected) !== undefined) return undefined;
		this.#isOpen = true;
		const at = this.length % SLAB_BYTES;
		const piece = this.#pieces[(this.length - at) / SLAB_BYTES]!;
		return at === 0 ? piece : piece.subarray(at);
	}

	took(bytes: number): void {
		this.#isOpen = false;
		this.length += bytes;
	}

	/** All of it, for writes that are over when `returned` is called as often as this. */
	lend(): readonly Buffer[] {
		this.#readers++;
		return this.#pieces.map((_, i) => this.#piece(i));
	}

	readonly returned = (): void => {
		this.#readers--;
	};

	get left(): number {
		return this.length - this.#shiftedBytes;
	}

	shift(): Buffer | undefined {
		if (this.left === 0) return undefined;
		const piece = this.#piece(this.#shifted++);
		this.#shiftedBytes += piece.length;
		return piece;
	}

	free(): void {
		if (this.#freed < this.#shifted) this.#giveBack(this.#pieces[this.#freed++]!, true);
	}

	/** Forgets the bytes and gives the room back. Pieces that somebody may still read or write are not used again. */
	release(): void {
		for (let i = this.#freed; i < this.#pieces.length; i++) {
			const isOpen = this.#isOpen && i === this.#pieces.length - 1;
			this.#giveBack(this.#pieces[i]!, i >= this.#shifted && this.#readers === 0 && !isOpen);
		}
		this.#pieces = [];
		this.#capacity = 0;
		this.#freed = 0;
		this.#shifted = 0;
		this.#shiftedBytes = 0;
		this.length = 0;
	}

	#piece(index: number): Buffer {
		const piece = this.#pieces[index]!;
		const filled = this.length - index * SLAB_BYTES;
		return filled >= piece.length ? piece : piece.subarray(0, filled);
	}

	#giveBack(piece: Buffer, isFree: boolean): void {
		this.#budget.giveBack(this.#tenant, piece.length);
		if (isFree) SLABS.giveBack(piece);
	}

	/** Makes room for so many bytes in all. */
	#reserve(needed: number, expected: number): Rejection | undefined {
		const before = this.#pieces.length;
		while (needed > this.#capacity) {
			const refusal = this.#grow(needed, expected);
			if (refusal === undefined) continue;
			for (const piece of this.#pieces.splice(before)) {
				this.#capacity -= piece.length;
				this.#giveBack(piece, true);
			}
			return refusal;
		}
		return undefined;
	}

	/** A client that announces 8 MiB and sends nothing takes no 8 MiB: at most a piece more than is there. */
	#grow(needed: number, expected: number): Rejection | undefined {
		const last = this.#pieces.at(-1);
		const isWhole = last === undefined || last.length === SLAB_BYTES;
		const before = isWhole ? this.#capacity : this.#capacity - last.length;
		const known = expected >= needed ? expected : isWhole && last !== undefined ? Number.POSITIVE_INFINITY : needed;
		const size = Math.min(SLAB_BYTES, isWhole ? known - before : Math.max(known - before, 2 * last.length));
		const refusal = this.#budget.take(this.#tenant, size);
		if (refusal) return refusal;
		const piece = size === SLAB_BYTES ? SLABS.take() : Buffer.allocUnsafe(size);
		this.#capacity = before + size;
		if (isWhole) {
			this.#pieces.push(piece);
			return undefined;
		}
		piece.set(last);
		this.#pieces[this.#pieces.length - 1] = piece;
		this.#giveBack(last, false);
		return undefined;
	}
}

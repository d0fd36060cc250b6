import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { SLAB_BYTES, SLABS } from '../../shared/slabs.ts';
import type { WholeBody } from '../client/client-request.ts';
import { type BufferedBytes, Reservation } from './buffered-bytes.ts';

/**
 * Collects a body in memory, in pieces of 64 KiB that are reused for other bodies. Its bytes are copied, or read straight
 * into place (`room`), so a body sent in tiny pieces takes no more memory than any other. Memory for the pieces is first
 * claimed from the budget of the process and from the tenant's share.
 */
export class ByteCollector implements WholeBody {
	/** Length of the body, bytes. */
	length = 0;
	readonly #reserved: Reservation;
	/** All but the last are full. */
	#pieces: Buffer[] = [];
	/** Bytes that the pieces have room for. */
	#capacity = 0;
	/** Pieces that `shift` has handed out, those of them that have been freed, and the bytes that are left. */
	#shifted = 0;
	#freed = 0;
	#shiftedBytes = 0;
	/** A read into the last piece is under way. */
	#isOpen = false;
	/** Writes that read the pieces. */
	#readers = 0;

	constructor(budget: BufferedBytes, tenant: bigint) {
		this.#reserved = new Reservation(budget, tenant);
	}

	/**
	 * @param expected known or likely bytes of the whole body: only a hint for growth.
	 * @returns why there is no room; nothing has then been added.
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
	 * A buffer for the next bytes; `took` reports how many were read.
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

	/** Lends all pieces for writes; they are over when `returned` has been called as often as this. */
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
		if (this.#freed < this.#shifted) SLABS.release(this.#pieces[this.#freed++]!);
	}

	/** Forgets the bytes and gives their memory back. Pieces that may still be read or written are not reused. */
	release(): void {
		for (let i = this.#freed; i < this.#pieces.length; i++) {
			const isOpen = this.#isOpen && i === this.#pieces.length - 1;
			if (i >= this.#shifted && this.#readers === 0 && !isOpen) SLABS.release(this.#pieces[i]!);
		}
		this.#reserved.release();
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

	/** Claims memory for `needed` bytes in total, before it is allocated. */
	#reserve(needed: number, expected: number): Rejection | undefined {
		const reserved = this.#reserved;
		if (needed > reserved.size) {
			// A client that announces 8 MiB and sends nothing does not take 8 MiB: at most four times what has arrived.
			const size =
				expected >= needed ? Math.min(expected, Math.max(needed * 4, SLAB_BYTES)) : Math.max(needed, 2 * reserved.size);
			const refusal = reserved.resize(size);
			if (refusal) return refusal;
		}
		while (needed > this.#capacity) this.#grow();
		return undefined;
	}

	/** Adds a piece, or grows the last one to full size, within the reservation. */
	#grow(): void {
		const last = this.#pieces.at(-1);
		const isFull = last === undefined || last.length === SLAB_BYTES;
		const before = isFull ? this.#capacity : this.#capacity - last.length;
		const size = Math.min(SLAB_BYTES, this.#reserved.size - before);
		const piece = size === SLAB_BYTES ? SLABS.take() : Buffer.allocUnsafe(size);
		if (!isFull) piece.set(this.#pieces.pop()!);
		this.#pieces.push(piece);
		this.#capacity = before + size;
	}
}

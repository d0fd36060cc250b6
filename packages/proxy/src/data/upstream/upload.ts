import type { Socket } from 'node:net';
import type { Trailers } from '../../gates/trailers.ts';
import { SLAB_BYTES, SLABS } from '../../shared/slabs.ts';
import { lastChunk } from '../http1/last-chunk.ts';
import { guarded } from '../loop/faults.ts';
import type { Flushed, FlushQueue } from '../loop/turn-end.ts';

/** Whose body it is. */
interface UploadOwner {
	/** So many bytes of memory wait for the upstream beyond this turn. */
	onUploadHeld(bytes: number): void;
}

/**
 * A request's body on its way to the upstream, piece by piece. A client may cut it into any number of pieces, and
 * each write costs a system call, and a kilobyte of bookkeeping until it is done. So the pieces of one turn of the loop are copied to a
 * slab and go out in one write, and so are those that arrive during another write.
 */
export class Upload implements Flushed {
	readonly #owner: UploadOwner;
	readonly #socket: Socket;
	readonly #flushes: FlushQueue;
	/** Whether the bytes are framed as chunks (RFC 9112 section 7.1). */
	readonly #chunked: boolean;
	/** Holds the bytes that wait to be sent, from `OPENING` on. */
	#slab: Buffer | undefined;
	#length = 0;
	/** Writes under way, and how many of them began in this turn. */
	#writes = 0;
	#writesOfTurn = 0;
	/** Turns of the loop in which parts of the body arrived. */
	turns = 0;
	/** Part of the body has arrived in this turn; `flush` follows at its end. */
	#inTurn = false;
	/** Bytes of memory that the owner knows of. */
	#held = 0;
	#tellsLater = false;

	constructor(socket: Socket, chunked: boolean, flushes: FlushQueue, owner: UploadOwner) {
		this.#owner = owner;
		this.#socket = socket;
		this.#chunked = chunked;
		this.#flushes = flushes;
	}

	/** @param piece is copied. @returns whether more may follow at once; otherwise the socket's `drain` tells. */
	write(piece: Buffer): boolean {
		this.#beginTurn();
		for (let from = 0; from < piece.length; ) {
			from = this.#gather(piece, from);
			if (this.#length >= ENOUGH) this.#send();
		}
		return !this.#socket.writableNeedDrain;
	}

	/** @returns where the part of the piece that has no room begins. */
	#gather(piece: Buffer, from: number): number {
		this.#slab ??= SLABS.take();
		const to = Math.min(piece.length, from + ROOM - this.#length);
		const isWhole = from === 0 && to === piece.length;
		this.#slab.set(isWhole ? piece : piece.subarray(from, to), OPENING + this.#length);
		this.#length += to - from;
		return to;
	}

	/** Lasts beyond the next tick: Node's TLS has one after each record of a read. */
	#beginTurn(): void {
		if (this.#inTurn) return;
		this.#inTurn = true;
		this.turns++;
		this.#writesOfTurn = 0;
		this.#flushes.add(this);
	}

	/** The turn is over. */
	flush(): void {
		this.#inTurn = false;
		// Also if much waits on the socket: that may be a head, and nothing would send this after its write.
		if (this.#writes <= this.#writesOfTurn) this.#send();
		if (this.#held > 0) this.#tellHeld();
		else if (this.#socket.writableLength > 0) this.#tellLater();
	}

	/** Over TLS, Node reports a write's end only in the next turn, although the kernel has taken all of it. */
	#tellLater(): void {
		if (this.#tellsLater) return;
		this.#tellsLater = true;
		setImmediate(
			guarded(this, () => {
				this.#tellsLater = false;
				this.#tellHeld();
			}),
		);
	}

	/** A slab is held as a whole, however few of its bytes wait. */
	#tellHeld(): void {
		const { writableLength } = this.#socket;
		const slabs = writableLength === 0 ? 0 : this.#writes + (this.#slab === undefined ? 0 : 1);
		if (slabs * SLAB_BYTES === this.#held) return;
		this.#held = slabs * SLAB_BYTES;
		this.#owner.onUploadHeld(this.#held);
	}

	/** The body is complete. @param trailers of a chunked one. */
	finish(trailers?: Trailers): void {
		if (!this.#chunked) return this.#send();
		const socket = this.#socket;
		socket.cork();
		this.#send();
		socket.write(lastChunk(trailers), 'latin1');
		socket.uncork();
	}

	#send(): void {
		const slab = this.#slab;
		// An empty chunk would be the last one.
		if (slab === undefined) return;
		const length = this.#length;
		this.#slab = undefined;
		this.#length = 0;
		const socket = this.#socket;
		if (socket.destroyed) return SLABS.release(slab);
		this.#writes++;
		this.#writesOfTurn++;
		const bytes = this.#chunked ? chunkIn(slab, length) : slab.subarray(OPENING, OPENING + length);
		socket.write(
			bytes,
			guarded(this, (error?: Error | null) => this.#onWritten(slab, error)),
		);
	}

	#onWritten(slab: Buffer, error?: Error | null): void {
		// A socket that has failed may still read it.
		if (!error) SLABS.release(slab);
		this.#writes--;
		if (this.#writes === 0) this.#send();
		if (this.#held > 0) this.#tellHeld();
	}

	/** The connection sees this as an error of its socket. */
	onFault(error: unknown): void {
		this.#socket.destroy(error as Error);
	}
}

/** Puts the line with the size before the bytes, and the end of the chunk after them. @returns all of it. */
function chunkIn(slab: Buffer, length: number): Buffer {
	const line = `${length.toString(16)}\r\n`;
	const from = OPENING - line.length;
	const to = OPENING + length;
	slab.write(line, from, 'latin1');
	slab[to] = CR;
	slab[to + 1] = LF;
	return slab.subarray(from, to + CLOSING);
}

/** Longest line with the size of a chunk, and the end of a chunk, bytes. */
const OPENING = 6;
const CLOSING = 2;
/** Bytes of the body in a slab. */
const ROOM = SLAB_BYTES - OPENING - CLOSING;
/** From this size on, bytes do not wait for the turn's end: more would look like an upstream that does not read. */
const ENOUGH = 32_768;
const CR = 0x0d;
const LF = 0x0a;

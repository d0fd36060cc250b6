import type { Socket } from 'node:net';
import type { Trailers } from '../../gates/trailers.ts';
import { lastChunk } from '../http1/last-chunk.ts';
import { guarded } from '../loop/faults.ts';
import type { Flushed, FlushQueue } from '../loop/turn-end.ts';

/**
 * A request's body on its way to the upstream, piece by piece. A client may cut it into any number of pieces, and
 * each write costs a system call, and a kilobyte of bookkeeping until it is done. So the pieces of one turn of the loop go out in
 * one write; small ones, and those that arrive during another write, are joined.
 */
export class Upload implements Flushed {
	readonly #socket: Socket;
	readonly #flushes: FlushQueue;
	/** Whether the pieces are framed as chunks (RFC 9112 section 7.1). */
	readonly #chunked: boolean;
	/** Bytes that wait to be sent: one original piece, or several in a buffer with room for more. */
	#waiting: Buffer | undefined;
	#length = 0;
	/** Writes under way, and how many of them began in this turn. */
	#writes = 0;
	#writesOfTurn = 0;
	/** Turns of the loop in which parts of the body arrived. */
	turns = 0;
	/** Part of the body has arrived in this turn; `flush` follows at its end. */
	#inTurn = false;
	/** Several writes of this turn become one. */
	#isCorked = false;

	constructor(socket: Socket, chunked: boolean, flushes: FlushQueue) {
		this.#socket = socket;
		this.#chunked = chunked;
		this.#flushes = flushes;
	}

	/** @returns whether more may follow at once; otherwise the socket's `drain` tells. */
	write(piece: Buffer): boolean {
		this.#beginTurn();
		if (piece.length >= SMALL || this.#length + piece.length > GATHERED) {
			this.#cork();
			this.#sendGathered();
		}
		if (piece.length >= SMALL) this.#send(piece);
		// An empty chunk would be the last one.
		else if (piece.length !== 0) this.#gather(piece);
		if (this.#socket.writableLength >= CORKED) this.#uncork();
		return !this.#socket.writableNeedDrain;
	}

	#gather(piece: Buffer): void {
		if (this.#length === 0) {
			this.#waiting = piece;
		} else {
			if (this.#waiting!.length === this.#length) {
				const several = Buffer.allocUnsafe(GATHERED);
				several.set(this.#waiting!);
				this.#waiting = several;
			}
			this.#waiting!.set(piece, this.#length);
		}
		this.#length += piece.length;
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
		if (this.#writes <= this.#writesOfTurn && !this.#socket.destroyed) this.#sendGathered();
		this.#uncork();
	}

	#cork(): void {
		if (this.#isCorked) return;
		this.#isCorked = true;
		this.#socket.cork();
	}

	#uncork(): void {
		if (!this.#isCorked) return;
		this.#isCorked = false;
		this.#socket.uncork();
	}

	#sendGathered(): void {
		if (this.#length === 0) return;
		const waiting = this.#waiting!.subarray(0, this.#length);
		this.#waiting = undefined;
		this.#length = 0;
		this.#send(waiting);
	}

	/** The body is complete. @param trailers of a chunked one. */
	finish(trailers?: Trailers): void {
		if (this.#chunked) this.#cork();
		this.#sendGathered();
		if (this.#chunked) this.#socket.write(lastChunk(trailers), 'latin1');
		this.#uncork();
	}

	#send(bytes: Buffer): void {
		const socket = this.#socket;
		this.#writes++;
		this.#writesOfTurn++;
		if (!this.#chunked) return void socket.write(bytes, this.#onWritten);
		socket.cork();
		socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
		socket.write(bytes);
		socket.write('\r\n', 'latin1', this.#onWritten);
		socket.uncork();
	}

	readonly #onWritten = guarded(this, (): void => {
		this.#writes--;
		if (this.#writes === 0 && !this.#socket.destroyed) this.#sendGathered();
	});

	/** The connection sees this as an error of its socket. */
	onFault(error: unknown): void {
		this.#socket.destroy(error as Error);
	}
}

/** Pieces from this size on are worth a write of their own, bytes. */
const SMALL = 4096;
const GATHERED = 16_384;
/** From this size on, bytes do not wait for the turn's end: more would look like an upstream that does not read. */
const CORKED = 32_768;

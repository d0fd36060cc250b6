import { SLAB_BYTES, SLABS } from '../shared/slabs.ts';
import { headersFrames, MAX_FRAME_SIZE } from './frame-format.ts';
import type { Output } from './output.ts';
import type { Sender } from './sender-turns.ts';

/** The sending direction of a stream, within its window and the connection's (RFC 9113 sections 5.2 and 6.9). */
export abstract class SendingStream implements Sender {
	/** 0 until it is opened. */
	id: number;
	readonly output: Output;
	/** The tenant of the stream, if tenants share the connection. */
	tenant: string | undefined = undefined;
	isLocalOpen = true;
	/** The stream's send window; negative after the peer has reduced its initial window (section 6.9.2). */
	sendWindow: number;
	#pending: Piece[] = [];
	#pendingAt = 0;
	#endsWithPending = false;
	/** Header block to send after the pending data. */
	#trailers: string | undefined;
	#isWaiting = false;

	constructor(output: Output, id: number, sendWindow: number) {
		this.output = output;
		this.id = id;
		this.sendWindow = sendWindow;
	}

	/** The end has been given to `sendData`, but pending data is before it. */
	get isEnding(): boolean {
		return this.isLocalOpen && this.#endsWithPending;
	}

	/** Memory of the pending data, bytes. */
	get pendingBytes(): number {
		return this.#pending.reduce((sum, { bytes, slab }) => sum + (slab ?? bytes).length, 0);
	}

	/** The pending data has been sent. */
	abstract onRoom(): void;
	/** Everything up to the end of the stream has been sent. */
	protected abstract onSent(): void;

	/** @param block HPACK-encoded. */
	sendHeaders(block: string, endStream: boolean): void {
		if (!this.isLocalOpen) return;
		// Identifier 0 is for the connection: the peer would end it, and with it all other requests.
		if (this.id === 0) throw new Error('HEADERS on a stream that is not open');
		this.output.write(headersFrames(this.id, this.output.blockPrefix() + block, endStream));
		if (endStream) this.#end();
	}

	/**
	 * Sends a piece of the body, as far as the windows allow. The rest follows when they open.
	 *
	 * @param data must not change until it has been sent.
	 * @param isView the part that cannot be sent at once is copied.
	 * @returns whether all of it was sent; otherwise `onRoom` is called later.
	 */
	sendData(data: string | Buffer, endStream: boolean, isView = false): boolean {
		if (!this.isLocalOpen) return true;
		const { output } = this;
		if (this.#pending.length === 0 && data.length <= output.room && data.length <= this.sendWindow) {
			this.sendWindow -= data.length;
			output.writeData(this.id, data, endStream);
			if (endStream) this.#end();
			return true;
		}
		// An empty frame needs no window (RFC 9113 section 6.9.1).
		if (data.length === 0 && this.#pending.length === 0) {
			if (!endStream) return true;
			output.writeData(this.id, '', true);
			this.#end();
			return true;
		}
		if (data.length > 0) {
			this.#pending.push({ bytes: typeof data === 'string' ? Buffer.from(data, 'latin1') : data, slab: undefined });
		}
		this.#endsWithPending = endStream;
		while (this.#frame());
		if (isView && this.#pending.length > 0) this.#keepLast();
		this.#wait();
		return this.#pending.length === 0;
	}

	/** Copies the rest of the last piece. */
	#keepLast(): void {
		const at = this.#pending.length === 1 ? this.#pendingAt : 0;
		const rest = this.#pending.pop()!.bytes.subarray(at);
		if (at > 0) this.#pendingAt = 0;
		const slab = rest.length > SMALL_REST && rest.length <= SLAB_BYTES ? SLABS.take() : undefined;
		slab?.set(rest);
		this.#pending.push({ bytes: slab?.subarray(0, rest.length) ?? Buffer.from(rest), slab });
	}

	/** Ends the stream with a header block after all data (RFC 9113 section 8.1). @param block HPACK-encoded. */
	sendTrailers(block: string): void {
		if (this.#pending.length === 0) this.sendHeaders(block, true);
		else this.#trailers = block;
	}

	/** Called when it is this stream's turn. */
	sendFrame(): boolean {
		this.#isWaiting = false;
		if (this.#frame()) {
			this.#isWaiting = true;
			return true;
		}
		if (this.#pending.length === 0 && this.isLocalOpen) this.onRoom();
		return false;
	}

	/** Sends one frame. @returns whether the stream's own window allows another one. */
	#frame(): boolean {
		const first = this.#pending[0];
		if (first === undefined || !this.isLocalOpen) return false;
		const { bytes: next, slab } = first;
		const { output } = this;
		const left = next.length - this.#pendingAt;
		const length = Math.min(left, output.room, this.sendWindow, MAX_FRAME_SIZE);
		if (length <= 0) return false;
		const data = next.subarray(this.#pendingAt, this.#pendingAt + length);
		this.#pendingAt += length;
		if (length === left) {
			this.#pending.shift();
			this.#pendingAt = 0;
		}
		const isLast = this.#pending.length === 0;
		this.sendWindow -= length;
		output.writeData(this.id, data, isLast && this.#endsWithPending);
		if (length === left && slab !== undefined) SLABS.release(slab);
		if (isLast && this.#endsWithPending) this.#end();
		else if (isLast && this.#trailers !== undefined) this.sendHeaders(this.#trailers, true);
		return !isLast && this.sendWindow > 0;
	}

	/** Call it when the peer has opened the stream's window. */
	resumeSending(): void {
		if (this.#pending.length > 0) this.#wait();
	}

	dropPending(): void {
		for (const { slab } of this.#pending) if (slab !== undefined) SLABS.release(slab);
		this.#pending = [];
		if (this.#isWaiting) this.output.turns.forget(this);
		this.#isWaiting = false;
	}

	/** Waits for the connection, unless the stream's own window is closed. */
	#wait(): void {
		if (this.#isWaiting || this.#pending.length === 0 || this.sendWindow <= 0) return;
		this.#isWaiting = true;
		this.output.turns.wait(this);
	}

	#end(): void {
		this.isLocalOpen = false;
		this.onSent();
	}
}

interface Piece {
	readonly bytes: Buffer;
	/** The slab of the bytes, if the stream owns it. */
	readonly slab: Buffer | undefined;
}

/** Pieces up to this size are not worth a slab, bytes. */
const SMALL_REST = 16_384;

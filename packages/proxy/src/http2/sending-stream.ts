import { SLAB_BYTES, SLABS } from '../shared/slabs.ts';
import { headersFrames, MAX_FRAME_SIZE } from './frame-format.ts';
import type { Output } from './output.ts';
import type { Sender } from './sender-turns.ts';

/** One direction of a stream: what we send on it, as far as its window and the connection's allow (RFC 9113 sections 5.2 and 6.9). */
export abstract class SendingStream implements Sender {
	/** 0 until it is opened. */
	id: number;
	readonly output: Output;
	/** Whose it is, where tenants share the connection. */
	tenant: string | undefined = undefined;
	/** We may still send. */
	isLocalOpen = true;
	/** What the peer allows us to send; negative after it has made its initial windows smaller (section 6.9.2). */
	sendWindow: number;
	/** What could not go out yet. */
	#pending: Piece[] = [];
	#pendingAt = 0;
	#endsWithPending = false;
	/** Header block that goes out after the pending data. */
	#trailers: string | undefined;
	#isWaiting = false;

	constructor(output: Output, id: number, sendWindow: number) {
		this.output = output;
		this.id = id;
		this.sendWindow = sendWindow;
	}

	/** All that is to be sent is there, and some of it could not go out yet. */
	get isEnding(): boolean {
		return this.isLocalOpen && this.#endsWithPending;
	}

	/** What `sendData` could not send has gone out. */
	abstract onRoom(): void;
	/** All that is to be sent has been sent. */
	protected abstract onSent(): void;

	/** @param block coded. */
	protected writeHeaders(block: string, endStream: boolean): void {
		// Frames of the whole connection have identifier 0: the peer would end it, and with it everybody's requests.
		if (this.id === 0) throw new Error('HEADERS on a stream that is not open');
		this.output.write(headersFrames(this.id, block, endStream));
		if (endStream) this.#end();
	}

	/**
	 * Sends some of the body, as far as the windows allow; the rest follows when they open.
	 *
	 * @param data not changed by anybody until it has gone out.
	 * @param isView what cannot go out at once is copied.
	 * @returns whether all of it went out; otherwise `onRoom` tells.
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
		// An empty frame needs no window (RFC 9113 section 6.9.1), only its turn.
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

	/** Copies what is left of the last piece. */
	#keepLast(): void {
		const at = this.#pending.length === 1 ? this.#pendingAt : 0;
		const rest = this.#pending.pop()!.bytes.subarray(at);
		if (at > 0) this.#pendingAt = 0;
		const slab = rest.length > SMALL_REST && rest.length <= SLAB_BYTES ? SLABS.take() : undefined;
		slab?.set(rest);
		this.#pending.push({ bytes: slab?.subarray(0, rest.length) ?? Buffer.from(rest), slab });
	}

	/** Ends the stream with a header block behind all that was given to `sendData` (RFC 9113 section 8.1). @param block coded. */
	sendTrailers(block: string): void {
		if (!this.isLocalOpen) return;
		if (this.#pending.length === 0) this.writeHeaders(block, true);
		else this.#trailers = block;
	}

	/** It is this one's turn. */
	sendFrame(): boolean {
		this.#isWaiting = false;
		if (this.#frame()) {
			this.#isWaiting = true;
			return true;
		}
		if (this.#pending.length === 0 && this.isLocalOpen) this.onRoom();
		return false;
	}

	/** @returns whether the stream's own window would allow another one. */
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
		else if (isLast && this.#trailers !== undefined) this.writeHeaders(this.#trailers, true);
		return !isLast && this.sendWindow > 0;
	}

	/** The peer has opened the stream's window. */
	resumeSending(): void {
		if (this.#pending.length > 0) this.#wait();
	}

	/** Forgets what could not go out. */
	dropPending(): void {
		for (const { slab } of this.#pending) if (slab !== undefined) SLABS.release(slab);
		this.#pending = [];
		if (this.#isWaiting) this.output.forget(this);
		this.#isWaiting = false;
	}

	/** A stream whose own window is closed waits for nothing that the connection could tell. */
	#wait(): void {
		if (this.#isWaiting || this.#pending.length === 0 || this.sendWindow <= 0) return;
		this.#isWaiting = true;
		this.output.wait(this);
	}

	#end(): void {
		this.isLocalOpen = false;
		this.onSent();
	}
}

/** Of a body. */
interface Piece {
	readonly bytes: Buffer;
	/** That they are in, if it is the stream's own. */
	readonly slab: Buffer | undefined;
}

/** What is no larger than this is not worth a slab, bytes. */
const SMALL_REST = 16_384;

import { headersFrames, INITIAL_WINDOW, MAX_FRAME_SIZE } from '../../http2/frame-format.ts';
import type { Output, Sender } from '../../http2/output.ts';
import { SLAB_BYTES, SLABS } from '../../shared/slabs.ts';
import type { UnwantedBody } from '../client/unwanted-body.ts';

/** The connection, as its streams see it. */
export interface StreamOwner {
	readonly output: Output;
	/** Begins the connection's first header block; nothing in later ones. */
	blockPrefix(): string;
	/** The answer is complete, though the request need not be. */
	onAnswerEnd(stream: Stream): void;
	/** Resets it because of something that is not the client's fault. */
	reset(stream: Stream, code: number): void;
	/** Bytes of a body have been taken: the windows may be opened by as many. */
	giveBack(stream: Stream, bytes: number): void;
	/** Nobody takes any more of the body: what is held and what still comes is dropped. */
	dropBody(stream: Stream): void;
}

/** One request and its answer, as far as frames and windows go (RFC 9113 section 5). */
export abstract class Stream implements Sender {
	readonly id: number;
	readonly owner: StreamOwner;
	/** The client may still send. */
	isRemoteOpen: boolean;
	/** We may still send. */
	isLocalOpen = true;
	isClosed = false;
	/** What the client allows us to send; negative after it has made its initial windows smaller (section 6.9.2). */
	sendWindow: number;
	/** What we allow the client to send. */
	receiveWindow = INITIAL_WINDOW;
	/** Taken, and not given back to the client yet, bytes. */
	owed = 0;
	/** The window that the client has of us when it owes us nothing. */
	fullWindow = INITIAL_WINDOW;
	/** Whatever comes of the body is taken at once, so a larger window lets nothing wait here. */
	isTakenAtOnce = false;
	/** Received and not taken, bytes. */
	held = 0;
	/** Of the DATA frame that is coming: what its data has not taken, bytes. */
	paddingDue = 0;
	/** Tokens that its head has cost the connection. */
	headPrice = 0;
	/** What is dropped of the body, from `dropBody` on. */
	unwanted: UnwantedBody | undefined = undefined;
	/** `content-length`, or -1. */
	readonly declaredLength: number;
	/** Of the body, bytes. */
	received = 0;
	/** What could not go out yet. */
	#pending: Piece[] = [];
	#pendingAt = 0;
	#endsWithPending = false;
	#isWaiting = false;

	constructor(owner: StreamOwner, id: number, endStream: boolean, declaredLength: number, sendWindow: number) {
		this.owner = owner;
		this.id = id;
		this.isRemoteOpen = !endStream;
		this.declaredLength = declaredLength;
		this.sendWindow = sendWindow;
	}

	/** Some of the body, to be taken at once or kept in copy. `owner.giveBack` is called when it is taken. */
	abstract onBody(bytes: Buffer): void;
	/** The body is complete. */
	abstract onBodyEnd(): void;
	/** What `send` could not send has gone out. */
	abstract onRoom(): void;
	/** The whole answer is on its way. */
	abstract onAnswerSent(): void;
	/** Closed before its answer was complete: nobody waits for it any more. @param why for an error of the client's, with its code. */
	abstract onGone(why?: string, code?: number): void;

	/** @param block coded. */
	sendHeaders(block: string, endStream: boolean): void {
		if (!this.isLocalOpen) return;
		this.owner.output.write(headersFrames(this.id, this.owner.blockPrefix() + block, endStream));
		if (endStream) this.#end();
	}

	/**
	 * Sends some of the answer's body, as far as the windows allow; the rest follows when they open.
	 *
	 * @param data not changed by anybody until it has gone out.
	 * @param isView what cannot go out at once is copied.
	 * @returns whether all of it went out; otherwise `onRoom` tells.
	 */
	send(data: string | Buffer, endStream: boolean, isView = false): boolean {
		if (!this.isLocalOpen) return true;
		const { output } = this.owner;
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
		const { output } = this.owner;
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
		if (length === left && slab !== undefined) SLABS.giveBack(slab);
		if (isLast && this.#endsWithPending) this.#end();
		return !isLast && this.sendWindow > 0;
	}

	/** The client has opened the stream's window. */
	resumeSending(): void {
		if (this.#pending.length > 0) this.#wait();
	}

	/** Forgets what could not go out. */
	dropPending(): void {
		for (const { slab } of this.#pending) if (slab !== undefined) SLABS.giveBack(slab);
		this.#pending = [];
		if (this.#isWaiting) this.owner.output.forget(this);
		this.#isWaiting = false;
	}

	/** A stream whose own window is closed waits for nothing that the connection could tell. */
	#wait(): void {
		if (this.#isWaiting || this.#pending.length === 0 || this.sendWindow <= 0) return;
		this.#isWaiting = true;
		this.owner.output.wait(this);
	}

	#end(): void {
		this.isLocalOpen = false;
		this.owner.onAnswerEnd(this);
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

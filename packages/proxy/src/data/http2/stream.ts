import type { Trailers } from '../../gates/trailers.ts';
import { INITIAL_WINDOW } from '../../http2/frame-format.ts';
import type { Output } from '../../http2/output.ts';
import { SendingStream } from '../../http2/sending-stream.ts';
import type { UnwantedBody } from '../client/unwanted-body.ts';

/** The connection, as its streams see it. */
export interface StreamOwner {
	readonly output: Output;
	/** The start of the connection's first header block; empty for later ones. */
	blockPrefix(): string;
	/** The response is complete; the request may not be. */
	onResponseEnd(stream: Stream): void;
	/** Resets the stream for a reason that is not the client's fault. */
	reset(stream: Stream, code: number): void;
	/** Bytes of a body have been taken: the windows may be opened by as many. */
	release(stream: Stream, bytes: number): void;
	/** The body is no longer wanted: drops held and further bytes. */
	dropBody(stream: Stream): void;
}

/** One request and its response, as far as frames and windows go (RFC 9113 section 5). */
export abstract class Stream extends SendingStream {
	readonly owner: StreamOwner;
	/** The client may still send. */
	isRemoteOpen: boolean;
	isClosed = false;
	/** The window that we allow the client. */
	receiveWindow = INITIAL_WINDOW;
	/** Bytes taken but not given back to the client's window yet. */
	owed = 0;
	/** The client's window when nothing is outstanding. */
	fullWindow = INITIAL_WINDOW;
	/** The body is taken at once, so a larger window makes no bytes wait here. */
	isTakenAtOnce = false;
	/** Its two directions end separately: the end of the response does not end the request. */
	isTunnel = false;
	/** Received and not taken, bytes. */
	held = 0;
	/** Bytes of the current DATA frame without the data read so far: its padding, in the end. */
	paddingDue = 0;
	/** Tokens that come back when its request is admitted: those of its head, and of short trailers in the same turn. */
	headPrice = 0;
	/** Its request is charged to its tenant, and may have reached an upstream. */
	isAdmitted = false;
	/** The dropped part of the body, from `dropBody` on. */
	unwanted: UnwantedBody | undefined = undefined;
	/** `content-length`, or -1. */
	readonly declaredLength: number;
	/** Received bytes of the body. */
	received = 0;

	constructor(owner: StreamOwner, id: number, endStream: boolean, declaredLength: number, sendWindow: number) {
		super(owner.output, id, sendWindow);
		this.owner = owner;
		this.isRemoteOpen = !endStream;
		this.declaredLength = declaredLength;
	}

	/** Part of the body: take it at once or copy it. `owner.release` is called when it is taken. */
	abstract onBody(bytes: Buffer): void;
	/** The body is complete. */
	abstract onBodyEnd(trailers?: Trailers): void;
	/** The whole response is on its way. */
	abstract onResponseSent(): void;
	/** Closed before its response was complete: the client no longer waits. @param why for an error of the client, with its code. */
	abstract onGone(why?: string, code?: number): void;
	/** The proxy ends. */
	abstract outOfTime(): void;

	/** @param block coded. */
	sendHeaders(block: string, endStream: boolean): void {
		if (!this.isLocalOpen) return;
		this.writeHeaders(this.owner.blockPrefix() + block, endStream);
	}

	protected override onSent(): void {
		this.owner.onResponseEnd(this);
	}
}

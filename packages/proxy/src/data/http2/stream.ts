import type { Trailers } from '../../gates/trailers.ts';
import { INITIAL_WINDOW } from '../../http2/frame-format.ts';
import type { Output } from '../../http2/output.ts';
import { SendingStream } from '../../http2/sending-stream.ts';
import type { UnwantedBody } from '../client/unwanted-body.ts';

/** The connection, as its streams see it. */
export interface StreamOwner {
	readonly output: Output;
	/** Begins the connection's first header block; nothing in later ones. */
	blockPrefix(): string;
	/** The answer is complete, though the request need not be. */
	onResponseEnd(stream: Stream): void;
	/** Resets it because of something that is not the client's fault. */
	reset(stream: Stream, code: number): void;
	/** Bytes of a body have been taken: the windows may be opened by as many. */
	release(stream: Stream, bytes: number): void;
	/** Nobody takes any more of the body: what is held and what still comes is dropped. */
	dropBody(stream: Stream): void;
}

/** One request and its answer, as far as frames and windows go (RFC 9113 section 5). */
export abstract class Stream extends SendingStream {
	readonly owner: StreamOwner;
	/** The client may still send. */
	isRemoteOpen: boolean;
	isClosed = false;
	/** What we allow the client to send. */
	receiveWindow = INITIAL_WINDOW;
	/** Taken, and not given back to the client yet, bytes. */
	owed = 0;
	/** The window that the client has of us when it owes us nothing. */
	fullWindow = INITIAL_WINDOW;
	/** Whatever comes of the body is taken at once, so a larger window lets nothing wait here. */
	isTakenAtOnce = false;
	/** Its two directions end each by itself: the end of the answer does not end the request. */
	isTunnel = false;
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

	constructor(owner: StreamOwner, id: number, endStream: boolean, declaredLength: number, sendWindow: number) {
		super(owner.output, id, sendWindow);
		this.owner = owner;
		this.isRemoteOpen = !endStream;
		this.declaredLength = declaredLength;
	}

	/** Some of the body, to be taken at once or kept in copy. `owner.release` is called when it is taken. */
	abstract onBody(bytes: Buffer): void;
	/** The body is complete. */
	abstract onBodyEnd(trailers?: Trailers): void;
	/** The whole answer is on its way. */
	abstract onResponseSent(): void;
	/** Closed before its answer was complete: nobody waits for it any more. @param why for an error of the client's, with its code. */
	abstract onGone(why?: string, code?: number): void;

	/** @param block coded. */
	sendHeaders(block: string, endStream: boolean): void {
		if (!this.isLocalOpen) return;
		this.writeHeaders(this.owner.blockPrefix() + block, endStream);
	}

	protected override onSent(): void {
		this.owner.onResponseEnd(this);
	}
}

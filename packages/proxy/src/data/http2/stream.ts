import type { Trailers } from '../../gates/trailers.ts';
import type { Output } from '../../http2/output.ts';
import { HttpStream } from '../../http2/stream-set.ts';
import type { UnwantedBody } from '../client/unwanted-body.ts';

/** The connection, as its streams see it. */
export interface StreamOwner {
	readonly output: Output;
	/** The response is complete; the request may not be. */
	onResponseEnd(stream: Stream): void;
	/** Resets the stream for a reason that is not the client's fault. */
	reset(stream: Stream, code: number): void;
	/** Bytes of a body have been taken: the windows may be opened by as many. */
	release(stream: Stream, bytes: number): void;
	/** The body is no longer wanted: drops held and further bytes. */
	dropBody(stream: Stream): void;
}

/** The server's side of one request and its response. */
export abstract class Stream extends HttpStream {
	readonly owner: StreamOwner;
	/** Tokens that come back when its request is admitted: those of its head, and of short trailers in the same turn. */
	headPrice = 0;
	/** Its request is charged to its tenant, and may have reached an upstream. */
	isAdmitted = false;
	/** The dropped part of the body, from `dropBody` on. */
	unwanted: UnwantedBody | undefined = undefined;

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
	abstract outOfTime(): void;

	protected override onSent(): void {
		this.owner.onResponseEnd(this);
	}
}

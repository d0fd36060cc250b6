import { HttpStream } from '../stream-set.ts';
import type { ClientStreams } from './client-streams.ts';
import type { ResponseFacts } from './response-fields.ts';

/** Why a stream ended before its response was complete. */
export interface StreamEnd {
	readonly kind: /** The server has not processed the request, and says so: any request may be retried (RFC 9113 section 8.7). */
		| 'refused'
		/** The server has reset the stream. */
		| 'reset'
		/** The server has reset it with ENHANCE_YOUR_CALM (RFC 9113 section 7), for example for too many fields. */
		| 'excessive'
		/** The server's response is malformed. */
		| 'malformed'
		/** The connection has ended. */
		| 'lost';
	/** In words, for operators. */
	readonly cause: string;
}

/** The client's side of one request and its response. */
export abstract class ClientStream extends HttpStream {
	/** The final response has begun. */
	hasHead = false;
	/** The response may have a body. */
	hasBody = true;
	/** Interim responses so far. */
	interim = 0;
	/** Method of the request; empty before it is sent. */
	method = '';
	protected readonly owner: ClientStreams;

	constructor(owner: ClientStreams) {
		super(owner.output, 0, 0);
		this.owner = owner;
	}

	/** The final response begins. */
	abstract onResponse(facts: ResponseFacts, endStream: boolean): void;
	/** A piece of the body, a view that is valid during the call. Call `owner.release` when it is consumed. */
	abstract onBody(bytes: Buffer): void;
	/** The response is complete. @param trailers alternating names and values; `undefined`: none. */
	abstract onResponseEnd(trailers: readonly string[] | undefined): void;
	/** The stream was closed before the response was complete. */
	abstract onClosed(end: StreamEnd): void;

	/** Opens the stream. @param block HPACK-encoded. */
	begin(method: string, block: string, endStream: boolean): void {
		this.method = method;
		this.owner.begin(this);
		this.sendHeaders(block, endStream);
	}

	protected override onSent(): void {
		if (this.isTunnel && !this.isRemoteOpen) this.owner.tunnelEnded(this);
	}
}

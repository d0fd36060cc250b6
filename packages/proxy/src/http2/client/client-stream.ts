import { SendingStream } from '../sending-stream.ts';
import type { ClientProtocol } from './client-protocol.ts';
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

/** The client's side of one request and its response: frames and windows (RFC 9113 section 5). */
export abstract class ClientStream extends SendingStream {
	/** The server may still send. */
	isRemoteOpen = true;
	/** It gets no more events. */
	isClosed = false;
	/** The final response has begun. */
	hasHead = false;
	/** The response may have a body. */
	hasBody = true;
	/** The server has accepted an extended CONNECT (RFC 8441 section 4): each side ends independently. */
	isTunnel = false;
	/** Interim responses so far. */
	interim = 0;
	/** How much the server may still send, bytes. */
	receiveWindow = 0;
	/** Consumed, and not yet returned to the server's window, bytes. */
	owed = 0;
	/** Received and not yet consumed, bytes. */
	held = 0;
	/** Bytes of the current DATA frame that were not data so far: in the end, its padding. */
	paddingDue = 0;
	/** `content-length`, or `UNDECLARED`. */
	declaredLength = -1;
	/** Bytes of the body so far. */
	received = 0;
	/** Method of the request; empty before it is sent. */
	method = '';
	protected readonly protocol: ClientProtocol;

	constructor(protocol: ClientProtocol) {
		super(protocol.output, 0, 0);
		this.protocol = protocol;
	}

	/** The final response begins. */
	abstract onResponse(facts: ResponseFacts, endStream: boolean): void;
	/** A piece of the body, a view that is valid during the call. Call `protocol.release` when it is consumed. */
	abstract onBody(bytes: Buffer): void;
	/** The response is complete. @param trailers alternating names and values; `undefined`: none. */
	abstract onResponseEnd(trailers: readonly string[] | undefined): void;
	/** The stream was closed before the response was complete. */
	abstract onClosed(end: StreamEnd): void;

	/** Opens the stream. @param block HPACK-encoded. */
	begin(method: string, block: string, endStream: boolean): void {
		this.method = method;
		this.protocol.open(this);
		this.writeHeaders(this.protocol.blockPrefix() + block, endStream);
	}

	protected override onSent(): void {
		if (this.isTunnel && !this.isRemoteOpen) this.protocol.tunnelEnded(this);
	}
}

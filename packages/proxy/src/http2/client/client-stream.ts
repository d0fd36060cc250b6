import { SendingStream } from '../sending-stream.ts';
import type { ClientProtocol } from './client-protocol.ts';
import type { ResponseFacts } from './response-fields.ts';

/** Why a stream has ended before its response was whole. */
export interface StreamEnd {
	readonly kind: /** The server has not looked at the request, and says so: it may be sent again, whatever it is (RFC 9113 section 8.7). */
		| 'refused'
		/** By the server. */
		| 'reset'
		/** By the server, for what this client asks of it (RFC 9113 section 7, ENHANCE_YOUR_CALM): its fields are too many, say. */
		| 'excessive'
		/** The server has sent what is no response. */
		| 'malformed'
		/** The connection has ended. */
		| 'lost';
	/** In words, for operators. */
	readonly cause: string;
}

/** One request and its response, as far as frames and windows go (RFC 9113 section 5), seen by the client. */
export abstract class ClientStream extends SendingStream {
	/** The server may still send. */
	isRemoteOpen = true;
	/** Nothing more comes of it. */
	isClosed = false;
	/** Begun is the final response. */
	hasHead = false;
	/** The response may have a body. */
	hasBody = true;
	/** The server has taken an extended CONNECT (RFC 8441 section 4): each side ends by itself, and neither cuts the other one off. */
	isTunnel = false;
	/** Interim responses so far. */
	interim = 0;
	/** What we allow the server to send. */
	receiveWindow = 0;
	/** Taken, and not given back to the server yet, bytes. */
	owed = 0;
	/** Received and not taken, bytes. */
	held = 0;
	/** Of the DATA frame that is coming: what its data has not taken, bytes. */
	paddingDue = 0;
	/** `content-length`, or `UNDECLARED`. */
	declaredLength = -1;
	/** Of the body, bytes. */
	received = 0;
	/** A request of this method has been sent. */
	method = '';
	protected readonly protocol: ClientProtocol;

	constructor(protocol: ClientProtocol) {
		super(protocol.output, 0, 0);
		this.protocol = protocol;
	}

	/** The final response begins. */
	abstract onResponse(facts: ResponseFacts, endStream: boolean): void;
	/** Some of the body, a view for the time of the call. `protocol.release` is called when it is taken. */
	abstract onBody(bytes: Buffer): void;
	/** The response is whole. @param trailers names and values in turn; `undefined`: none. */
	abstract onResponseEnd(trailers: readonly string[] | undefined): void;
	/** Closed before the response was whole. */
	abstract onClosed(end: StreamEnd): void;

	/** Opens the stream. @param block coded. */
	begin(method: string, block: string, endStream: boolean): void {
		this.method = method;
		this.protocol.open(this);
		this.writeHeaders(this.protocol.blockPrefix() + block, endStream);
	}

	protected override onSent(): void {
		if (this.isTunnel && !this.isRemoteOpen) this.protocol.tunnelEnded(this);
	}
}

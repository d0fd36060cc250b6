import type { Trailers } from '../../gates/trailers.ts';
import type { WebSocketHandshake } from '../../gates/web-socket.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import type { FaultOwner } from '../loop/faults.ts';

/**
 * One request at an upstream, the same for every protocol that is spoken there. An HTTP/1.1 connection is its one request
 * (`connection.ts`); neither the pipeline nor the body modes know which protocol it is.
 */
export interface UpstreamRequest {
	/** The connection has been established. */
	readonly isConnected: boolean;
	/** Sends the head, and the body as far as it is there; otherwise `write` and `finish` follow. To be called once. */
	send(request: OutgoingRequest, body: OutgoingBody, handler: ResponseHandler): void;
	/**
	 * Sends more of the request's body.
	 *
	 * @param bytes not changed by anybody until they have gone out.
	 * @returns whether more may follow at once; otherwise `onWritable` tells.
	 */
	write(bytes: Buffer): boolean;
	/** The request's body is complete. @param trailers dropped where the body's framing has no room for them. */
	finish(trailers?: Trailers): void;
	/** Stops reading the response, so that the upstream is slowed down to its client's pace. */
	pause(): void;
	resume(): void;
	/** Ends it without a word to the handler: the request is no longer wanted. */
	destroy(): void;
}

/** A request's head, in the form of the protocol that is spoken at the upstream. */
export interface OutgoingRequest {
	/** Over HTTP/1.1; a handshake is a CONNECT over HTTP/2. */
	readonly method: string;
	/** Whose it is: where requests share a connection, tenants share it alike. */
	readonly tenant: string;
	/** It asks for a WebSocket: `ResponseEvents.onTunnel` may come. */
	readonly handshake: WebSocketHandshake | undefined;
	/** A gRPC call. Over HTTP/2 it ends with a DATA frame, if need be an empty one: grpc-go knows no end with a head. */
	readonly isCall: boolean;
	/** For HTTP/1.1: request line, fields and the empty line (RFC 9112 section 3), as latin1 text. */
	headAsText(body: OutgoingBody): string;
	/** For HTTP/2: the header block, all but `:scheme` and a handshake's `:protocol`, coded without a dynamic table. */
	headAsBlock(body: OutgoingBody): string;
}

/** A request's body, as far as it is there when the head goes out. */
export interface OutgoingBody {
	/** Bytes, or `UNDECLARED`. */
	readonly length: number;
	/** `content-length` or `transfer-encoding` line with its CRLF, or nothing. */
	readonly framing: string;
	/** The body as far as it is there. */
	readonly pieces: readonly Buffer[];
	/** Called once nobody reads the pieces any more; never, if the connection ends before that. */
	readonly onWritten?: () => void;
	readonly complete: boolean;
	/** Of a complete body whose framing has room for them. */
	readonly trailers?: Trailers | undefined;
}

/** What comes of a response, in this order: `onHead`, `onBody` any number of times, `onEnd`. */
export interface ResponseEvents {
	/**
	 * @param fields what is passed on; without framing and hop-by-hop fields, but with the length that is to be announced.
	 * @param length bytes of the body, `UNDECLARED` when only its end will tell. For a response without a body by
	 *   rule (HEAD, 204, 205, 304) the `content-length` to announce, or `UNDECLARED`.
	 * @param hasBody whether body bytes may follow.
	 */
	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void;
	/**
	 * In place of `onHead`, for requests that ask for it: the upstream has taken the handshake (101, or 2xx over HTTP/2). What it sends
	 * from here on comes by `onBody`, its end by `onEnd`, a cut by `onFailure`; `write` and `finish` go on behind `onEnd`.
	 *
	 * @param fields of the handshake, too.
	 */
	onTunnel?(fields: ResponseFields): void;
	/** @param chunk all that one read has brought; a view that is valid only during the call. */
	onBody(chunk: Buffer): void;
	/** @param trailers as the upstream has sent them. */
	onEnd(trailers?: Trailers): void;
}

/** Who gets the response to one request. After `onEnd`, `onFailure` or `onFault` nothing more comes. */
export interface ResponseHandler extends ResponseEvents, FaultOwner {
	/** The connection has been established; before that nothing has been delivered. */
	onConnected(): void;
	/** `onFailure` follows with the same failure, once the connection's place is free for any thread. */
	onFailing(failure: UpstreamFailure): void;
	onFailure(failure: UpstreamFailure): void;
	/** The upstream takes more of the request's body again. */
	onWritable(): void;
	/** Where the next bytes of a body of known length are to be read to; `undefined`: they come by `onBody`. */
	room(): Buffer | undefined;
	/** So many bytes of the body have been read to `room`. */
	onBodyInRoom(bytes: number): void;
}

/** Why a request got no complete response. */
export interface UpstreamFailure {
	readonly kind: FailureKind;
	/** In words, for operators: `connection refused`, `closed after 312 of 1,024 bytes`. */
	readonly cause: string;
}

export type FailureKind =
	/** No connection came about; nothing was delivered. */
	| 'unreachable'
	/** This machine has no descriptors left; says nothing of the upstream. */
	| 'exhausted'
	/** A used connection ended at once, when the request came: most likely it had timed out. */
	| 'stale'
	/** A new connection, or one whose upstream had taken the request, ended before the first byte of the response. */
	| 'unanswered'
	/** It closed or broke in the middle of the response. */
	| 'broken'
	/** It sent what is no response to the request. */
	| 'malformed'
	/** It has said that it did not look at the request (HTTP/2). Nothing was delivered. */
	| 'refused'
	/** It takes no head of this size (HTTP/2), and was not asked. */
	| 'oversized'
	/** It cannot be asked for this by its protocol, and was not asked. */
	| 'unsupported';

/** Failures of connections, by whatever protocol. */
export const STALE: UpstreamFailure = { kind: 'stale', cause: 'idle connection was closed by the upstream' };
export const UNREACHED: UpstreamFailure = { kind: 'unreachable', cause: 'connection timed out' };
/** An error comes before the end that it causes, so this is for what Node may think of. */
export const UNCONNECTED: UpstreamFailure = { kind: 'unreachable', cause: 'connection closed before it was made' };

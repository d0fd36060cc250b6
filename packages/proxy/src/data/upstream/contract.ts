import { connectionCause } from '@mtls-edge-proxy/gate/words/causes.ts';
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
	/** The upstream may say that it has not processed the request (HTTP/2): the failure `refused`. Known once it is connected. */
	readonly mayBeRefused: boolean;
	/** Sends the head and the body received so far; if it is incomplete, `write` and `finish` follow. Call once. */
	send(request: OutgoingRequest, body: OutgoingBody, handler: ResponseHandler): void;
	/**
	 * Sends more of the request's body.
	 *
	 * @param bytes a view that is valid only during the call.
	 * @returns whether more may follow at once; otherwise `onWritable` tells.
	 */
	write(bytes: Buffer): boolean;
	/** The request's body is complete. @param trailers dropped if the body's framing cannot carry them. */
	finish(trailers?: Trailers): void;
	/** Stops reading the response, which slows the upstream down to the client's pace. */
	pause(): void;
	resume(): void;
	/** Ends the request without notifying the handler: it is no longer wanted. */
	destroy(): void;
}

/** A request's head, in the form of the protocol that is spoken at the upstream. */
export interface OutgoingRequest {
	/** The method over HTTP/1.1. Over HTTP/2, a handshake is a CONNECT instead. */
	readonly method: string;
	/** The request's tenant: requests that share a connection share it equally between tenants. */
	readonly tenant: string;
	/** It asks for a WebSocket: `ResponseEvents.onTunnel` may come. */
	readonly handshake: WebSocketHandshake | undefined;
	/** A gRPC call. Over HTTP/2 it ends with a DATA frame, even an empty one: grpc-go does not accept HEADERS that end the stream. */
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
	/** Called once the pieces are no longer read; never called if the connection ends before that. */
	readonly onWritten?: () => void;
	readonly complete: boolean;
	/** Only for a complete body whose framing can carry them. */
	readonly trailers?: Trailers | undefined;
}

/** What an upstream responds with, in this order: `onHead`, `onBody` any number of times. */
export interface ResponseEvents {
	/**
	 * @param fields the forwarded fields: without framing and hop-by-hop fields, but with the length to announce.
	 * @param length bytes of the body, `UNDECLARED` if only its end tells. For a response without a body by
	 *   rule (HEAD, 204, 205, 304) the `content-length` to announce, or `UNDECLARED`.
	 * @param hasBody whether body bytes may follow.
	 */
	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void;
	/**
	 * In place of `onHead`, for requests that ask for it: the upstream has taken the handshake (101, or 2xx over HTTP/2). Its bytes
	 * then come by `onBody`, its end by `onEnd`, a cut by `onFailure`; `write` and `finish` stay possible after `onEnd`.
	 *
	 * @param fields include those of the handshake.
	 */
	onTunnel?(fields: ResponseFields): void;
	/** @param chunk everything from one read; a view that is valid only during the call. */
	onBody(chunk: Buffer): void;
}

/** Receives the response to one request. After `onEnd`, `onFailure` or `onFault` nothing more comes. */
export interface ResponseHandler extends ResponseEvents, FaultOwner {
	/** The response is whole. @param trailers as the upstream has sent them. */
	onEnd(trailers?: Trailers): void;
	/** The connection has been established; before that nothing has been delivered. */
	onConnected(): void;
	/** `onFailure` follows with the same failure, once the connection's place is free for any thread. */
	onFailing(failure: UpstreamFailure): void;
	onFailure(failure: UpstreamFailure): void;
	/** The upstream accepts more of the request's body again. */
	onWritable(): void;
	/** So many bytes of memory hold the part of the request's body that the upstream does not take at the moment (HTTP/1.1 only). */
	onUploadHeld?(bytes: number): void;
	/** So many bytes of a paused response wait at its connection (HTTP/2 only). */
	onResponseHeld(bytes: number): void;
	/** The buffer for the next bytes of a body of known length; `undefined`: they come by `onBody`. */
	room(): Buffer | undefined;
	/** So many bytes of the body have been read to `room`. */
	onBodyInRoom(bytes: number): void;
}

/** Why a request got no complete response. */
export interface UpstreamFailure {
	readonly kind: FailureKind;
	/** In words for operators: `connection refused`, `closed after 312 of 1,024 bytes`. */
	readonly cause: string;
}

export type FailureKind =
	/** No connection was made; nothing was delivered. */
	| 'unreachable'
	/** No connection can be made on our side (descriptors, `max_connections`); says nothing of the upstream. */
	| 'exhausted'
	/** A used connection ended at once, when the request came: most likely it had timed out. */
	| 'stale'
	/** A new connection, or one whose upstream had taken the request, ended before the first byte of the response. */
	| 'unanswered'
	/** It closed or broke in the middle of the response. */
	| 'broken'
	/** It sent something that is not a response to the request. */
	| 'malformed'
	/** It has said that it did not look at the request (HTTP/2). Nothing was delivered. */
	| 'refused'
	/** It does not accept a head of this size (HTTP/2); nothing was sent. */
	| 'oversized'
	/** It has reset this request as too much from one client (HTTP/2). */
	| 'excessive'
	/** Its protocol does not support this request; nothing was sent. */
	| 'unsupported';

/** Failures of connections, by whatever protocol. */
export const STALE: UpstreamFailure = { kind: 'stale', cause: 'idle connection was closed by the upstream' };
export const UNREACHED: UpstreamFailure = { kind: 'unreachable', cause: 'connection timed out' };
/** An error event precedes the end that it causes, so this covers any other way in which Node may close a socket. */
export const UNCONNECTED: UpstreamFailure = { kind: 'unreachable', cause: 'connection closed before it was made' };
/** Why no connection was made. */
export function connectFailure(error: NodeJS.ErrnoException): UpstreamFailure {
	const isOurs = error.code === 'EMFILE' || error.code === 'ENFILE' || error.code === 'EADDRNOTAVAIL';
	return { kind: isOurs ? 'exhausted' : 'unreachable', cause: connectionCause(error) };
}
/** The upstream takes no WebSocket over HTTP/2. */
export const NO_CONNECT: UpstreamFailure = {
	kind: 'unsupported',
	cause: 'the upstream accepts no WebSocket over HTTP/2 (no SETTINGS_ENABLE_CONNECT_PROTOCOL)',
};

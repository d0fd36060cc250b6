import { BAD_REQUEST, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { RequestHead } from '../../gates/headers.ts';
import type { Trailers } from '../../gates/trailers.ts';
import type { ClientConnection } from './client-connection.ts';
import type { ResponseFields } from './response-fields.ts';
import type { RefusalResponse } from './responses.ts';

/**
 * The client's side of one exchange, the same for HTTP/1.1 and HTTP/2. `http1/request.ts` and `http2/request.ts` implement it;
 * neither the pipeline nor the body modes know which one they use.
 */
export interface ClientRequest {
	readonly method: string;
	/** Request target in origin form. */
	readonly target: string;
	/** The authority of a target that came in absolute form (HTTP/1.1); `undefined`: it did not; `null`: it is malformed. */
	readonly targetAuthority: string | null | undefined;
	/** Facts and forwardable lines, or why the request cannot be understood. A tunnel forgets it. */
	readonly head: RequestHead | Rejection;
	/** Its content type is that of gRPC, if a refused head was read that far. */
	readonly isGrpc: boolean;
	/** Shared by all requests of the connection. */
	readonly connection: ClientConnection;

	/**
	 * Whether trailers of a response with a body reach the client: always over HTTP/2; over HTTP/1.1 if it has asked for them (RFC
	 * 9110 section 10.1.4) and the body's length is not announced.
	 */
	takesTrailers(fields: ResponseFields): boolean;

	/** The tenant has been charged for the request: its connection gets back the tokens of the head (`ConnectionShare`). */
	onPaid(): void;

	/**
	 * Gives the whole response: a body of bytes, a short body as latin1 text, or none by rule. `Exchange.onResponseOut`
	 * follows when the client has it, or `onClientGone`.
	 *
	 * @param trailers only with a body, and where `takesTrailers`.
	 */
	respond(status: number, fields: ResponseFields, body: WholeBody | string | undefined, trailers?: Trailers): void;
	/** Gives a response of the proxy's own, in the form that this client understands. */
	refuse(refusal: Rejection, response: RefusalResponse): void;

	/**
	 * Begins a response whose body follows by `write` and `end`.
	 *
	 * @param hasBody `false` if there is none by rule.
	 * @param announced names of trailers that may follow, with commas between; only where `takesTrailers`.
	 */
	begin(status: number, fields: ResponseFields, hasBody: boolean, announced?: string): void;
	/** Copies the chunk. @returns whether more may follow at once; otherwise `Exchange.onClientDrained` tells. */
	write(chunk: Buffer): boolean;
	/** Memory of the response's bytes that the client has not taken yet. */
	readonly heldResponse: number;
	/** @param trailers only with a body, and where `takesTrailers`. */
	end(trailers?: Trailers): void;
	/** Breaks off a response that has begun, so that it does not look complete. */
	reset(): void;

	/** Bytes, or the client's end, have come after the head. A client must not send them before its handshake is answered. */
	readonly isAhead: boolean;
	/** For a tunnel: the client has ended its side, and some of its bytes may still wait here. */
	readonly hasEnded: boolean;
	/** Status of the response that opens a tunnel. */
	readonly tunnelStatus: number;
	/**
	 * Answers a handshake. From here on `write` takes the bytes of a tunnel, `end` ends only our side, and the client's bytes
	 * come by `Exchange.onRequestBody` and `onRequestEnd`. `Exchange.onResponseOut` follows `end`.
	 */
	openTunnel(fields: ResponseFields): void;
	/** Closes the tunnel after our side has ended, without waiting for the client's bytes. */
	closeTunnel(): void;

	/** Starts reading the body: `Exchange.onRequestBody` and `onRequestEnd`, or `onClientGone`. Sends the 100 if one is due. */
	readBody(): void;
	/** The body is not read before later turns of the loop: `ExchangeEvents.onBodyHeld` tells how much of it is held until then. */
	holdBody(): void;
	pauseBody(): void;
	resumeBody(): void;
}

/** A complete body, taken piece by piece. */
export interface WholeBody {
	/** Total length, bytes. */
	readonly length: number;
	/** Bytes that have not been taken yet. */
	readonly left: number;
	/** The next 64 KiB, or the rest; `undefined` if nothing is left or the body has been given up. */
	shift(): Buffer | undefined;
	/** The oldest taken piece is no longer read, so its memory is reused. */
	free(): void;
}

/** Events of a connection for the exchange that it carries. Exactly one of the last two comes, once. */
export interface ExchangeEvents {
	onRequestBody(chunk: Buffer): void;
	/** @param trailers as the client has sent them. */
	onRequestEnd(trailers?: Trailers): void;
	/** The connection holds `bytes` of the body that are not wanted yet. */
	onBodyHeld(bytes: number): void;
	/** The body's framing is broken (HTTP/1.1 only; over HTTP/2 the stream is reset). */
	onBodyError(refusal: Rejection): void;
	/** The client has taken everything given so far. @param left bytes of a whole response not given yet. */
	onClientDrained(left: number): void;
	/** The response has gone out whole. */
	onResponseOut(): void;
	/** @param why set if an error of the client has ended its stream. */
	onClientGone(why?: Rejection): void;
}

/** The head of a request that has become a tunnel. */
export const FORGOTTEN: Rejection = BAD_REQUEST;

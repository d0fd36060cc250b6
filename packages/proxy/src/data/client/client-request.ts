import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { RequestHead } from '../../gates/headers.ts';
import type { Trailers } from '../../gates/trailers.ts';
import type { ClientConnection } from './client-connection.ts';
import type { ResponseFields } from './response-fields.ts';
import type { RefusalResponse } from './responses.ts';

/**
 * The client's side of one exchange, the same for HTTP/1.1 and HTTP/2. `http1.ts` and `http2.ts` implement it; neither
 * the pipeline nor the body modes know which of them they talk to.
 */
export interface ClientRequest {
	readonly method: string;
	/** Request target in origin form. */
	readonly target: string;
	/** The authority of a target that came in absolute form (HTTP/1.1); `undefined`: it did not; `null`: it is malformed. */
	readonly targetAuthority: string | null | undefined;
	/** Facts and forwardable lines, or why the request cannot be understood. */
	readonly head: RequestHead | Rejection;
	/** Its content type is that of gRPC, as far as that is known where the head is refused. */
	readonly isGrpc: boolean;
	/** Shared by all requests of the connection. */
	readonly connection: ClientConnection;

	/**
	 * Whether trailers of an answer with a body reach the client: always over HTTP/2; over HTTP/1.1 where it has asked for them
	 * (RFC 9110 section 10.1.4), and the body's length is not announced.
	 */
	takesTrailers(fields: ResponseFields): boolean;

	/** Its tenant pays for the request: its connection gets back what it has spent on the head (`ConnectionShare`). */
	onPaid(): void;

	/**
	 * Gives the whole answer, a body of bytes, or of latin1 text if it is short, or none by rule. `Exchange.onAnswered`
	 * follows when the client has it, or `onClientGone`.
	 *
	 * @param trailers only with a body, and where `takesTrailers`.
	 */
	answer(status: number, fields: ResponseFields, body: WholeBody | string | undefined, trailers?: Trailers): void;
	/** Gives an answer of the proxy's own, in the form that this client understands. */
	refuse(refusal: Rejection, answer: RefusalResponse): void;

	/**
	 * Begins an answer whose body follows by `write` and `end`.
	 *
	 * @param hasBody false where there is none by rule.
	 * @param announced names of trailers that may follow, with commas between; only where `takesTrailers`.
	 */
	begin(status: number, fields: ResponseFields, hasBody: boolean, announced?: string): void;
	/** Copies the chunk. @returns whether more may follow at once; otherwise `Exchange.onClientDrained` tells. */
	write(chunk: Buffer): boolean;
	/** @param trailers only with a body, and where `takesTrailers`. */
	end(trailers?: Trailers): void;
	/** Breaks off an answer that has begun, so that it cannot be taken for a whole one. */
	reset(): void;

	/** Bytes have come behind the head, or their end: of a handshake, what its client should have kept back until it is answered. */
	readonly isAhead: boolean;
	/** Of a tunnel: the client has ended its side, and some of what it has sent may wait here. */
	readonly hasEnded: boolean;
	/** Of the answer to a handshake that opens a tunnel. */
	readonly tunnelStatus: number;
	/**
	 * Answers a handshake. From here on `write` takes the bytes of a tunnel, `end` ends our side alone, and all that the client sends
	 * comes by `Exchange.onRequestBody` and `onRequestEnd`. `Exchange.onAnswered` follows `end`.
	 */
	openTunnel(fields: ResponseFields): void;
	/** Our side of the tunnel has ended; what the client may still send is not waited for. */
	closeTunnel(): void;

	/** Lets the body come: `Exchange.onRequestBody` and `onRequestEnd`, or `onClientGone`. Sends the 100 if one is due. */
	readBody(): void;
	/** The body is not read before later turns of the loop: `ExchangeEvents.onBodyHeld` tells how much of it is held until then. */
	holdBody(): void;
	pauseBody(): void;
	resumeBody(): void;
}

/** A body that is all there, to be taken piece by piece. */
export interface WholeBody {
	/** All of it, bytes. */
	readonly length: number;
	/** What has not been taken yet, bytes. */
	readonly left: number;
	/** The next 64 KiB, or what is left; `undefined` when there is nothing, or the body has been given up. */
	shift(): Buffer | undefined;
	/** Nobody reads the oldest piece any more that has been taken: its memory is used again. */
	free(): void;
}

/** What a connection tells the exchange that it carries. Of the last two exactly one comes, once. */
export interface ExchangeEvents {
	onRequestBody(chunk: Buffer): void;
	/** @param trailers as the client has sent them. */
	onRequestEnd(trailers?: Trailers): void;
	/** The connection holds so many bytes of the body, because they are not wanted yet (HTTP/2 only). */
	onBodyHeld(bytes: number): void;
	/** The body's framing is broken (HTTP/1.1 only; over HTTP/2 the stream is reset). */
	onBodyError(refusal: Rejection): void;
	/** The client has taken what it was given. @param left bytes of a whole answer that have not been given yet. */
	onClientDrained(left: number): void;
	/** The answer has gone out whole. */
	onAnswered(): void;
	/** @param why where an error of the client's has ended its stream. */
	onClientGone(why?: Rejection): void;
}

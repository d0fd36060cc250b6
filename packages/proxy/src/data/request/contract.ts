import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { FailureReason, Outcome } from '../../gates/breaker.ts';
import type { Trailers } from '../../gates/trailers.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import type { Timed } from '../loop/deadlines.ts';
import type { Tunnel } from '../tunnel/tunnel.ts';
import type { OutgoingBody, UpstreamRequest } from '../upstream/contract.ts';
import type { RequestContext } from './context.ts';
import type { State } from './state.ts';

/** One request as its parts see it; `Exchange` combines them. */
export interface ServedRequest extends Timed {
	readonly context: RequestContext;
	readonly body: BodyMode;
	/** Carries the bytes: the body mode, or the tunnel that the request has become. */
	readonly carrier: Carrier;
	/** `undefined`: the request is not a tunnel. */
	readonly tunnel: Tunnel | undefined;
	readonly state: State;
	/** The current or last attempt. */
	readonly attempt: AttemptFacts | undefined;
	/** The only way from one state to the next. @throws Error for an impossible transition. */
	enter(next: State): void;
	/** Continues with the route: its body mode has received as much of the body as it needs first. */
	forward(): void;
	/** The upstream has taken the handshake. @param accept the value that it must have sent; `undefined`: its protocol has none. */
	opensTunnel(fields: ResponseFields, accept: string | undefined): void;
	/** Both ends of its tunnel have ended. */
	closeTunnel(): void;
	/** Starts reading the client's body. */
	readBody(): void;
	/** Records that a response begins. */
	responds(status: number, refusal?: Rejection): void;
	/** The fields of the upstream's response as they go to the client. */
	responseFields(fields: ResponseFields): ResponseFields;
	/** Answers with a response of the proxy's own. */
	refuse(refusal: Rejection): void;
	/** Like `refuse`, for a request that may be at an upstream; a response that has begun is broken off. @param outcome for the breaker. */
	fail(refusal: Rejection, outcome: 'abandoned' | FailureReason): void;
	/** Resets a response that has begun, or ends a call with its status: it must not look complete. */
	breakOff(why: Rejection): void;
	/** The upstream's time ran out before its response began. @param outcome for the breaker, if there is a connection to blame. */
	upstreamTimedOut(outcome: 'timeout' | 'abandoned'): void;
}

/** The request at one upstream. */
export interface AttemptFacts {
	/** `undefined`: the request is over there. */
	readonly connection: UpstreamRequest | undefined;
	/** Adds the round trip to the latency summary. */
	measure(): void;
	/** Reports the outcome to the breaker; only the first report counts. */
	settle(outcome: Outcome, cause?: string): void;
	/** A good response has begun. A half-open breaker need not wait for its last byte, but does wait for a call's status if configured to. */
	settleProbe(): void;
}

/** The part of its request that a tunnel needs. */
export type TunnelRequest = Timed & Pick<ServedRequest, 'context' | 'attempt' | 'closeTunnel'>;

/** Carries the bytes of both sides. */
export interface Carrier {
	/** Events from the client. @param chunk a view that is valid only during the call. */
	onRequestBody(chunk: Buffer): void;
	/** @param trailers those that may be passed on. */
	onRequestEnd(trailers?: Trailers): void;
	onBodyHeld(bytes: number): void;
	onClientDrained(left: number): void;

	/** What the upstream does. @param chunk a view that is valid only during the call. */
	onBody(chunk: Buffer): void;
	/** @param trailers those that may be passed on. */
	onEnd(trailers?: Trailers): void;
	onWritable(): void;
	/** The upstream's connection holds the request's body in `bytes` of memory, as the upstream does not take it at the moment (HTTP/1.1 only). */
	onUploadHeld(bytes: number): void;
	/** The upstream's connection holds `bytes` of the response, which the client does not take at the moment (HTTP/2 only). */
	onResponseHeld(bytes: number): void;

	/** The request's deadline has passed. */
	onDeadline(): void;
	/** Gives back the memory that it holds. */
	release(): void;
}

/** Handles the bodies of a request and its response: `body/collected.ts` or `body/streaming.ts`. One object per request. */
export interface BodyMode extends Carrier {
	/** The request has passed all gates before the body: calls `forward`, at once or when the body is there. */
	receive(): void;
	/** Checks the declared length once the route is known. */
	admitLength(): Rejection | undefined;
	/** The framing line of the request's body, the bytes received so far, and whether they are complete. */
	outgoing(): OutgoingBody;
	/** The whole request body is still there. */
	readonly canRepeat: boolean;
	/** The upstream is connected, and the client is asked for its body, so it may come. Again if the request is sent again. */
	onAsked(): void;

	/** What the upstream does. */
	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void;
	room(): Buffer | undefined;
	onBodyInRoom(bytes: number): void;
	/** The response has broken off, and the request may be sent again. */
	onResponseLost(): void;
	/** The response is complete for its client, who knows its length, but the upstream has not ended it. Then `onEnd` does. */
	readonly hasAll: boolean;
	/** Ends a gRPC response that has begun with these trailers, which hold the status of its call. @returns `false`: its framing does not allow that. */
	endCall(trailers: Trailers): boolean;
}

export type BodyModeClass = new (request: ServedRequest) => BodyMode;

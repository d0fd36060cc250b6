import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { FailureReason, Outcome } from '../../gates/breaker.ts';
import type { Trailers } from '../../gates/trailers.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import type { Timed } from '../loop/deadlines.ts';
import type { Tunnel } from '../tunnel/tunnel.ts';
import type { OutgoingBody, UpstreamRequest } from '../upstream/contract.ts';
import type { RequestContext } from './context.ts';
import type { State } from './state.ts';

/** One request as its parts see it: `Exchange` puts them together. */
export interface ServedRequest extends Timed {
	readonly context: RequestContext;
	readonly body: BodyMode;
	/** Takes what passes: the body mode, or the tunnel that the request has become. */
	readonly carrier: Carrier;
	/** `undefined`: it is none. */
	readonly tunnel: Tunnel | undefined;
	readonly state: State;
	/** At an upstream now, or last. */
	readonly attempt: AttemptFacts | undefined;
	/** The only way from one state to the next. @throws Error for a transition that cannot be. */
	enter(next: State): void;
	/** The body is as far as its mode wants it before the route is looked up. */
	forward(): void;
	/** The upstream has taken the handshake. @param accept that it has to have sent; `undefined`: its protocol has none. */
	opensTunnel(fields: ResponseFields, accept: string | undefined): void;
	/** Both ends of its tunnel have ended. */
	closeTunnel(): void;
	/** Lets the client's body come. */
	readBody(): void;
	/** A response begins. */
	answers(status: number, refusal?: Rejection): void;
	/** The fields of the upstream's response as they go to the client. */
	responseFields(fields: ResponseFields): ResponseFields;
	/** Gives a response of the proxy's own. */
	refuse(answer: Rejection): void;
	/** The same for a request that may be at an upstream; a response that has begun is broken off. @param outcome for the breaker. */
	fail(answer: Rejection, outcome: 'abandoned' | FailureReason): void;
	/** Resets a response that has begun: it must not be taken for a whole one. */
	breakOff(why: Rejection): void;
	/** The upstream's time is over before its response has begun. @param outcome for the breaker, if there is a connection to blame. */
	upstreamTimedOut(outcome: 'timeout' | 'abandoned'): void;
}

/** The request at one upstream. */
export interface AttemptFacts {
	/** `undefined`: it is over there. */
	readonly connection: UpstreamRequest | undefined;
	/** The round trip counts in the latency summary. */
	measure(): void;
	/** Reports to the breaker what became of it; only the first report counts. */
	settle(outcome: Outcome, cause?: string): void;
	/** A good response has begun. A half-open breaker need not wait for its last byte, but for a call's status if it asks for that. */
	settleProbe(): void;
}

/** As much of its request as a tunnel needs. */
export type TunnelRequest = Timed & Pick<ServedRequest, 'context' | 'attempt' | 'closeTunnel'>;

/** Takes the bytes of both sides. */
export interface Carrier {
	/** What the client does. */
	onRequestBody(chunk: Buffer): void;
	/** @param trailers those that may be passed on. */
	onRequestEnd(trailers?: Trailers): void;
	onBodyHeld(bytes: number): void;
	onClientDrained(left: number): void;

	/** What the upstream does. */
	onBody(chunk: Buffer): void;
	/** @param trailers those that may be passed on. */
	onEnd(trailers?: Trailers): void;
	onWritable(): void;

	/** The deadline of the request has passed. */
	onDeadline(): void;
	/** Gives back the memory that it holds. */
	release(): void;
}

/** What becomes of a request's body and of its response's: `body/collected.ts` or `body/streaming.ts`. One for each request. */
export interface BodyMode extends Carrier {
	/** All gates before the body are passed: calls `forward`, at once or when the body is there. */
	receive(): void;
	/** What the mode has to say against the declared length once the route is known. */
	admitLength(): Rejection | undefined;
	/** Framing line of the request's body, its bytes as far as they are there, and whether they are all. */
	outgoing(): OutgoingBody;
	/** All of the request's body is still there. */
	readonly canRepeat: boolean;
	/** The client's body may come: it was asked for. */
	onAsked(): void;

	/** What the upstream does. */
	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void;
	room(): Buffer | undefined;
	onBodyInRoom(bytes: number): void;
	/** The response has broken off, and the request may be sent again. */
	onResponseLost(): void;
}

export type BodyModeClass = new (request: ServedRequest) => BodyMode;

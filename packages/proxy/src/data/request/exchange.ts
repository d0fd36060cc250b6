import { grpcStatusOf, grpcTrailers } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { withReport } from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import type { FailureReason } from '../../gates/breaker.ts';
import { passableTrailers, type Trailers } from '../../gates/trailers.ts';
import type { ClientRequest, ExchangeEvents } from '../client/client-request.ts';
import { ResponseFields } from '../client/response-fields.ts';
import { refusalResponse } from '../client/responses.ts';
import { Timed } from '../loop/deadlines.ts';
import type { DataPlane } from '../plane/plane.ts';
import { type Refused, reportBrokenOff, reportRefusal } from '../records/refusal-report.ts';
import { leaveTunnel, openTunnel } from '../tunnel/opening.ts';
import type { Tunnel } from '../tunnel/tunnel.ts';
import { admit, admitToRoute } from './admit.ts';
import type { UpstreamAttempt } from './attempt.ts';
import { CALL_TIMED_OUT, CallDeadline, LEAST_TIMEOUT_MS, PRICE_OF_LESS } from './call-deadline.ts';
import { countGiven, countIn, RequestContext } from './context.ts';
import type { BodyMode, BodyModeClass, Carrier } from './contract.ts';
import { Delivery } from './delivery.ts';
import { checkTransition, STATE, type State } from './state.ts';

/**
 * One request's way through the proxy, and how it ends. Its data is the context; the gates are `admit`; `Delivery` takes it to an upstream
 * and the body mode carries its bytes. This class holds its state.
 */
export class Exchange extends Timed implements ExchangeEvents {
	readonly context: RequestContext;
	readonly body: BodyMode;
	/** Carries the bytes: the body mode, or the tunnel that the request has become. */
	carrier: Carrier;
	/** `undefined`: the request is not a tunnel. */
	tunnel: Tunnel | undefined = undefined;
	/** `undefined`: the request has not passed the gates. */
	delivery: Delivery | undefined = undefined;
	#state: State = STATE.reading;
	/** The response was broken off, which has been reported. */
	#isBrokenOff = false;

	/** @param Mode the body mode of this build (`#body`). */
	constructor(client: ClientRequest, plane: DataPlane, Mode: BodyModeClass) {
		super();
		this.context = new RequestContext(client, plane);
		this.body = new Mode(this);
		this.carrier = this.body;
	}

	get state(): State {
		return this.#state;
	}

	/** The only way from one state to the next. @throws Error for an impossible transition. */
	enter(next: State): void {
		checkTransition(this.#state, next);
		this.#state = next;
	}

	/** The current or last attempt. */
	get attempt(): UpstreamAttempt | undefined {
		return this.delivery?.attempt;
	}

	// --- From the client to the upstream. ---

	/** Takes the request on. */
	start(): void {
		this.#guard(() => this.#start());
	}

	#start(): void {
		const { context } = this;
		const { client, plane } = context;
		context.startedAt = plane.clock.now();
		context.record = plane.requestLog?.begin(client, context.startedAt);
		countIn(context, plane.stats.unrouted);
		const refusal = admit(context);
		if (refusal) return this.refuse(refusal);
		const { grpcTimeout } = context.head!;
		if (grpcTimeout != null && context.isCall) {
			if (grpcTimeout < LEAST_TIMEOUT_MS) client.connection.spend(PRICE_OF_LESS);
			context.callDeadline = new CallDeadline(this, grpcTimeout, context.startedAt, plane.deadlines);
		}
		// Collected: the whole body, or 413, 408, 400; then on to `forward`. Streaming: `forward` at once.
		this.body.receive();
	}

	/** Continues with the route: the body mode has received as much of the body as it needs first. */
	forward(): void {
		const { context } = this;
		const refusal = admitToRoute(context, this.body);
		if (refusal) return this.refuse(refusal);
		// A few requests go to the upstreams at the end of each turn of the loop; `Delivery.dispatch` follows when this one's turn comes.
		context.span?.enters('dispatch queue');
		this.enter(STATE.queued);
		this.delivery = new Delivery(this);
		context.plane.dispatches.add(this.delivery);
	}

	/** Starts reading the client's body. */
	readBody(): void {
		const { client, record } = this.context;
		this.body.onAsked();
		record?.bodyBegins();
		client.readBody();
	}

	// --- The response. ---

	/** The fields of the upstream's response as they go to the client. */
	responseFields(fields: ResponseFields): ResponseFields {
		const { report } = this.context;
		if (report === undefined) return fields;
		return new ResponseFields(withReport([...fields.list], report), false, fields.announcedTrailers);
	}

	/** Records that a response begins. */
	responds(status: number, refusal?: Rejection): void {
		this.enter(STATE.responding);
		const { plane, record, endpoint } = this.context;
		(endpoint ?? plane).stats.responded(status);
		record?.responds(status, refusal);
	}

	/** The only place where refusals become responses and are counted: by HTTP status, whatever the client gets. */
	refuse(refusal: Rejection): void {
		const { context } = this;
		const { client, plane, report, isCall, record } = context;
		reportRefusal(plane, refusal, this.#known);
		this.body.release();
		this.responds(refusal.status, refusal);
		plane.deadlines.response.add(this);
		const isReported = report !== undefined && !refusal.is(rejection.RATE_LIMITED);
		const whole = isReported ? refusal.withHeaders(withReport([...refusal.headers], report)) : refusal;
		if (isCall && record !== undefined) record.grpcStatus = grpcStatusOf(refusal);
		const response = refusalResponse(whole, isCall);
		if (client.method !== 'HEAD') countGiven(context, response.body.length);
		client.refuse(refusal, response);
	}

	/** Like `refuse`, for a request that may be at an upstream; a response that has begun is broken off. @param outcome for the breaker. */
	fail(refusal: Rejection, outcome: 'abandoned' | FailureReason): void {
		this.delivery?.end(outcome, refusal.reason);
		if (this.#state !== STATE.responding) this.refuse(refusal);
		// An upstream over HTTP/2 may fail between the last byte and END_STREAM.
		else if (this.body.hasAll) this.body.onEnd();
		else this.breakOff(refusal);
	}

	/** Resets a response that has begun, or ends a call with its status: it must not look complete. */
	breakOff(why: Rejection): void {
		const { client, plane, record, isCall } = this.context;
		this.cancelDeadline();
		// The client of a call has not taken the status that followed, either.
		if (this.#isBrokenOff) return client.reset();
		this.#isBrokenOff = true;
		record?.breaksOff(why);
		reportBrokenOff(plane, why, this.#known);
		if (!isCall || !this.body.endCall(grpcTrailers(why))) client.reset();
		else if (record !== undefined) record.grpcStatus = grpcStatusOf(why);
	}

	/** The facts about the request that operators may see. */
	get #known(): Refused {
		const { client, route, endpoint, principal } = this.context;
		return { client, route, endpoint, tenant: principal?.tenant };
	}

	// --- A tunnel. ---

	/** The upstream has taken the handshake. @param accept the value that it must have sent; `undefined`: its protocol has none. */
	opensTunnel(fields: ResponseFields, accept: string | undefined): void {
		const opened = openTunnel(this, fields, accept);
		// The handshake may fail because of what this client asked for, which says nothing about the upstream.
		if (opened instanceof Rejection) return this.fail(opened, 'abandoned');
	}

	/** The exchange carries the tunnel from now on. */
	becomes(tunnel: Tunnel, fields: ResponseFields): void {
		const { client } = this.context;
		this.attempt!.measure();
		this.attempt!.settle('success');
		this.tunnel = tunnel;
		this.carrier = tunnel;
		this.responds(client.tunnelStatus);
		client.openTunnel(this.responseFields(fields));
		this.context.forgetHead();
	}

	/** Both ends of the tunnel have ended. */
	closeTunnel(): void {
		this.enter(STATE.done);
		try {
			this.delivery!.end('success');
		} finally {
			this.#leave();
			this.context.client.closeTunnel();
		}
	}

	// --- Time and errors. ---

	override onDeadline(): void {
		this.carrier.onDeadline();
	}

	/** For `CallDeadline`. A client that allows too little time says nothing about the upstream. */
	callTimedOut(): void {
		this.#failUnlessResponded(CALL_TIMED_OUT);
	}

	/** The proxy is about to end. A tunnel ends with its connection, and a request that has not begun with its stream. */
	outOfTime(): void {
		const hasBegun = this.context.startedAt > 0;
		if (!hasBegun || this.#state === STATE.done || this.tunnel !== undefined) return;
		this.#guard(() => this.#failUnlessResponded(DRAIN_LIMIT));
	}

	#failUnlessResponded(why: Rejection): void {
		const hasResponded = this.#state === STATE.responding && this.attempt?.connection === undefined;
		if (!hasResponded) this.fail(why, 'abandoned');
	}

	/** The upstream's time ran out before its response began. @param outcome for the breaker, if there is a connection to blame. */
	upstreamTimedOut(outcome: 'timeout' | 'abandoned'): void {
		this.delivery!.timedOut(outcome);
	}

	/** Our code has thrown. The log gets the error; the client learns only that the proxy failed. */
	override onFault(error: unknown): void {
		const { client, plane } = this.context;
		plane.log.error('proxy::exchange', 'internal error', { error });
		if (this.#state === STATE.done) return;
		try {
			this.fail(rejection.INTERNAL_ERROR, 'abandoned');
		} catch (another) {
			plane.log.error('proxy::exchange', 'internal error', { error: another });
			client.reset();
		}
	}

	// --- What the client does meanwhile. ---

	/** Guards calls from the client's connection. It may carry other requests, so a throw must end only this one. */
	#guard(step: () => void): void {
		try {
			step();
		} catch (error) {
			this.onFault(error);
		}
	}

	onRequestBody(chunk: Buffer): void {
		this.#guard(() => this.carrier.onRequestBody(chunk));
	}

	onRequestEnd(trailers?: Trailers): void {
		this.#guard(() => this.carrier.onRequestEnd(trailers && passableTrailers(trailers)));
	}

	onBodyHeld(bytes: number): void {
		this.#guard(() => this.carrier.onBodyHeld(bytes));
	}

	onClientDrained(left: number): void {
		this.#guard(() => this.carrier.onClientDrained(left));
	}

	/** The body's framing is broken (HTTP/1.1 only; over HTTP/2 the stream is reset). */
	onBodyError(refusal: Rejection): void {
		this.#guard(() => this.fail(refusal, 'abandoned'));
	}

	/** The response has gone out whole. */
	onResponseOut(): void {
		this.#guard(() => this.#responseOut());
	}

	#responseOut(): void {
		if (this.tunnel !== undefined) return this.tunnel.onClientHasAll();
		this.enter(STATE.done);
		this.#leave();
	}

	/** The client has left: nobody waits for the upstream's response any more, and the upstream is not to blame. */
	onClientGone(why?: Rejection): void {
		this.#guard(() => this.#gone(why));
	}

	#gone(why: Rejection | undefined): void {
		// The client's end of a tunnel may come after the tunnel is over.
		if (this.tunnel !== undefined && this.#state === STATE.done) return;
		// A response that had begun was good so far.
		const outcome = this.#state === STATE.responding ? 'success' : 'abandoned';
		const { record } = this.context;
		this.enter(STATE.done);
		if (why === undefined) record?.losesClient();
		else record?.breaksOff(why);
		try {
			this.delivery?.end(outcome);
		} finally {
			this.#leave();
		}
	}

	/** Every request ends here, and only once. */
	#leave(): void {
		this.cancelDeadline();
		this.context.callDeadline?.cancelDeadline();
		this.body.release();
		const { context } = this;
		if (this.tunnel !== undefined) leaveTunnel(this.tunnel);
		const { client, slots, traffic, earlyBytes, record } = context;
		slots?.release();
		if (earlyBytes > 0) traffic?.received(client.connection.protocol, earlyBytes);
		countIn(context, undefined);
		if (record === undefined) return;
		context.record = undefined;
		record.tenant = context.principal?.tenant;
		record.route = context.route;
		record.upstream = context.endpoint;
		record.correlation = context.correlation;
		context.plane.requestLog!.end(record);
	}
}

const DRAIN_LIMIT = rejection.UPSTREAM_UNAVAILABLE.because('the drain reached its limit');

import { randomBytes } from 'node:crypto';
import { grpcStatusIn } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { BAD_GATEWAY } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { type Admission, isFailureStatus, NORMAL, type Outcome, REFUSED } from '../../gates/breaker.ts';
import { grpcTimeoutOf } from '../../gates/grpc-timeout.ts';
import { passableTrailers, type Trailers } from '../../gates/trailers.ts';
import { acceptOf, upgradeLines, type WebSocketHandshake } from '../../gates/web-socket.ts';
import type { UpstreamLoad } from '../../memory/upstream-load.ts';
import type { HeadWriter } from '../client/outgoing-head.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import {
	NO_CONNECT,
	type OutgoingBody,
	type OutgoingRequest,
	type ResponseHandler,
	type UpstreamFailure,
	type UpstreamRequest,
} from '../upstream/contract.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { Choice } from '../upstream/upstream.ts';
import { authorityOf, measure } from './context.ts';
import type { Delivery } from './delivery.ts';
import type { Exchange } from './exchange.ts';

/**
 * One try of a request at one upstream. It owns the breaker's admission, the place in the upstream's load and the connection, and gives
 * each of them back exactly once, however the try ends.
 */
export class UpstreamAttempt implements OutgoingRequest, ResponseHandler {
	readonly endpoint: Endpoint;
	/** `undefined`: the request is not there yet, or over there. */
	connection: UpstreamRequest | undefined = undefined;
	readonly #owner: Delivery;
	readonly #request: Exchange;
	/** The admission that the breaker awaits a report on. */
	#admission: Admission | typeof REFUSED;
	/** The counter that includes this attempt. */
	#load: UpstreamLoad | undefined;
	/** A connection may be reserved for it. */
	#isReserved = true;
	/** The `Sec-WebSocket-Accept` that the upstream must send if it takes the handshake. */
	#accept: string | undefined = undefined;
	/** The client's body waits for a connection to the upstream. */
	#bodyWaits = false;

	constructor(owner: Delivery, { endpoint, admission, load }: Choice) {
		this.#owner = owner;
		this.#request = owner.request;
		this.endpoint = endpoint;
		this.#admission = admission;
		this.#load = load;
	}

	/** @param mayUseIdle `false`: only a connection that no request has used. */
	begin(now: number, mayUseIdle: boolean): void {
		const { pool } = this.endpoint;
		const connection = mayUseIdle ? pool.take(now) : pool.open();
		this.#isReserved = false;
		this.connection = connection;
		this.#send(connection);
	}

	#send(connection: UpstreamRequest): void {
		const request = this.#request;
		const { context } = request;
		const body = request.body.outgoing();
		context.record?.sent(context.sentAt);
		connection.send(this, body, this);
		if (body.complete) return;
		// What is still to come of a streamed body stays with the client until the upstream is connected.
		if (connection.isConnected) return request.readBody();
		this.#bodyWaits = true;
		context.client.holdBody();
	}

	// --- The request. ---

	get method(): string {
		const { handshake, client } = this.#request.context;
		return handshake === undefined ? client.method : 'GET';
	}

	get tenant(): string {
		return this.#request.context.principal!.tenant;
	}

	get handshake(): WebSocketHandshake | undefined {
		return this.#request.context.handshake;
	}

	get isCall(): boolean {
		return this.#request.context.isCall;
	}

	headAsText({ framing }: OutgoingBody): string {
		const { handshake, client } = this.#request.context;
		const last = handshake === undefined ? framing : this.#upgrade(handshake);
		return this.#head(client.connection.outgoing, this.method, last);
	}

	headAsBlock({ framing }: OutgoingBody): string {
		const { handshake, client } = this.#request.context;
		// RFC 8441 section 5: the stream replaces the key that HTTP/1.1 needs.
		if (handshake !== undefined) return this.#head(client.connection.outgoingBlock, 'CONNECT', handshake.lines);
		return this.#head(client.connection.outgoingBlock, client.method, framing);
	}

	/** @param last the final lines: the body's framing or a handshake. */
	#head(writer: HeadWriter, method: string, last: string): string {
		const { context } = this.#request;
		const { client } = context;
		const { certificateHeaders, forwarding } = context.route!;
		const certificateLines =
			certificateHeaders === undefined ? '' : client.connection.caller!.lines(certificateHeaders);
		let { versionAndHost } = this.endpoint;
		let { lines } = context.head!;
		if (forwarding !== undefined) {
			const authority = authorityOf(context) ?? undefined;
			({ versionAndHost, lines } = client.connection.rewrite(forwarding, versionAndHost, authority, context.head!));
		}
		return writer.write(
			method,
			context.target!,
			versionAndHost,
			context.principal!.tenantHeader,
			certificateLines,
			this.#ownLines(),
			lines,
			last,
		);
	}

	#upgrade(handshake: WebSocketHandshake): string {
		const key = randomBytes(16).toString('base64');
		this.#accept = acceptOf(key);
		return upgradeLines(handshake, key);
	}

	/** Lines that are specific to this request; may be empty. */
	#ownLines(): string {
		const { correlation, callDeadline, head, plane } = this.#request.context;
		const lines = correlation?.lines ?? '';
		const { grpcTimeout } = head!;
		if (grpcTimeout == null) return lines;
		// A call's upstream gets the time that is left. Other requests pass on the client's value.
		const ms = callDeadline?.leftAt(plane.clock.now()) ?? grpcTimeout;
		return `${lines}grpc-timeout: ${grpcTimeoutOf(ms)}\r\n`;
	}

	onConnected(): void {
		if (!this.#bodyWaits) return;
		this.#bodyWaits = false;
		this.#request.readBody();
	}

	// --- The response. ---

	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void {
		// Settled before the last byte of the response: by then the connection, or the place on it, may belong to another request.
		if (isFailureStatus(status)) this.settle(this.isCallOver ? 'abandoned' : 'status', `status ${status}`);
		const { context } = this.#request;
		// Over HTTP/2, this status would tell the client that there is a tunnel.
		if (context.handshake !== undefined && context.client.tunnelStatus === 200 && status < 300) {
			return this.#request.fail(NOT_SWITCHED, 'abandoned');
		}
		if (context.isCall && (!hasBody || length === 0)) this.#takeGrpcStatus(fields.list);
		this.#request.body.onHead(status, fields, length, hasBody);
	}

	/** The call's time is over. An upstream that then gives the call up is not to blame; it may do so before the proxy does. */
	get isCallOver(): boolean {
		const { callDeadline, plane } = this.#request.context;
		return callDeadline?.mayBeOverAtUpstream(plane.clock.now()) === true;
	}

	onTunnel(fields: ResponseFields): void {
		this.#request.opensTunnel(fields, this.#accept);
	}

	onBody(chunk: Buffer): void {
		this.#request.carrier.onBody(chunk);
	}

	room(): Buffer | undefined {
		return this.#request.body.room();
	}

	onBodyInRoom(bytes: number): void {
		this.#request.body.onBodyInRoom(bytes);
	}

	onEnd(trailers?: Trailers): void {
		const { tunnel } = this.#request;
		if (tunnel !== undefined) return tunnel.onEnd();
		this.#leave();
		if (trailers !== undefined && this.#request.context.isCall) this.#takeGrpcStatus(trailers);
		this.settle('success');
		const { body, context } = this.#request;
		body.onEnd(trailers !== undefined && context.route!.trailers ? passableTrailers(trailers) : undefined);
	}

	/** A call's status is in its trailers, or in a head that ends the response. */
	#takeGrpcStatus(fields: readonly string[]): void {
		const status = grpcStatusIn(fields);
		if (status === undefined) return;
		const { record, route } = this.#request.context;
		this.endpoint.stats.count('grpc', String(status));
		if (record !== undefined) record.grpcStatus = status;
		if (route!.opening.grpcStatuses?.includes(status)) this.settle('status', `grpc-status ${status}`);
	}

	onWritable(): void {
		this.#request.carrier.onWritable();
	}

	onUploadHeld(bytes: number): void {
		this.#request.carrier.onUploadHeld(bytes);
	}

	onResponseHeld(bytes: number): void {
		this.#request.carrier.onResponseHeld(bytes);
	}

	onFailing(failure: UpstreamFailure): void {
		this.#owner.attemptFailing(failure);
	}

	onFailure(failure: UpstreamFailure): void {
		if (failure === NO_CONNECT && this.endpoint.pool.openHttp1 !== undefined) return this.#goOverHttp1();
		this.#fail(failure);
	}

	/** The upstream takes no WebSocket over HTTP/2, but may take it over HTTP/1.1. */
	#goOverHttp1(): void {
		const connection = this.endpoint.pool.openHttp1!(this.#request.context.plane.clock.now());
		if (connection === undefined) return this.#fail(NO_PLACE);
		this.connection = connection;
		connection.send(this, this.#request.body.outgoing(), this);
	}

	#fail(failure: UpstreamFailure): void {
		this.#leave();
		this.#owner.attemptFailed(failure);
	}

	onFault(error: unknown): void {
		this.#request.onFault(error);
	}

	// --- How it ends. ---

	/** Adds the round trip to the latency summary. */
	measure(): void {
		const { context } = this.#request;
		const now = context.plane.clock.now();
		const ms = now - context.sentAt;
		this.endpoint.stats.roundTrips.record(ms, now);
		measure(context, this.endpoint.durations, ms, now);
	}

	/** Reports the outcome to the breaker; only the first report counts. @param cause reason of a failure, in words for operators. */
	settle(outcome: Outcome, cause = ''): void {
		const admission = this.#admission;
		if (admission === REFUSED) return;
		this.#admission = REFUSED;
		const { breaker } = this.endpoint;
		if (outcome === 'success' || outcome === 'abandoned') return breaker.report(admission, outcome);
		const { principal, route, plane } = this.#request.context;
		breaker.fail(admission, { reason: outcome, cause, tenant: principal!.tenant }, route!.opening, plane.clock.now());
	}

	/** A good response has begun. A half-open breaker need not wait for its last byte, but does wait for a call's status if configured to. */
	settleProbe(): void {
		if (this.#admission <= NORMAL || this.#isJudgedAtEnd()) return;
		this.endpoint.breaker.report(this.#admission, 'success');
		// The rest of the response is judged like that of any other request.
		this.#admission = NORMAL;
	}

	/** A call's status, which may be a failure, follows its last message. */
	#isJudgedAtEnd(): boolean {
		const { context } = this.#request;
		return context.route!.opening.grpcStatuses !== undefined && context.isCall;
	}

	/** Passes the admission to another attempt at the same endpoint; this one then reports nothing. */
	passAdmission(): Admission | typeof REFUSED {
		const admission = this.#admission;
		this.#admission = REFUSED;
		return admission;
	}

	/** Ends the attempt unless it is over. @param cause reason of a failure, in words for operators. */
	end(outcome: Outcome, cause?: string): void {
		try {
			this.settle(outcome, cause);
		} finally {
			this.connection?.destroy();
			this.#leave();
		}
	}

	/** Releases everything that the attempt holds at the endpoint. */
	#leave(): void {
		const { pool } = this.endpoint;
		if (this.connection !== undefined) {
			this.connection = undefined;
			this.#request.context.record?.upstreamEnds();
		} else if (this.#isReserved) {
			this.#isReserved = false;
			pool.giveBackReserved();
		}
		if (this.#load === undefined) return;
		this.#load.dec();
		this.#load = undefined;
		pool.freed();
	}
}

const NOT_SWITCHED = BAD_GATEWAY.because(
	'the upstream answered the WebSocket handshake with a 2xx that opens no WebSocket',
);

const NO_PLACE: UpstreamFailure = {
	kind: 'exhausted',
	cause:
		'not sent: the upstream takes WebSockets over HTTP/1.1 only, and all its connections are in use (max_connections)',
};

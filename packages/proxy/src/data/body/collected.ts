import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { NO_ROUTE, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { admitLength, UNDECLARED } from '../../gates/body-limit.ts';
import { pathOf } from '../../gates/path.ts';
import { ResponsePace } from '../../gates/response-pace.ts';
import { namesOf, type Trailers } from '../../gates/trailers.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import { countGiven, countReceived } from '../request/context.ts';
import type { BodyMode } from '../request/contract.ts';
import type { Exchange } from '../request/exchange.ts';
import { STATE } from '../request/state.ts';
import type { OutgoingBody } from '../upstream/contract.ts';
import { ByteCollector } from './byte-collector.ts';
import { chunkedBody, lengthLine, noBody } from './outgoing-body.ts';

/** Which of the two body modes this build has. */
export const bodyMode = 'collected';
/** Whether a request's body is taken as fast as it arrives: here its memory is limited where it is kept. */
export const takesBodyAtOnce: boolean = true;
/** Whether a declared length is judged before the route is looked up, or once it is known. */
export const judgesLengthFirst: boolean = true;

/** The line by which a request's body is announced to the upstream. @param length bytes. */
export function framingLine(method: string, length: number): string {
	return length === 0 ? noBody(method).framing : lengthLine(length);
}

/**
 * Collected mode: the request's body is read whole before the route is looked up, the response's
 * body before the client sees its head. A response is whole or an error, never something in between.
 */
export class Bodies implements BodyMode {
	readonly #request: Exchange;
	#upload: ByteCollector | undefined = undefined;
	#uploadLength = 0;
	#trailers: Trailers | undefined = undefined;
	/** Monotonic milliseconds when the body was asked for. */
	#askedAt = 0;
	#response: ByteCollector | undefined = undefined;
	#short: string | undefined = undefined;
	#status = 0;
	#fields: ResponseFields | undefined = undefined;
	#responseLength = UNDECLARED;
	#responseHasBody = false;
	/** Set if the client does not take a long response at once. */
	#pace: ResponsePace | undefined = undefined;
	/** Bytes of the response that the kernel, or the stream's window, has yet to take. */
	#untaken = 0;
	/** Monotonic milliseconds. */
	#lastTakenAt = 0;

	constructor(request: Exchange) {
		this.#request = request;
	}

	// --- The request's body. ---

	receive(): void {
		const request = this.#request;
		const { context } = request;
		const { bodyLength } = context.head!;
		if (bodyLength === 0) return request.forward();
		context.span?.enters('body');
		const { plane } = context;
		// The limits are the route's. Matching is pure: a request without a route is still refused after its body, by `forward`.
		const route = plane.routesLimitBodies ? plane.routes.match(pathOf(context.target!)) : NO_ROUTE;
		if (!(route instanceof Rejection)) context.limits = route.requestLimits;
		const tooLarge = admitLength(bodyLength, context.limits.maxBodyBytes);
		if (tooLarge) return request.refuse(tooLarge);
		this.#upload = this.#collector();
		this.#uploadLength = bodyLength;
		this.#askedAt = plane.clock.now();
		context.limits.body.add(request);
		request.readBody();
	}

	onAsked(): void {}

	onRequestBody(chunk: Buffer): void {
		const request = this.#request;
		if (request.state !== STATE.reading) return;
		const { context } = request;
		countReceived(context, chunk.length);
		const upload = this.#upload!;
		if (upload.length + chunk.length > context.limits.maxBodyBytes) return request.refuse(rejection.PAYLOAD_TOO_LARGE);
		const noRoom = upload.append(chunk, this.#uploadLength);
		if (noRoom) request.refuse(noRoom);
	}

	/** Nothing to do: the body is read as soon as the request has begun. */
	onBodyHeld(_bytes: number): void {}

	/** A collected body is counted already. */
	onUploadHeld(): void {}

	onRequestEnd(trailers?: Trailers): void {
		const request = this.#request;
		if (request.state !== STATE.reading) return;
		const { context } = request;
		this.#trailers = trailers;
		context.record?.bodyEnds();
		context.waitedMs += context.plane.clock.now() - this.#askedAt;
		request.cancelDeadline();
		request.forward();
	}

	/** The declared length has been judged before the body was read. */
	admitLength(): undefined {
		return undefined;
	}

	outgoing(): OutgoingBody {
		const { client, route } = this.#request.context;
		if (this.#upload === undefined) return noBody(client.method);
		const { length, returned } = this.#upload;
		const trailers = route!.trailers ? this.#trailers : undefined;
		// A length declared by the client is kept, so HTTP/1.1 cannot carry trailers.
		const isChunked = trailers !== undefined && this.#uploadLength === UNDECLARED;
		return {
			...(isChunked ? chunkedBody(namesOf(trailers)) : { length, framing: lengthLine(length) }),
			trailers,
			pieces: this.#upload.lend(),
			onWritten: returned,
			complete: true,
		};
	}

	get canRepeat(): boolean {
		return true;
	}

	/** The request's body went with its head. */
	onWritable(): void {}

	onResponseHeld(): void {}

	// --- The response. ---

	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void {
		this.#status = status;
		this.#fields = fields;
		this.#responseLength = length;
		this.#responseHasBody = hasBody;
	}

	/** No part of a broken response may get into the next one. */
	onResponseLost(): void {
		this.#response?.release();
		this.#response = undefined;
		this.#short = undefined;
		this.#responseLength = UNDECLARED;
	}

	/** A response that has begun was given to its end. */
	readonly hasAll = false;

	endCall(): boolean {
		return false;
	}

	onBody(chunk: Buffer): void {
		// A short body that arrives at once is answered in this turn: it is passed on, not held.
		if (chunk.length === this.#responseLength && chunk.length <= SHORT_BODY) {
			this.#short = chunk.toString('latin1');
			return;
		}
		this.#response ??= this.#collector();
		// A lack of memory is ours, not a failure of the upstream.
		const noRoom = this.#response.append(chunk, this.#responseLength);
		if (noRoom) this.#request.fail(noRoom, 'abandoned');
	}

	/** A body of known length is read straight into its final place. */
	room(): Buffer | undefined {
		if (this.#responseLength <= SHORT_BODY) return undefined;
		this.#response ??= this.#collector();
		return this.#response.room(this.#responseLength);
	}

	onBodyInRoom(bytes: number): void {
		this.#response!.took(bytes);
	}

	onEnd(trailers?: Trailers): void {
		const request = this.#request;
		const { context, attempt } = request;
		const { client, plane } = context;
		attempt!.measure();
		this.#upload?.release();
		const body = this.#short ?? this.#response;
		const fields = this.#fields!;
		const isPassed = trailers !== undefined && this.#responseHasBody && client.takesTrailers(fields);
		const passed = isPassed ? trailers : undefined;
		// Over HTTP/1.1, only chunked framing can carry trailers.
		const isSized = fields.hasLength || !this.#responseHasBody || passed !== undefined;
		request.responds(this.#status);
		if (body !== undefined) countGiven(context, body.length);
		plane.deadlines.response.add(request);
		this.#untaken = body?.length ?? 0;
		this.#lastTakenAt = plane.deadlines.now;
		const sized = isSized ? fields : fields.withLength(body?.length ?? 0);
		client.respond(
			this.#status,
			request.responseFields(sized),
			this.#responseHasBody ? (body ?? '') : undefined,
			passed,
		);
	}

	/** Part of a long response has gone out: a client that takes it fast enough gets time for the rest. */
	onClientDrained(left: number): void {
		const request = this.#request;
		// After the last part nothing is held: `onResponseOut` follows.
		if (request.state !== STATE.responding || left === 0) return;
		const { client, plane } = request.context;
		const { deadlines, limits } = plane;
		this.#pace ??= new ResponsePace(limits.minAnswerBytesPerSec ?? LEAST_RATE, limits.upstreamTimeoutMs);
		const inTime = this.#pace.took(this.#untaken - left, deadlines.now - this.#lastTakenAt);
		// A client must not hold memory for as long as it likes.
		if (!inTime) return client.reset();
		this.#untaken = left;
		this.#lastTakenAt = deadlines.now;
		deadlines.response.add(request);
	}

	onDeadline(): void {
		const request = this.#request;
		if (request.state === STATE.reading) request.refuse(rejection.SLOW_CLIENT);
		else if (request.state === STATE.responding) request.breakOff(STOPPED_READING);
		else request.upstreamTimedOut('timeout');
	}

	release(): void {
		this.#upload?.release();
		this.#response?.release();
	}

	#collector(): ByteCollector {
		const { plane, principal } = this.#request.context;
		return new ByteCollector(plane.bufferedBytes, principal!.tenantKey);
	}
}

const STOPPED_READING = rejection.SLOW_CLIENT.because('client stopped reading');
/** Bytes. */
const SHORT_BODY = 4096;
/** Bytes per second: the throttled rate of the slowest mobile plans (32 kbit/s). */
const LEAST_RATE = 4096;

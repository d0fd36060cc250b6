import { isGrpc } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { notOverCause, silenceCause } from '@mtls-edge-proxy/gate/words/causes.ts';
import { admitLength, UNDECLARED } from '../../gates/body-limit.ts';
import { ResponsePace } from '../../gates/response-pace.ts';
import { announcedNames, type Trailers } from '../../gates/trailers.ts';
import type { Limits } from '../../shared/limits.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import { countGiven, countReceived } from '../request/context.ts';
import type { BodyMode } from '../request/contract.ts';
import type { Exchange } from '../request/exchange.ts';
import { STATE } from '../request/state.ts';
import { StreamExpiry } from '../request/stream-expiry.ts';
import type { OutgoingBody, UpstreamRequest } from '../upstream/contract.ts';
import { HeldBytes } from './held-bytes.ts';
import { KeptPieces } from './kept-pieces.ts';
import { chunkedBody, lengthLine, NO_PIECES, noBody } from './outgoing-body.ts';

/** Which of the two body modes this build has. */
export const bodyMode = 'streaming';
/** Whether a request's body is taken as fast as it arrives: here the upstream's pace decides. */
export const takesBodyAtOnce: boolean = false;
/** Whether a declared length is judged before the route is looked up, or once it is known. */
export const judgesLengthFirst: boolean = false;

/** The line by which a request's body is announced to the upstream. @param length bytes, or `UNDECLARED`. */
export function framingLine(method: string, length: number): string {
	return outgoingBodyOf(method, length).framing;
}

/**
 * Streaming mode (build feature `boxed_body`): both bodies pass through as they come, each side read
 * only as fast as the other one takes it. What has begun cannot be taken back: a response that breaks off is reset.
 */
export class Bodies implements BodyMode {
	readonly #request: Exchange;
	#uploadLength = 0;
	#uploaded = 0;
	#uploadComplete = true;
	#uploadPaused = false;
	/** Trailers of the body, in case the request is sent again. */
	#trailers: Trailers | undefined = undefined;
	/** What has been passed on to an HTTP/2 upstream, if that is all of it, until the response begins. */
	#kept: KeptPieces | undefined = undefined;
	/** Bytes of it that are counted (`BufferedBytes.tryKeep`). */
	#counted = 0;
	/** The client was told that its body may come. */
	#asked = false;
	/** The bytes that complete a body of declared length, held until the client has ended it. */
	#lastChunk: Buffer | undefined = undefined;
	/** Bytes that wait; `undefined`: none have. */
	#heldBytes: HeldBytes | undefined = undefined;
	/** The client does not take its response at the moment. */
	#clientBlocked = false;
	/** Set if the route ends responses when the token expires. */
	#expiry: StreamExpiry | undefined = undefined;
	/** Set for a response with a body, until its end is given to the client. */
	#fields: ResponseFields | undefined = undefined;
	/** Bytes of a response of declared length that have not come yet; below 0 without one. */
	#left = UNDECLARED;
	/** Monotonic milliseconds. */
	#blockedAt = 0;
	/** Bytes of the response given since the client last had taken everything. */
	#given = 0;
	/** `undefined` unless a least rate is configured. */
	readonly #pace: ResponsePace | undefined;

	constructor(request: Exchange) {
		this.#request = request;
		this.#pace = paceOf(request.context.plane.limits);
	}

	// --- The request's body. ---

	/** The body is not waited for: it follows the head, on the upstream's time. */
	receive(): void {
		this.#request.forward();
	}

	admitLength(): Rejection | undefined {
		const { head, span, limits } = this.#request.context;
		const { bodyLength } = head!;
		this.#uploadLength = bodyLength;
		this.#uploadComplete = bodyLength === 0;
		if (this.#uploadComplete) return undefined;
		span?.enters('body length');
		return admitLength(bodyLength, limits.maxBodyBytes);
	}

	outgoing(): OutgoingBody {
		const { client, head, route } = this.#request.context;
		const { announcedTrailers } = head!;
		const announced = announcedTrailers !== '' && route!.trailers ? announcedNames(announcedTrailers) : '';
		// A kept body follows: `onAsked`.
		if (this.#uploaded > 0) return outgoingBodyOf(client.method, this.#uploadLength, announced);
		if (this.#trailers !== undefined) return { ...chunkedBody(announced), complete: true, trailers: this.#trailers };
		return outgoingBodyOf(client.method, this.#uploadComplete ? 0 : this.#uploadLength, announced);
	}

	get canRepeat(): boolean {
		if (this.#kept !== undefined) return true;
		return this.#uploaded === 0 && (this.#uploadComplete || !this.#asked);
	}

	onAsked(): void {
		const connection = this.#request.attempt?.connection;
		const before = this.#kept;
		this.#kept = connection?.mayBeRefused === true ? new KeptPieces() : undefined;
		// The client is read again.
		this.#uploadPaused = false;
		this.#asked = true;
		if (this.#kept === undefined) this.#forget();
		if (before === undefined || connection === undefined) return;
		for (let piece = before.shift(); piece !== undefined; piece = before.shift()) this.#pass(connection, piece);
		if (this.#uploadComplete) connection.finish(this.#trailers);
	}

	onRequestBody(chunk: Buffer): void {
		const { context, attempt, state } = this.#request;
		const connection = attempt?.connection;
		// The upstream has answered without waiting for the body: the rest of it has nowhere to go.
		if (connection === undefined) return;
		this.#uploaded += chunk.length;
		countReceived(context, chunk.length);
		if (this.#uploaded > context.limits.maxBodyBytes) {
			return this.#request.fail(rejection.PAYLOAD_TOO_LARGE, 'abandoned');
		}
		if (state === STATE.responding) this.#expectProgress();
		// With these bytes the upstream would see a complete request, while an HTTP/2 client can still break it off.
		if (this.#uploaded === this.#uploadLength) {
			this.#lastChunk = Buffer.from(chunk);
			return;
		}
		const more = this.#pass(connection, chunk);
		if (!more && !this.#uploadPaused) {
			this.#uploadPaused = true;
			context.client.pauseBody();
		}
	}

	#pass(connection: UpstreamRequest, chunk: Buffer): boolean {
		if (this.#kept !== undefined) this.#keep(this.#kept, chunk);
		return connection.write(chunk);
	}

	#keep(kept: KeptPieces, chunk: Buffer): void {
		if (kept.length + chunk.length > MAX_KEPT) return this.#forget();
		kept.add(chunk);
		if (kept.length <= Math.max(UNCOUNTED, this.#counted)) return;
		const { plane, principal } = this.#request.context;
		if (!plane.bufferedBytes.tryKeep(principal!.tenantKey, kept.length - this.#counted)) return this.#forget();
		this.#counted = kept.length;
	}

	#forget(): void {
		this.#kept = undefined;
		const { plane, principal } = this.#request.context;
		if (this.#counted > 0) plane.bufferedBytes.unkeep(principal!.tenantKey, this.#counted);
		this.#counted = 0;
	}

	onBodyHeld(bytes: number): void {
		this.#held.hold('upload', bytes);
	}

	onUploadHeld(bytes: number): void {
		this.#held.hold('upstream upload', bytes);
	}

	get #held(): HeldBytes {
		this.#heldBytes ??= new HeldBytes(this.#request, (why) => this.#request.fail(why, 'abandoned'));
		return this.#heldBytes;
	}

	onRequestEnd(trailers?: Trailers): void {
		const { context, attempt } = this.#request;
		this.#uploadComplete = true;
		context.record?.bodyEnds();
		const connection = attempt?.connection;
		if (this.#lastChunk !== undefined && connection !== undefined) this.#pass(connection, this.#lastChunk);
		this.#lastChunk = undefined;
		this.#trailers = context.route!.trailers ? trailers : undefined;
		connection?.finish(this.#trailers);
	}

	onWritable(): void {
		if (!this.#uploadPaused) return;
		this.#uploadPaused = false;
		this.#request.context.client.resumeBody();
	}

	// --- The response. ---

	onHead(status: number, fields: ResponseFields, length: number, hasBody: boolean): void {
		if (this.#kept !== undefined) this.#forget();
		const request = this.#request;
		const attempt = request.attempt!;
		attempt.measure();
		attempt.settleProbe();
		request.responds(status);
		this.#expectProgress();
		const { client, route, limits } = request.context;
		if (limits.endsAtExpiry && hasBody) this.#expiry = new StreamExpiry(request);
		this.#fields = hasBody ? fields : undefined;
		this.#left = length;
		const announces = fields.announcedTrailers !== '' && hasBody && route!.trailers && client.takesTrailers(fields);
		const announced = announces ? fields.announcedTrailers : '';
		client.begin(status, request.responseFields(fields), hasBody, announced);
	}

	onBody(chunk: Buffer): void {
		const { context, attempt } = this.#request;
		const { streamMs } = context.limits;
		if (streamMs !== undefined && context.plane.deadlines.now - context.sentAt > streamMs) {
			return this.#request.fail(rejection.UPSTREAM_TIMEOUT.because(notOverCause(streamMs)), 'abandoned');
		}
		this.#expectProgress();
		this.#given += chunk.length;
		countGiven(context, chunk.length);
		const mayGoOn = context.client.write(chunk);
		this.#left -= chunk.length;
		if (mayGoOn) return;
		this.#clientBlocked = true;
		this.#held.onClientFull();
		this.#blockedAt = context.plane.deadlines.now;
		const connection = attempt?.connection;
		if (connection === undefined) return;
		this.#expectProgress();
		connection.pause();
	}

	onResponseHeld(bytes: number): void {
		this.#held.hold('response', bytes);
	}

	/** Bytes are passed on at once and not kept. */
	room(): undefined {
		return undefined;
	}

	onBodyInRoom(): void {}

	onEnd(trailers?: Trailers): void {
		const { client, plane } = this.#request.context;
		this.#expiry?.cancelDeadline();
		// From now on the exchange waits only for the client.
		plane.deadlines.response.add(this.#request);
		// An upload that the upstream did not wait for is resumed; its rest is dropped.
		this.onWritable();
		const fields = this.#fields;
		this.#fields = undefined;
		const isPassed = trailers !== undefined && fields !== undefined && client.takesTrailers(fields);
		client.end(isPassed ? trailers : undefined);
	}

	/** Nothing to do: no response has begun. */
	onResponseLost(): void {}

	get hasAll(): boolean {
		const { protocol } = this.#request.context.client.connection;
		// Over HTTP/2 a client can tell the difference.
		return this.#fields !== undefined && this.#left === 0 && protocol === 'http/1.1';
	}

	endCall(trailers: Trailers): boolean {
		const fields = this.#fields;
		this.#fields = undefined;
		const { client, plane, route } = this.#request.context;
		// With a declared length the client would take the end for an error of framing (RFC 9113 section 8.1.1).
		if (fields === undefined || fields.hasLength || !isCallResponse(fields.list)) return false;
		if (!route!.trailers || !client.takesTrailers(fields)) return false;
		this.#expiry?.cancelDeadline();
		plane.deadlines.response.add(this.#request);
		this.onWritable();
		client.end(trailers);
		return true;
	}

	onClientDrained(_left: number): void {
		if (this.#isTooSlow()) return this.#leaveReader(rejection.UPSTREAM_TIMEOUT);
		this.#clientBlocked = false;
		this.#heldBytes?.onClientDrained();
		this.#expectProgress();
		this.#request.attempt?.connection?.resume();
	}

	/** Whether the client takes less than the required rate while the upstream waits for it. */
	#isTooSlow(): boolean {
		const { attempt, context } = this.#request;
		if (this.#pace === undefined || !this.#clientBlocked || attempt?.connection === undefined) return false;
		const given = this.#given;
		this.#given = 0;
		return !this.#pace.took(given, context.plane.deadlines.now - this.#blockedAt);
	}

	/**
	 * Once the response has begun each side must move within its limit; a body as a whole may take longer. A client that takes nothing has the
	 * time of `[limits]`, whatever its route gives the upstream.
	 */
	#expectProgress(): void {
		const { context } = this.#request;
		const queue = this.#clientBlocked ? context.plane.deadlines.response : context.limits.silence;
		if (queue === undefined) this.#request.cancelDeadline();
		else queue.add(this.#request);
	}

	onDeadline(): void {
		const request = this.#request;
		if (request.state !== STATE.responding) {
			return request.upstreamTimedOut(this.#uploadComplete ? 'timeout' : 'abandoned');
		}
		const isAtUpstream = request.attempt?.connection !== undefined;
		// The side that did not move is at fault: the upstream, unless it waits for a client that takes nothing or owes a body.
		if (isAtUpstream && !this.#clientBlocked && this.#uploadComplete) {
			const cause = silenceCause('more of the response', request.context.limits.silenceMs);
			request.fail(rejection.BAD_GATEWAY.because(cause), 'timeout');
		} else if (isAtUpstream && !this.#clientBlocked) {
			request.fail(STOPPED_SENDING, 'abandoned');
		} else {
			this.#leaveReader(STOPPED_READING);
		}
	}

	/** The client does not read its response, so it would not read a status either. */
	#leaveReader(why: Rejection): void {
		this.#fields = undefined;
		this.#request.fail(why, 'abandoned');
	}

	release(): void {
		this.#forget();
		this.#expiry?.cancelDeadline();
		this.#heldBytes?.release();
	}
}

/** Largest part of a body that is kept, bytes. */
const MAX_KEPT = 16_384;
/** A kept part of this size is no more than the rest of its request takes, so it is not counted; bytes. */
const UNCOUNTED = 1024;

const STOPPED_READING = rejection.SLOW_CLIENT.because('client stopped reading');
const STOPPED_SENDING = rejection.SLOW_CLIENT.because('client stopped sending');

/** @param length bytes, or `UNDECLARED`. @param announced names of trailers that may follow, with commas between. */
function outgoingBodyOf(method: string, length: number, announced = ''): OutgoingBody {
	if (length === 0) return noBody(method);
	return length === UNDECLARED ? chunkedBody(announced) : fixedBody(length);
}

function fixedBody(length: number): OutgoingBody {
	return { length, framing: lengthLine(length), pieces: NO_PIECES, complete: false };
}

/** Nothing is held for a client beyond what the sockets buffer, so there is no least rate unless one is configured. */
function paceOf({ minAnswerBytesPerSec = 0, upstreamTimeoutMs }: Limits): ResponsePace | undefined {
	return minAnswerBytesPerSec === 0 ? undefined : new ResponsePace(minAnswerBytesPerSec, upstreamTimeoutMs);
}

/** @param list names and values in turn. */
function isCallResponse(list: readonly string[]): boolean {
	const at = list.findIndex((name, i) => i % 2 === 0 && name === 'content-type');
	return at !== -1 && isGrpc(list[at + 1]!);
}

import { AnswerPace } from '../../gates/answer-pace.ts';
import { admitLength, UNDECLARED } from '../../gates/body-limit.ts';
import { isFailureStatus } from '../../gates/breaker.ts';
import type { RequestHead } from '../../gates/headers.ts';
import { pathOf } from '../../gates/path.ts';
import * as rejection from '../../gates/rejection.ts';
import { NO_ROUTE, Rejection } from '../../gates/rejection.ts';
import type { AnswerFields } from '../answer-fields.ts';
import { Exchange } from '../exchange.ts';
import type { OutgoingBody, UpstreamFailure } from '../upstream/connection.ts';
import { ByteCollector } from './byte-collector.ts';
import { lengthLine, noBody } from './outgoing-body.ts';

/** Which of the two body modes this build has. */
export const bodyMode = 'collected';
/** Whether all that comes of a request's body is taken as it comes: it is counted where it is kept. */
export const takesBodyAtOnce: boolean = true;
/** Whether a declared length is judged before the route is looked up, or once it is known. */
export const judgesLengthFirst: boolean = true;

/** The line by which a request's body is announced to the upstream. @param length bytes. */
export function framingLine(method: string, length: number): string {
	return length === 0 ? noBody(method).framing : lengthLine(length);
}

/**
 * Collected mode: the request's body is read whole before the route is looked up, the response's
 * body before the client sees its head. An answer is whole or an error, never something in between.
 */
export class BodyExchange extends Exchange {
	#request: ByteCollector | undefined;
	#requestLength = 0;
	#response: ByteCollector | undefined;
	#short: string | undefined;
	#status = 0;
	#fields: AnswerFields | undefined;
	#responseLength = UNDECLARED;
	#responseHasBody = false;
	#reading = false;
	/** Monotonic milliseconds when the body was asked for. */
	#askedAt = 0;
	/** Of a client that does not take a long answer at once. */
	#pace: AnswerPace | undefined;
	/** Bytes of the answer that the kernel, or the stream's window, has yet to take. */
	#untaken = 0;
	/** Monotonic milliseconds. */
	#lastTakenAt = 0;

	protected override receive(head: RequestHead): void {
		const { plane } = this;
		if (head.bodyLength === 0) return this.forward();
		this.span?.enters('body');
		// The limits are the route's. Matching is pure: a request without a route is still refused after its body, by `forward`.
		const route = plane.routesLimitBodies ? plane.routes.match(pathOf(this.target!)) : NO_ROUTE;
		if (!(route instanceof Rejection)) this.limits = route.requestLimits;
		const tooLarge = admitLength(head.bodyLength, this.limits.maxBodyBytes);
		if (tooLarge) return this.refuse(tooLarge);
		this.#request = new ByteCollector(plane.bufferedBytes, this.tenantKey);
		this.#requestLength = head.bodyLength;
		this.#reading = true;
		this.#askedAt = plane.clock.now();
		this.limits.body.add(this);
		this.readBody();
	}

	override onRequestBody(chunk: Buffer): void {
		if (!this.#reading) return;
		this.received(chunk.length);
		const collector = this.#request!;
		if (collector.length + chunk.length > this.limits.maxBodyBytes) return this.refuse(rejection.PAYLOAD_TOO_LARGE);
		const noRoom = collector.append(chunk, this.#requestLength);
		if (noRoom) this.refuse(noRoom);
	}

	/** The body is read as soon as the request has begun. */
	override onBodyHeld(_bytes: number): void {}

	override onRequestEnd(): void {
		if (!this.#reading) return;
		this.#reading = false;
		this.record?.bodyEnds();
		this.waited(this.plane.clock.now() - this.#askedAt);
		this.cancelDeadline();
		this.forward();
	}

	/** The declared length has been judged before the body was read. */
	protected override admitBody(): undefined {
		return undefined;
	}

	protected override outgoingBody(): OutgoingBody {
		if (this.#request === undefined) return noBody(this.client.method);
		const { length, returned } = this.#request;
		return {
			framing: lengthLine(length),
			pieces: this.#request.lend(),
			onWritten: returned,
			complete: true,
		};
	}

	protected override get canRepeat(): boolean {
		return true;
	}

	override onHead(status: number, fields: AnswerFields, length: number, hasBody: boolean): void {
		this.#status = status;
		this.#fields = fields;
		this.#responseLength = length;
		this.#responseHasBody = hasBody;
		// Not with the last byte of the response: by then the connection, or the place there, may be another request's.
		if (isFailureStatus(status)) this.settle('status', `status ${status}`);
	}

	/** Nothing of a response that has broken off is part of the next one. */
	override onFailure(failure: UpstreamFailure): void {
		this.#response?.release();
		this.#response = undefined;
		this.#short = undefined;
		this.#responseLength = UNDECLARED;
		super.onFailure(failure);
	}

	override onBody(chunk: Buffer): void {
		// A short body that is here all at once is answered in this very turn: it is passed on, not held.
		if (chunk.length === this.#responseLength && chunk.length <= SHORT_BODY) {
			this.#short = chunk.toString('latin1');
			return;
		}
		this.#response ??= new ByteCollector(this.plane.bufferedBytes, this.tenantKey);
		// The memory is ours, and so is the lack of it: no failure of the upstream.
		const noRoom = this.#response.append(chunk, this.#responseLength);
		if (noRoom) this.fail(noRoom, 'abandoned');
	}

	/** A body of known length is read to where it is kept. */
	override room(): Buffer | undefined {
		if (this.#responseLength <= SHORT_BODY) return undefined;
		this.#response ??= new ByteCollector(this.plane.bufferedBytes, this.tenantKey);
		return this.#response.room(this.#responseLength);
	}

	override onBodyInRoom(bytes: number): void {
		this.#response!.took(bytes);
	}

	override onEnd(): void {
		this.upstreamEnded();
		this.settleByStatus(this.#status, true);
		this.#request?.release();
		const body = this.#short ?? this.#response;
		const fields = this.#fields!;
		const isSized = fields.hasLength || !this.#responseHasBody;
		this.count(this.#status);
		if (body !== undefined) this.gave(body.length);
		this.plane.deadlines.answer.add(this);
		this.#untaken = body?.length ?? 0;
		this.#lastTakenAt = this.plane.deadlines.now;
		const sized = isSized ? fields : fields.withLength(body?.length ?? 0);
		this.client.answer(this.#status, this.answerFields(sized), this.#responseHasBody ? (body ?? '') : undefined);
	}

	override onDeadline(): void {
		if (this.#reading) this.refuse(rejection.SLOW_CLIENT);
		else if (this.answered) this.breakOff(STOPPED_READING);
		else this.upstreamTimedOut('timeout');
	}

	override refuse(answer: Rejection): void {
		this.#reading = false;
		super.refuse(answer);
	}

	protected override releaseBodies(): void {
		this.#request?.release();
		this.#response?.release();
	}

	/** The request's body went with its head. */
	override onWritable(): void {}

	/** Part of a long answer has gone out: a client that takes it fast enough gets time for the rest. */
	override onClientDrained(left: number): void {
		// With the last of it nothing is held any more: `onAnswered` follows.
		if (!this.answered || left === 0) return;
		const { deadlines, limits } = this.plane;
		this.#pace ??= new AnswerPace(limits.minAnswerBytesPerSec ?? LEAST_RATE, limits.upstreamTimeoutMs);
		const inTime = this.#pace.took(this.#untaken - left, deadlines.now - this.#lastTakenAt);
		// Its memory is not to be had for as long as somebody likes to hold it.
		if (!inTime) return this.client.reset();
		this.#untaken = left;
		this.#lastTakenAt = deadlines.now;
		deadlines.answer.add(this);
	}
}

const STOPPED_READING = rejection.SLOW_CLIENT.because('client stopped reading');
/** Bytes. */
const SHORT_BODY = 4096;
/** Bytes per second: what the slowest mobile plans are throttled to (32 kbit/s). */
const LEAST_RATE = 4096;

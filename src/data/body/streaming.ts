import { AnswerPace } from '../../gates/answer-pace.ts';
import { admitLength, UNDECLARED } from '../../gates/body-limit.ts';
import type { RequestHead } from '../../gates/headers.ts';
import type { Rejection } from '../../gates/rejection.ts';
import * as rejection from '../../gates/rejection.ts';
import { silenceCause } from '../../shared/causes.ts';
import type { Limits } from '../../shared/limits.ts';
import type { AnswerFields } from '../answer-fields.ts';
import { Exchange } from '../exchange.ts';
import type { OutgoingBody } from '../upstream/connection.ts';
import { Reservation } from './buffered-bytes.ts';
import { lengthLine, NO_PIECES, noBody } from './outgoing-body.ts';

/** Which of the two body modes this build has. */
export const bodyMode = 'streaming';
/** Whether all that comes of a request's body is taken as it comes: here the upstream says how much. */
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
export class BodyExchange extends Exchange {
	#uploadLength = 0;
	#uploaded = 0;
	#uploadComplete = true;
	#uploadPaused = false;
	/** The client was told that its body may come. */
	#asked = false;
	/** The bytes that complete a body of declared length, until the client has said that it ends there. */
	#lastChunk: Buffer | undefined;
	/** Of the body, what the client's connection holds while it is not wanted. */
	#held: Reservation | undefined;
	/** The client does not take its answer at the moment. */
	#clientBlocked = false;
	/** Monotonic milliseconds. */
	#blockedAt = 0;
	/** Bytes of the answer that have been given since the client was last known to have taken all. */
	#given = 0;
	/** `undefined` unless a least rate is configured. */
	readonly #pace = paceOf(this.plane.limits);

	/** The body is not waited for: it follows the head, on the upstream's time. */
	protected override receive(_head: RequestHead): void {
		this.forward();
	}

	protected override admitBody(head: RequestHead): Rejection | undefined {
		this.#uploadLength = head.bodyLength;
		this.#uploadComplete = head.bodyLength === 0;
		if (this.#uploadComplete) return undefined;
		this.span?.enters('body length');
		return admitLength(head.bodyLength, this.limits.maxBodyBytes);
	}

	protected override outgoingBody(): OutgoingBody {
		return outgoingBodyOf(this.client.method, this.#uploadComplete ? 0 : this.#uploadLength);
	}

	/** A body that has gone through our hands cannot be sent again. */
	protected override get canRepeat(): boolean {
		return this.#uploaded === 0 && (this.#uploadComplete || !this.#asked);
	}

	protected override readBody(): void {
		this.#asked = true;
		super.readBody();
	}

	override onRequestBody(chunk: Buffer): void {
		const { connection } = this;
		// The upstream has answered without waiting for the body: the rest of it has nowhere to go.
		if (connection === undefined) return;
		this.#uploaded += chunk.length;
		this.received(chunk.length);
		if (this.#uploaded > this.limits.maxBodyBytes) {
			return this.fail(rejection.PAYLOAD_TOO_LARGE, 'abandoned');
		}
		if (this.answered) this.#expectProgress();
		// With these the request would be whole for the upstream, while an HTTP/2 client can still break it off.
		if (this.#uploaded === this.#uploadLength) {
			this.#lastChunk = chunk;
			return;
		}
		const more = connection.write(chunk, this.#uploadLength === UNDECLARED);
		if (!more && !this.#uploadPaused) {
			this.#uploadPaused = true;
			this.client.pauseBody();
		}
	}

	/** Memory of the connection's, but the tenant's doing: it pays for it as for a body that is collected. */
	override onBodyHeld(bytes: number): void {
		if (bytes === 0) return this.#held?.release();
		this.#held ??= new Reservation(this.plane.bufferedBytes, this.tenantKey);
		const noRoom = this.#held.resize(bytes);
		if (noRoom === undefined) return;
		this.leaveQueue('gone');
		this.fail(noRoom, 'abandoned');
	}

	override onRequestEnd(): void {
		this.#uploadComplete = true;
		this.record?.bodyEnds();
		if (this.#lastChunk !== undefined) this.connection?.write(this.#lastChunk, false);
		this.connection?.finish(this.#uploadLength === UNDECLARED);
	}

	override onWritable(): void {
		if (!this.#uploadPaused) return;
		this.#uploadPaused = false;
		this.client.resumeBody();
	}

	override onHead(status: number, fields: AnswerFields, _length: number, hasBody: boolean): void {
		this.settleByStatus(status, false);
		this.count(status);
		this.#expectProgress();
		this.client.begin(status, this.answerFields(fields), hasBody);
	}

	override onBody(chunk: Buffer): void {
		this.#expectProgress();
		this.#given += chunk.length;
		this.gave(chunk.length);
		if (this.client.write(chunk)) return;
		this.#clientBlocked = true;
		this.#blockedAt = this.plane.deadlines.now;
		if (this.connection === undefined) return;
		this.#expectProgress();
		this.connection.pause();
	}

	override onClientDrained(_left: number): void {
		if (this.#isTooSlow()) return this.fail(rejection.UPSTREAM_TIMEOUT, 'abandoned');
		this.#clientBlocked = false;
		this.#expectProgress();
		this.connection?.resume();
	}

	/** A client that takes less than it has to, while the upstream waits for it. */
	#isTooSlow(): boolean {
		if (this.#pace === undefined || !this.#clientBlocked || this.connection === undefined) return false;
		const given = this.#given;
		this.#given = 0;
		return !this.#pace.took(given, this.plane.deadlines.now - this.#blockedAt);
	}

	/** What is passed on at once is kept nowhere. */
	override room(): undefined {
		return undefined;
	}

	override onBodyInRoom(): void {}

	override onEnd(): void {
		this.upstreamEnded();
		this.settle('success');
		// From here on only the client is waited for.
		this.plane.deadlines.answer.add(this);
		// An upload that the upstream did not wait for is held up no longer; what comes of it is dropped.
		this.onWritable();
		this.client.end();
	}

	/**
	 * Once the answer has begun each side must move within its limit; a body as a whole may take longer. A client that takes nothing has the
	 * time of `[limits]`, whatever its route gives the upstream.
	 */
	#expectProgress(): void {
		if (this.#clientBlocked) this.plane.deadlines.answer.add(this);
		else this.limits.roundTrip.add(this);
	}

	override onDeadline(): void {
		if (!this.answered) return this.upstreamTimedOut(this.#uploadComplete ? 'timeout' : 'abandoned');
		// Whoever did not move is at fault: the upstream, unless it waits for a client that takes nothing or owes it a body.
		if (this.connection !== undefined && !this.#clientBlocked && this.#uploadComplete) {
			const cause = silenceCause('more of the answer', this.limits.upstreamTimeoutMs);
			this.fail(rejection.BAD_GATEWAY.because(cause), 'timeout');
		} else {
			const refusal = this.connection === undefined || this.#clientBlocked ? STOPPED_READING : STOPPED_SENDING;
			this.fail(refusal, 'abandoned');
		}
	}

	override onFailure(...[failure]: Parameters<Exchange['onFailure']>): void {
		if (!this.answered) return super.onFailure(failure);
		this.upstreamEnded();
		// Whatever its status was, that it breaks off is a failure.
		this.fail(rejection.BAD_GATEWAY.because(failure.cause), 'broken');
	}

	/** The client has left an answer that was a good one as far as it went. */
	override onClientGone(why?: Rejection): void {
		if (this.answered) this.settle('success');
		super.onClientGone(why);
	}

	protected override releaseBodies(): void {
		this.#held?.release();
	}
}

const STOPPED_READING = rejection.SLOW_CLIENT.because('client stopped reading');
const STOPPED_SENDING = rejection.SLOW_CLIENT.because('client stopped sending');
const CHUNKED_BODY: OutgoingBody = { framing: 'transfer-encoding: chunked\r\n', pieces: NO_PIECES, complete: false };

/** @param length bytes, or `UNDECLARED`. */
function outgoingBodyOf(method: string, length: number): OutgoingBody {
	if (length === 0) return noBody(method);
	return length === UNDECLARED ? CHUNKED_BODY : fixedBody(length);
}

function fixedBody(length: number): OutgoingBody {
	return { framing: lengthLine(length), pieces: NO_PIECES, complete: false };
}

/** Nothing is held for a client beyond what the sockets buffer, so there is no least rate unless somebody wants one. */
function paceOf({ minAnswerBytesPerSec = 0, upstreamTimeoutMs }: Limits): AnswerPace | undefined {
	return minAnswerBytesPerSec === 0 ? undefined : new AnswerPace(minAnswerBytesPerSec, upstreamTimeoutMs);
}

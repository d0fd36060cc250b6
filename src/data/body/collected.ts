import { admitLength, UNDECLARED } from '../../gates/body-limit.ts';
import type { RequestHead } from '../../gates/headers.ts';
import type { Rejection } from '../../gates/rejection.ts';
import * as rejection from '../../gates/rejection.ts';
import { Exchange, noBody, type OutgoingBody } from '../exchange.ts';
import { ByteCollector } from './byte-collector.ts';

/** Which of the two body modes this build has. */
export const bodyMode = 'collected';

/**
 * Collected mode (specification 4.1): the request's body is read whole before the route is looked up, the response's
 * body before the client sees its head. An answer is whole or an error, never something in between.
 */
export class BodyExchange extends Exchange {
	#request: ByteCollector | undefined;
	#requestLength = 0;
	#response: ByteCollector | undefined;
	#short: string | undefined;
	#status = 0;
	#fields: string[] = [];
	#responseLength = UNDECLARED;
	#responseHasBody = false;
	#reading = false;

	protected override receive(head: RequestHead, now: number): void {
		const { plane } = this;
		const tooLarge = admitLength(head.bodyLength, plane.limits.maxRequestBodyBytes);
		if (tooLarge) return this.refuse(tooLarge);
		if (head.bodyLength === 0) return this.forward(now);
		this.#request = new ByteCollector(plane.bufferedBytes);
		this.#requestLength = head.bodyLength;
		this.#reading = true;
		plane.deadlines.requestBody.add(this);
		this.readBody();
	}

	override onRequestBody(chunk: Buffer): void {
		if (!this.#reading) return;
		this.record?.received(chunk.length);
		const { maxRequestBodyBytes } = this.plane.limits;
		const collector = this.#request!;
		if (collector.length + chunk.length > maxRequestBodyBytes) return this.refuse(rejection.PAYLOAD_TOO_LARGE);
		if (!collector.append(chunk, this.#requestLength)) this.refuse(rejection.OVERLOADED);
	}

	override onRequestEnd(): void {
		if (!this.#reading) return;
		this.#reading = false;
		this.record?.bodyEnds();
		this.cancelDeadline();
		this.forward(this.plane.clock.now());
	}

	/** The declared length has been judged before the body was read. */
	protected override admitBody(): undefined {
		return undefined;
	}

	protected override outgoingBody(): OutgoingBody {
		if (this.#request === undefined) return noBody(this.client.method);
		const bytes = this.#request.bytes;
		return { framing: `content-length: ${bytes.length}\r\n`, bytes, complete: true };
	}

	protected override get canRepeat(): boolean {
		return true;
	}

	override onHead(status: number, fields: string[], length: number, hasBody: boolean): void {
		this.#status = status;
		this.#fields = fields;
		this.#responseLength = length;
		this.#responseHasBody = hasBody;
	}

	override onBody(chunk: Buffer): void {
		// A short body that is here all at once is answered in this very turn: it is passed on, not held.
		if (chunk.length === this.#responseLength && chunk.length <= SHORT_BODY) {
			this.#short = chunk.toString('latin1');
			return;
		}
		this.#response ??= new ByteCollector(this.plane.bufferedBytes);
		// The memory is ours, and so is the lack of it: no failure of the upstream.
		if (!this.#response.append(chunk, this.#responseLength)) this.fail(rejection.OVERLOADED, 'abandoned');
	}

	override onEnd(): void {
		this.upstreamEnded();
		this.settleByStatus(this.#status);
		this.#request?.release();
		const body = this.#short ?? this.#response?.bytes;
		const length = this.#responseHasBody ? (body?.length ?? 0) : this.#responseLength;
		if (length !== UNDECLARED) this.#fields.push('content-length', String(length));
		this.count(this.#status);
		if (body !== undefined) this.record?.gave(body.length);
		// The client gets as long to take its answer as the upstream had to give it.
		this.plane.deadlines.upstream.add(this);
		this.client.answer(this.#status, this.#fields, this.#responseHasBody ? (body ?? EMPTY) : undefined);
	}

	protected override timedOut(): void {
		if (this.#reading) this.refuse(rejection.SLOW_CLIENT);
		else if (this.answered) this.breakOff(STOPPED_READING);
		else this.fail(rejection.UPSTREAM_TIMEOUT, 'failure');
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

	/** Part of a long answer has gone out: the client is taking it, and gets time for the rest. */
	override onClientDrained(): void {
		if (this.answered) this.plane.deadlines.upstream.add(this);
	}
}

const EMPTY = Buffer.alloc(0);
const STOPPED_READING = rejection.SLOW_CLIENT.because('client stopped reading');
/** Bytes. */
const SHORT_BODY = 4096;

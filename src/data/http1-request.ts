import { BodyExchange } from '#body';
import { type RequestHead, readHttp1Head } from '../gates/headers.ts';
import { refuseMethod } from '../gates/method.ts';
import { BAD_REQUEST, Rejection } from '../gates/rejection.ts';
import { originForm } from '../gates/target.ts';
import { refusalFields } from './answers.ts';
import type { ClientRequest } from './client.ts';
import type { ClientConnection } from './client-connection.ts';
import { Http1Answer } from './http1-answer.ts';
import type { Http1Connection } from './http1-connection.ts';
import type { Http1Incoming } from './http1-incoming.ts';

/** One request and its answer. */
export class Http1Request implements ClientRequest {
	readonly method: string;
	readonly target: string;
	readonly head: RequestHead | Rejection;
	readonly forwardedLines: string;
	readonly connection: ClientConnection;
	readonly exchange: BodyExchange;
	readonly #connection: Http1Connection;
	readonly #req: Http1Incoming;
	readonly #res: Http1Answer;
	#readingBody = false;
	#bodyBroken: Rejection | undefined;
	#answering = false;
	#done = false;
	/** What is left of a long answer. */
	#rest: Buffer | undefined;

	constructor(connection: Http1Connection, req: Http1Incoming, mayStay: boolean) {
		this.#connection = connection;
		this.#req = req;
		this.#res = new Http1Answer(connection.socket, req.httpVersionMinor !== 0, mayStay, () => this.#onOut());
		this.method = req.method;
		this.target = originForm(req.url);
		this.forwardedLines = connection.forwardedLines;
		this.connection = connection.client;
		// llhttp lets other versions pass; what they would mean is nobody's guess (RFC 9112 section 2.3).
		const known = req.httpVersionMajor === 1 && req.httpVersionMinor <= 1;
		const traced = connection.plane.correlate !== undefined;
		this.head = known
			? (refuseMethod(req.method) ?? readHttp1Head(req.rawHeaders, req.httpVersionMinor, traced))
			: UNKNOWN_VERSION;
		this.exchange = new BodyExchange(this, connection.plane);
		if (this.head instanceof Rejection || this.head.bodyLength !== 0) {
			req.onComplete = () => connection.onBodyEnd();
		}
	}

	/** The client owes no more bytes of this request. */
	get isComplete(): boolean {
		return this.#req.complete;
	}

	/** What comes of the body is no HTTP. */
	onBodyBroken(refusal: Rejection): void {
		this.#bodyBroken = refusal;
		if (this.#readingBody && !this.#answering) this.exchange.onBodyError(refusal);
	}

	answer(status: number, fields: string[], body: Buffer | string | undefined): void {
		const hasBody = body !== undefined;
		this.#begin(status, fields, hasBody, false);
		if (body === undefined || typeof body === 'string' || body.length <= PIECE) return this.#res.end(body);
		this.#rest = body;
		this.#pump();
	}

	/** In pieces, so that a client that takes its time can be told from one that takes nothing. */
	#pump(): void {
		const res = this.#res;
		while (this.#rest !== undefined) {
			const piece = this.#rest.subarray(0, PIECE);
			this.#rest = piece.length === this.#rest.length ? undefined : this.#rest.subarray(PIECE);
			if (this.#rest === undefined) res.end(piece);
			else if (!res.writeKept(piece)) return;
		}
	}

	/** The client takes more of its answer. */
	onDrain(): void {
		if (!this.#answering) return;
		this.exchange.onClientDrained(this.#rest?.length ?? 0);
		this.#pump();
	}

	refuse(rejected: Rejection): void {
		const hasBody = this.method !== 'HEAD';
		this.#begin(rejected.status, refusalFields(rejected), hasBody, rejected.closes);
		this.#res.end(hasBody ? rejected.body : '');
	}

	begin(status: number, fields: string[], hasBody: boolean): void {
		this.#begin(status, fields, hasBody, false);
		this.#res.flushSoon();
	}

	write(chunk: Buffer): boolean {
		return this.#res.write(chunk);
	}

	end(): void {
		this.#res.end();
	}

	reset(): void {
		this.#rest = undefined;
		this.#connection.socket.destroy();
	}

	readBody(): void {
		this.#readingBody = true;
		const req = this.#req;
		const { head, exchange } = this;
		// Only now have the gates before the body passed (RFC 9110 section 10.1.1).
		if (!(head instanceof Rejection) && head.expectsContinue && req.httpVersionMinor === 1) this.#res.writeContinue();
		req.take(exchange);
		const broken = this.#bodyBroken;
		if (broken !== undefined) process.nextTick(() => this.onBodyBroken(broken));
	}

	pauseBody(): void {
		this.#req.pause();
	}

	resumeBody(): void {
		this.#req.resume();
	}

	#begin(status: number, fields: readonly string[], hasBody: boolean, closes: boolean): void {
		this.#answering = true;
		const isLast = closes || this.#connection.isLast || this.#leavesTooMuchUnread();
		this.#res.begin(status, fields, hasBody, isLast, this.#connection.plane.clock.wallSeconds());
	}

	/**
	 * An answer before the request's end leaves its rest on the connection. A little is read and dropped; for more, or
	 * if the client was told to wait for a 100 that will not come, the connection is not worth keeping.
	 */
	#leavesTooMuchUnread(): boolean {
		const { head } = this;
		if (this.#req.complete || head instanceof Rejection) return false;
		if (head.expectsContinue && !this.#readingBody) return true;
		return head.bodyLength < 0 || head.bodyLength > DROPPED_BODY;
	}

	/** The answer is out. */
	#onOut(): void {
		if (this.#done) return;
		this.#done = true;
		this.#req.drop();
		if (this.#res.isLast) this.#connection.close();
		this.exchange.onAnswered();
		this.#connection.onServed();
	}

	onConnectionClosed(): void {
		if (this.#done) return;
		this.#done = true;
		this.exchange.onClientGone();
	}
}

const UNKNOWN_VERSION = BAD_REQUEST.because('HTTP version');
/** Bytes. */
const PIECE = 65_536;
/** Unread rest of a request that is not worth closing for, bytes. */
const DROPPED_BODY = 65_536;

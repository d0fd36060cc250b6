import { Bodies } from '#body';
import type { RequestHead } from '../../gates/headers.ts';
import { refuseMethod } from '../../gates/method.ts';
import { BODY_ERROR, INTERNAL_ERROR, Rejection } from '../../gates/rejection.ts';
import { authorityOf, originForm } from '../../gates/target.ts';
import type { AnswerFields } from '../answer-fields.ts';
import { refusalFields } from '../answers.ts';
import type { ClientRequest, WholeBody } from '../client.ts';
import type { ClientConnection } from '../client-connection.ts';
import type { DataPlane } from '../plane.ts';
import { Exchange } from '../request/exchange.ts';
import type { Http1Answer } from './answer.ts';
import type { RequestHeadReader } from './head-reader.ts';
import { RequestBody } from './request-body.ts';

/** What a request needs of the connection that it came on. */
export interface RequestConnection {
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	/** Of this request now. */
	readonly answer: Http1Answer;
	/** Whether the answer being given is the last one. */
	readonly isLast: boolean;
	/** The request is paid for: the price of its head comes back. */
	giveBack(price: number): void;
	/** Offers the request, by `take`, what has come of its body. */
	readOn(): void;
	/** The answer is out. */
	onAnswered(): void;
	/** The answer, of which a part may be out, must not be taken for a whole one. */
	breakOff(): void;
	/** No request is taken any more; what comes is read for a while and dropped. */
	close(): void;
}

/** One request and its answer. */
export class Http1Request implements ClientRequest {
	readonly method: string;
	readonly target: string;
	readonly targetAuthority: string | null | undefined;
	readonly head: RequestHead | Rejection;
	readonly connection: ClientConnection;
	readonly exchange: Exchange;
	readonly #connection: RequestConnection;
	readonly #answer: Http1Answer;
	readonly #price: number;
	readonly #isHttp11: boolean;
	/** What follows the request may not be HTTP: it is the connection's last. */
	readonly #seals: boolean;
	/** `undefined`: it has none. */
	readonly #body: RequestBody | undefined;
	/** The exchange has asked for the body, and takes it at the moment. */
	#asked = false;
	#taking = false;
	/** Nobody wants the body any more. */
	#dropping = false;
	/** In the middle of `take`. */
	#inTake = false;
	/** The body is no HTTP, or has ended too early. */
	#broken: Rejection | undefined = undefined;
	#answering = false;
	/** All of the answer has been given, though it need not be out. */
	#answered = false;
	#done = false;
	/** Of a long answer. */
	#whole: WholeBody | undefined;

	/**
	 * @param read has just read the request's head.
	 * @param price tokens that the head has cost its connection.
	 */
	constructor(connection: RequestConnection, { method, target, minor, block }: RequestHeadReader, price: number) {
		this.#connection = connection;
		this.#price = price;
		const { head, close, keepAlive, upgrade } = block;
		this.#isHttp11 = minor === 1;
		// RFC 9112 section 9.3.
		const mayStay = !close && (minor === 1 || keepAlive);
		this.#answer = connection.answer;
		this.#answer.expect(minor === 1, mayStay);
		this.method = method;
		this.target = originForm(target);
		this.targetAuthority = this.target === target ? undefined : authorityOf(target);
		this.connection = connection.client;
		this.head = refuseMethod(method) ?? head;
		this.#seals = upgrade || method === 'CONNECT';
		// A head that was refused does not tell where the request ends; its answer is the last one.
		const length = this.head instanceof Rejection ? 0 : this.head.bodyLength;
		this.#body = length === 0 ? undefined : new RequestBody(length, connection.plane.limits.maxHeaderBytes);
		this.exchange = new Exchange(this, connection.plane, Bodies);
	}

	/** The answer is out, and the client owes no more bytes of this request. */
	get isOver(): boolean {
		return this.#done && this.#isComplete;
	}

	/** Takes what comes of its body, as soon as there is enough to make sense of. */
	get takesBody(): boolean {
		return !this.#isComplete && this.#broken === undefined && (this.#taking || this.#dropping);
	}

	get #isComplete(): boolean {
		return this.#body === undefined || this.#body.isComplete;
	}

	/**
	 * What has come of the body.
	 *
	 * @returns how many of the bytes were taken; those behind the body and those that nobody wants yet are not.
	 */
	take(bytes: Buffer): number {
		if (!this.takesBody) return 0;
		const body = this.#body!;
		this.#inTake = true;
		const taken = body.read(bytes, 0);
		if (!this.#dropping && body.piece.length > 0) this.exchange.onRequestBody(body.piece);
		this.#inTake = false;
		if (body.problem !== undefined) this.#onBroken(BODY_ERROR.because(body.problem));
		else if (body.isComplete && !this.#dropping) this.exchange.onRequestEnd();
		return taken;
	}

	/** The client has ended its side, and all that it has sent has been offered. */
	onClientEnd(): void {
		if (!this.#isComplete) this.#onBroken(CUT_SHORT);
	}

	/** Something of ours has thrown. @returns whether it has been told: not where it is over. */
	onFault(error: unknown): boolean {
		if (this.#done) return false;
		// Bytes of the body are lost, and with them the place where the next request begins.
		if (this.#inTake) this.#broken = INTERNAL_ERROR;
		this.#inTake = false;
		this.exchange.onFault(error);
		return true;
	}

	/** Where the request ends cannot be known any more. */
	#onBroken(why: Rejection): void {
		this.#broken = why;
		if (this.#done) this.#connection.close();
		else if (this.#asked && !this.#answered) this.exchange.onBodyError(why);
	}

	onPaid(): void {
		this.#connection.giveBack(this.#price);
	}

	answer(status: number, fields: AnswerFields, body: WholeBody | string | undefined): void {
		this.#answered = true;
		const hasBody = body !== undefined;
		this.#begin(status, fields, hasBody, false);
		if (body === undefined || typeof body === 'string') return this.#answer.end(body);
		this.#whole = body;
		this.#pump();
	}

	/** In pieces, so that a client that takes its time can be told from one that takes nothing. */
	#pump(): void {
		const answer = this.#answer;
		for (let piece = this.#whole?.shift(); piece !== undefined; piece = this.#whole?.shift()) {
			if (this.#whole!.left === 0) answer.end(piece);
			else if (!answer.writeKept(piece, this.#onPieceOut)) return;
		}
	}

	readonly #onPieceOut = (error?: Error | null): void => {
		if (!error) this.#whole?.free();
	};

	/** The client takes more of its answer. */
	onDrain(): void {
		if (!this.#answering || this.#done) return;
		this.exchange.onClientDrained(this.#whole?.left ?? 0);
		this.#pump();
	}

	refuse(rejected: Rejection): void {
		this.#dropping = true;
		this.#answering = true;
		this.#answered = true;
		// As much of the body as is here may be all of it.
		if (!this.#inTake) this.#connection.readOn();
		const hasBody = this.method !== 'HEAD';
		this.#begin(rejected.status, refusalFields(rejected), hasBody, rejected.closes);
		this.#answer.end(hasBody ? rejected.body : '');
	}

	begin(status: number, fields: AnswerFields, hasBody: boolean): void {
		this.#begin(status, fields, hasBody, false);
	}

	write(chunk: Buffer): boolean {
		return this.#answer.write(chunk);
	}

	end(): void {
		this.#answered = true;
		this.#answer.end();
	}

	reset(): void {
		this.#whole = undefined;
		this.#connection.breakOff();
	}

	readBody(): void {
		this.#asked = true;
		const { head, exchange } = this;
		// Only now have the gates before the body passed (RFC 9110 section 10.1.1).
		if (!(head instanceof Rejection) && head.expectsContinue && this.#isHttp11) this.#answer.writeContinue();
		if (this.#broken !== undefined) return exchange.onBodyError(this.#broken);
		this.resumeBody();
	}

	/** The connection holds `MAX_UNREAD` bytes at most, whatever is in them. */
	holdBody(): void {}

	pauseBody(): void {
		this.#taking = false;
	}

	resumeBody(): void {
		this.#taking = true;
		this.#connection.readOn();
	}

	#begin(status: number, fields: AnswerFields, hasBody: boolean, closes: boolean): void {
		this.#answering = true;
		const isLast =
			closes || this.#seals || this.#broken !== undefined || this.#connection.isLast || this.#leavesTooMuchUnread();
		const wallSeconds = fields.hasDate ? 0 : this.#connection.plane.clock.wallSeconds();
		this.#answer.begin(status, fields, hasBody, isLast, wallSeconds);
	}

	/**
	 * An answer before the request's end leaves its rest on the connection. A little is read and dropped; for more, or
	 * if the client was told to wait for a 100 that will not come, the connection is not worth keeping.
	 */
	#leavesTooMuchUnread(): boolean {
		const { head } = this;
		if (this.#isComplete || head instanceof Rejection) return false;
		if (head.expectsContinue && !this.#asked) return true;
		return head.bodyLength < 0 || head.bodyLength > DROPPED_BODY;
	}

	/** The answer is out. */
	onOut(): void {
		if (this.#done) return;
		this.#done = true;
		this.#dropping = true;
		this.#whole?.free();
		// Behind a body without an end there is no next request, whatever the answer's head has said before that was known.
		if (this.#answer.isLast || this.#broken !== undefined) this.#connection.close();
		this.exchange.onAnswered();
		this.#connection.onAnswered();
	}

	onConnectionClosed(): void {
		if (this.#done) return;
		this.#done = true;
		this.exchange.onClientGone();
	}
}

const CUT_SHORT = BODY_ERROR.because('the connection ended within the body');
/** Unread rest of a request that is not worth closing for, bytes. */
const DROPPED_BODY = 65_536;

import { BODY_ERROR, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Bodies } from '#body';
import type { RequestHead } from '../../gates/headers.ts';
import { refuseMethod } from '../../gates/method.ts';
import { authorityOf, originForm } from '../../gates/target.ts';
import { namesOf, type Trailers, withoutNamed } from '../../gates/trailers.ts';
import { acceptOf, type WebSocketHandshake } from '../../gates/web-socket.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import type { ClientRequest, WholeBody } from '../client/client-request.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import type { RefusalResponse } from '../client/responses.ts';
import type { DataPlane } from '../plane/plane.ts';
import { Exchange } from '../request/exchange.ts';
import type { RequestHeadReader } from './head-reader.ts';
import { fieldLines } from './last-chunk.ts';
import { RequestBody } from './request-body.ts';
import type { Http1Response } from './response.ts';

/** What a request needs of the connection that it came on. */
export interface RequestConnection {
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	/** Of this request now. */
	readonly answer: Http1Response;
	/** Whether the answer being given is the last one. */
	readonly isLast: boolean;
	/** Bytes have come that nobody has taken, or their end. */
	readonly isAhead: boolean;
	/** The request is paid for: the price of its head comes back. */
	release(price: number): void;
	/** Offers the request, by `take`, what has come of its body. */
	readOn(): void;
	/** The answer is out. */
	onAnswered(): void;
	/** Bytes have come that have not been taken. */
	readonly hasUnread: boolean;
	/** The client's end does not end our side. */
	allowHalfOpen(): void;
	/** The tunnel is over; what the client may still send is dropped. */
	closeTunnel(): void;
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
	readonly #answer: Http1Response;
	readonly #price: number;
	/** What follows the request may not be HTTP: it is the connection's last. */
	readonly #seals: boolean;
	/** `undefined`: it has none. */
	readonly #body: RequestBody | undefined;
	#reading: Reading = 'unasked';
	#writing: Writing = 'none';
	/** The connection carries a tunnel. */
	#isTunnel = false;
	/** Of a tunnel: the client has ended, and that has not been told. */
	hasEnded = false;
	/** Why the state of reading is `broken`. */
	#problem: Rejection | undefined = undefined;
	/** Of a long answer. */
	#whole: WholeBody | undefined;
	/** Of a whole answer. */
	#trailers: Trailers | undefined = undefined;

	/**
	 * @param read has just read the request's head.
	 * @param price tokens that the head has cost its connection.
	 */
	constructor(connection: RequestConnection, { method, target, minor, block }: RequestHeadReader, price: number) {
		this.#connection = connection;
		this.#price = price;
		const { head, close, keepAlive, upgrade } = block;
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

	/** Of a refused head nothing is known: calls come over HTTP/2. */
	get isGrpc(): boolean {
		return !(this.head instanceof Rejection) && this.head.isGrpc;
	}

	/** The answer is out, and the client owes no more bytes of this request. */
	get isOver(): boolean {
		return this.#writing === 'out' && this.#isComplete;
	}

	/** Takes what comes of its body, as soon as there is enough to make sense of. */
	get takesBody(): boolean {
		return (!this.#isComplete || this.#isTunnel) && (this.#reading === 'taken' || this.#reading === 'dropped');
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
		if (this.#isTunnel) {
			this.exchange.onRequestBody(bytes);
			this.#tellEnd();
			return bytes.length;
		}
		const body = this.#body!;
		const taken = body.read(bytes, 0);
		// While the exchange takes a piece, it may drop the rest.
		if (this.#reading === 'taken' && body.piece.length > 0) this.exchange.onRequestBody(body.piece);
		if (body.problem !== undefined) this.#onBroken(BODY_ERROR.because(body.problem));
		else if (body.isComplete && this.#reading !== 'dropped') this.exchange.onRequestEnd(this.#requestTrailers(body));
		return taken;
	}

	#requestTrailers({ trailers }: RequestBody): Trailers | undefined {
		// A head that was refused has no body.
		return withoutNamed(trailers, (this.head as RequestHead).named);
	}

	/** The client has ended its side, and all that it has sent has been offered. */
	onClientEnd(): void {
		if (this.#isTunnel) {
			this.hasEnded = true;
			return this.#tellEnd();
		}
		if (!this.#isComplete) this.#onBroken(CUT_SHORT);
	}

	/** Behind what the tunnel has not taken yet. */
	#tellEnd(): void {
		if (!this.hasEnded || this.#connection.hasUnread) return;
		this.hasEnded = false;
		this.exchange.onRequestEnd();
	}

	/** Where the request ends cannot be known any more. */
	#onBroken(why: Rejection): void {
		const wasAsked = this.#reading === 'taken' || this.#reading === 'paused';
		this.#reading = 'broken';
		this.#problem = why;
		if (this.#writing === 'out') this.#connection.close();
		else if (wasAsked && this.#writing !== 'given') this.exchange.onBodyError(why);
	}

	onPaid(): void {
		this.#connection.release(this.#price);
	}

	takesTrailers({ hasLength }: ResponseFields): boolean {
		const { head } = this;
		return !hasLength && this.#answer.isHttp11 && !(head instanceof Rejection) && head.acceptsTrailers;
	}

	answer(status: number, fields: ResponseFields, body: WholeBody | string | undefined, trailers?: Trailers): void {
		this.#begin(status, fields, body !== undefined, false, trailers && namesOf(trailers));
		this.#writing = 'given';
		this.#trailers = trailers;
		if (body === undefined || typeof body === 'string') return this.#endWith(body);
		this.#whole = body;
		this.#pump();
	}

	#endWith(rest: Buffer | string | undefined): void {
		const answer = this.#answer;
		if (!answer.isChunked) return answer.end(rest);
		answer.write(typeof rest === 'string' ? Buffer.from(rest, 'latin1') : rest!);
		answer.end('', this.#trailers);
	}

	/** In pieces, so that a client that takes its time can be told from one that takes nothing. */
	#pump(): void {
		for (let piece = this.#whole?.shift(); piece !== undefined; piece = this.#whole?.shift()) {
			if (this.#whole!.left === 0) this.#endWith(piece);
			else if (!this.#writePiece(piece)) return;
		}
	}

	#writePiece(piece: Buffer): boolean {
		if (!this.#answer.isChunked) return this.#answer.writeKept(piece, (error) => this.#onPieceOut(error));
		const more = this.#answer.write(piece);
		// What goes out has been copied.
		this.#whole?.free();
		return more;
	}

	#onPieceOut(error?: Error | null): void {
		if (!error) this.#whole?.free();
	}

	/** The client takes more of its answer. */
	onDrain(): void {
		if (this.#writing === 'none' || this.#writing === 'out') return;
		this.exchange.onClientDrained(this.#whole?.left ?? 0);
		this.#pump();
	}

	refuse({ closes }: Rejection, { status, fields, body }: RefusalResponse): void {
		const leaves = this.#awaits100;
		if (this.#reading !== 'broken') this.#reading = 'dropped';
		// As much of the body as is here may be all of it.
		this.#connection.readOn();
		const hasBody = this.method !== 'HEAD';
		this.#begin(status, fields, hasBody, closes || (leaves && !this.#isComplete));
		this.#writing = 'given';
		this.#answer.end(hasBody ? body : '');
	}

	begin(status: number, fields: ResponseFields, hasBody: boolean, announced = ''): void {
		this.#begin(status, fields, hasBody, false, announced);
	}

	write(chunk: Buffer): boolean {
		return this.#answer.write(chunk);
	}

	// --- A tunnel. ---

	get tunnelStatus(): number {
		return 101;
	}

	get isAhead(): boolean {
		return this.#connection.isAhead;
	}

	openTunnel(fields: ResponseFields): void {
		this.#writing = 'begun';
		this.#reading = 'taken';
		this.#isTunnel = true;
		const { webSocket } = this.head as RequestHead;
		const { key } = webSocket as WebSocketHandshake;
		const lines = fieldLines(fields.list);
		this.#connection.allowHalfOpen();
		this.#answer.switchProtocols(
			`${lines}connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${acceptOf(key!)}\r\n`,
		);
	}

	closeTunnel(): void {
		this.#writing = 'out';
		this.#connection.closeTunnel();
	}

	end(trailers?: Trailers): void {
		if (this.#isTunnel) return this.#answer.endTunnel();
		this.#writing = 'given';
		this.#answer.end('', trailers);
	}

	reset(): void {
		this.#whole = undefined;
		this.#connection.breakOff();
	}

	readBody(): void {
		if (this.#problem !== undefined) return this.exchange.onBodyError(this.#problem);
		// Only now have the gates before the body passed (RFC 9110 section 10.1.1).
		if (this.#awaits100) this.#answer.writeContinue();
		this.resumeBody();
	}

	/** The connection holds `MAX_UNREAD` bytes at most, whatever is in them. */
	holdBody(): void {}

	pauseBody(): void {
		if (this.#reading === 'taken') this.#reading = 'paused';
	}

	resumeBody(): void {
		if (this.#reading === 'unasked' || this.#reading === 'paused') this.#reading = 'taken';
		this.#connection.readOn();
	}

	#begin(status: number, fields: ResponseFields, hasBody: boolean, closes: boolean, announced = ''): void {
		this.#writing = 'begun';
		const isLast =
			closes ||
			this.#seals ||
			this.#reading === 'broken' ||
			this.#connection.isLast ||
			this.#awaits100 ||
			this.#leavesTooMuchUnread();
		const wallSeconds = fields.hasDate ? 0 : this.#connection.plane.clock.wallSeconds();
		this.#answer.begin(status, fields, hasBody, isLast, wallSeconds, announced);
	}

	/** The client was told to wait for a 100, or to give up after a while: its body may come or not. */
	get #awaits100(): boolean {
		const { head } = this;
		return this.#reading === 'unasked' && !this.#isComplete && !(head instanceof Rejection) && head.expectsContinue;
	}

	/** An answer before the request's end leaves its rest on the connection. A little is read and dropped; for more it is not worth keeping. */
	#leavesTooMuchUnread(): boolean {
		const { head } = this;
		if (this.#isComplete || head instanceof Rejection) return false;
		return head.bodyLength < 0 || head.bodyLength > DROPPED_BODY;
	}

	/** The answer is out. */
	onOut(): void {
		if (this.#writing === 'out') return;
		if (this.#isTunnel) return this.exchange.onAnswered();
		this.#writing = 'out';
		this.#whole?.free();
		// Behind a body without an end there is no next request, whatever the answer's head has said before that was known.
		if (this.#answer.isLast || this.#reading === 'broken') this.#connection.close();
		else this.#reading = 'dropped';
		this.exchange.onAnswered();
		this.#connection.onAnswered();
	}

	/** @param rest of a tunnel, if the client has all of it: what the upstream has not taken yet. */
	onConnectionClosed(rest?: Buffer): void {
		if (this.#writing === 'out') return;
		this.#writing = 'out';
		if (!this.hasEnded || rest === undefined) return this.exchange.onClientGone();
		this.hasEnded = false;
		this.exchange.onRequestBody(rest);
		this.exchange.onRequestEnd();
	}
}

/** What becomes of the request's body, as far as it is not complete. */
type Reading =
	/** Nobody has asked for it, and its bytes wait. */
	| 'unasked'
	/** The exchange takes it. */
	| 'taken'
	/** The exchange has asked for it, and takes none at the moment. */
	| 'paused'
	/** Nobody wants it any more. */
	| 'dropped'
	/** It is no HTTP, or has ended too early. */
	| 'broken';

/** How far the answer is. */
type Writing =
	| 'none'
	/** Its head was given. */
	| 'begun'
	/** All of it was given. */
	| 'given'
	/** The kernel has it, or the connection is gone. */
	| 'out';

const CUT_SHORT = BODY_ERROR.because('the connection ended within the body');
/** Unread rest of a request that is not worth closing for, bytes. */
const DROPPED_BODY = 65_536;

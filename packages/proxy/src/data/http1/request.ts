import { BODY_ERROR, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Bodies } from '#body';
import type { RequestHead } from '../../gates/headers.ts';
import { refuseMethod } from '../../gates/method.ts';
import { authorityOf, originForm } from '../../gates/target.ts';
import { namesOf, type Trailers, withoutNamed } from '../../gates/trailers.ts';
import { acceptOf, type WebSocketHandshake } from '../../gates/web-socket.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import { type ClientRequest, FORGOTTEN, type WholeBody } from '../client/client-request.ts';
import type { ResponseFields } from '../client/response-fields.ts';
import type { RefusalResponse } from '../client/responses.ts';
import type { DataPlane } from '../plane/plane.ts';
import { Exchange } from '../request/exchange.ts';
import type { RequestHeadReader } from './head-reader.ts';
import { fieldLines } from './last-chunk.ts';
import { type RequestBody, requestBody } from './request-body.ts';
import type { Http1Response } from './response.ts';

/** The part of the connection that a request uses. */
export interface RequestConnection {
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	/** Belongs to this request now. */
	readonly response: Http1Response;
	/** Whether the current response is the last one. */
	readonly isLast: boolean;
	/** Bytes that are not taken yet, or the client's end, have come. */
	readonly isAhead: boolean;
	/** The request is charged to its tenant: gives back the price of its head. */
	release(price: number): void;
	/** Offers the request the received part of its body, by `take`. */
	readOn(): void;
	/** The response is out. */
	onResponseOut(): void;
	readonly hasUnread: boolean;
	/** No request follows, and the client's end does not end our side. */
	openTunnel(): void;
	/** The tunnel is over; further bytes of the client are dropped. */
	closeTunnel(): void;
	/** Breaks off the response, part of which may be out, so that it does not look complete. */
	breakOff(): void;
	/** Takes no more requests; further bytes are read for a while and dropped. */
	close(): void;
}

export class Http1Request implements ClientRequest {
	readonly method: string;
	readonly target: string;
	readonly targetAuthority: string | null | undefined;
	head: RequestHead | Rejection;
	readonly connection: ClientConnection;
	readonly exchange: Exchange;
	readonly #connection: RequestConnection;
	readonly #response: Http1Response;
	readonly #price: number;
	/** The bytes after the request may not be HTTP, so it is the connection's last. */
	readonly #seals: boolean;
	/** `undefined`: no body. */
	readonly #body: RequestBody | undefined;
	#reading: Reading = 'unasked';
	#writing: Writing = 'none';
	#tunnel: Tunnel = 'none';
	/** `holdBody` was called. */
	#waits = false;
	/** Bytes of its body that wait at the connection, as far as the exchange knows. */
	#held = 0;
	/** Why the state of reading is `broken`. */
	#problem: Rejection | undefined = undefined;
	/** A long response's body. */
	#whole: WholeBody | undefined;
	#trailers: Trailers | undefined = undefined;

	/**
	 * @param reader has just read the request's head.
	 * @param price tokens that the head has cost its connection.
	 */
	constructor(connection: RequestConnection, { method, target, minor, block }: RequestHeadReader, price: number) {
		this.#connection = connection;
		this.#price = price;
		const { head, close, keepAlive, upgrade } = block;
		// RFC 9112 section 9.3.
		const mayStay = !close && (minor === 1 || keepAlive);
		this.#response = connection.response;
		this.#response.expect(minor === 1, mayStay);
		this.method = method;
		this.target = originForm(target);
		this.targetAuthority = this.target === target ? undefined : authorityOf(target);
		this.connection = connection.client;
		this.head = refuseMethod(method) ?? head;
		this.#seals = upgrade || method === 'CONNECT';
		// A refused head does not show where the request ends; its response is the last one.
		const length = this.head instanceof Rejection ? 0 : this.head.bodyLength;
		this.#body = length === 0 ? undefined : requestBody(length, connection.plane.limits.maxHeaderBytes);
		this.exchange = new Exchange(this, connection.plane, Bodies);
	}

	/** `false` for a refused head: gRPC calls come over HTTP/2. */
	get isGrpc(): boolean {
		return !(this.head instanceof Rejection) && this.head.isGrpc;
	}

	/** The response is out, and the client owes no more bytes of this request. */
	get isOver(): boolean {
		return this.#writing === 'out' && this.#isComplete();
	}

	get takesBody(): boolean {
		return (
			(!this.#isComplete() || this.#tunnel !== 'none') && (this.#reading === 'taken' || this.#reading === 'dropped')
		);
	}

	#isComplete(): boolean {
		return this.#body === undefined || this.#body.isComplete;
	}

	/**
	 * Offers received bytes of the body.
	 *
	 * @returns how many of the bytes were taken; bytes after the body and those not wanted yet are not.
	 */
	take(bytes: Buffer): number {
		if (!this.takesBody) return 0;
		if (this.#tunnel !== 'none') {
			this.exchange.onRequestBody(bytes);
			this.#tellEnd();
			return bytes.length;
		}
		const body = this.#body!;
		const taken = body.read(bytes, 0);
		this.connection.spend(body.cost);
		// The exchange may drop the rest while it takes a piece.
		if (this.#reading === 'taken' && body.piece.length > 0) this.exchange.onRequestBody(body.piece);
		if (body.problem !== undefined) this.#onBroken(BODY_ERROR.because(body.problem));
		else if (body.isComplete && this.#reading !== 'dropped') this.exchange.onRequestEnd(this.#requestTrailers(body));
		return taken;
	}

	/** Tells the exchange how many bytes wait because it takes none at the moment. @param unread bytes that have not been taken. */
	tellHeld(unread: number): void {
		const held = this.#reading === 'paused' || (this.#reading === 'unasked' && this.#waits) ? unread : 0;
		if (held === this.#held) return;
		this.#held = held;
		this.exchange.onBodyHeld(held);
	}

	#requestTrailers({ trailers }: RequestBody): Trailers | undefined {
		// A request with a refused head has no body.
		return withoutNamed(trailers, (this.head as RequestHead).named);
	}

	/** The client has ended its side, and all that it has sent has been offered. */
	onClientEnd(): void {
		if (this.#tunnel === 'none') {
			if (!this.#isComplete()) this.#onBroken(CUT_SHORT);
			return;
		}
		this.#tunnel = 'ending';
		this.#tellEnd();
	}

	/** Reports the client's end after all bytes that the tunnel has not taken yet. */
	#tellEnd(): void {
		if (this.#tunnel !== 'ending' || this.#connection.hasUnread) return;
		this.#tunnel = 'ended';
		this.exchange.onRequestEnd();
	}

	/** The end of the request can no longer be known. */
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
		return !hasLength && this.#response.isHttp11 && !(head instanceof Rejection) && head.acceptsTrailers;
	}

	respond(status: number, fields: ResponseFields, body: WholeBody | string | undefined, trailers?: Trailers): void {
		this.#begin(status, fields, body !== undefined, false, trailers && namesOf(trailers));
		this.#writing = 'given';
		this.#trailers = trailers;
		if (body === undefined || typeof body === 'string') return this.#endWith(body);
		this.#whole = body;
		this.#pump();
	}

	#endWith(rest: Buffer | string | undefined): void {
		const response = this.#response;
		if (!response.isChunked) return response.end(rest);
		response.write(typeof rest === 'string' ? Buffer.from(rest, 'latin1') : rest!);
		response.end('', this.#trailers);
	}

	/** Sends in pieces, to distinguish a slow client from one that takes nothing. */
	#pump(): void {
		for (let piece = this.#whole?.shift(); piece !== undefined; piece = this.#whole?.shift()) {
			if (this.#whole!.left === 0) this.#endWith(piece);
			else if (!this.#writePiece(piece)) return;
		}
	}

	#writePiece(piece: Buffer): boolean {
		if (!this.#response.isChunked) return this.#response.writeKept(piece, (error) => this.#onPieceOut(error));
		const more = this.#response.write(piece);
		// Outgoing bytes have been copied.
		this.#whole?.free();
		return more;
	}

	#onPieceOut(error?: Error | null): void {
		if (!error) this.#whole?.free();
	}

	onDrain(): void {
		if (this.#writing === 'none' || this.#writing === 'out') return;
		this.exchange.onClientDrained(this.#whole?.left ?? 0);
		this.#pump();
	}

	refuse({ closes }: Rejection, { status, fields, body }: RefusalResponse): void {
		const leaves = this.#awaits100();
		if (this.#reading !== 'broken') this.#reading = 'dropped';
		// The received part may be the whole body.
		this.#connection.readOn();
		const hasBody = this.method !== 'HEAD';
		this.#begin(status, fields, hasBody, closes || (leaves && !this.#isComplete()));
		this.#writing = 'given';
		this.#response.end(hasBody ? body : '');
	}

	begin(status: number, fields: ResponseFields, hasBody: boolean, announced = ''): void {
		this.#begin(status, fields, hasBody, false, announced);
	}

	write(chunk: Buffer): boolean {
		return this.#response.write(chunk);
	}

	get heldResponse(): number {
		return this.#response.heldBytes;
	}

	// --- A tunnel. ---

	get tunnelStatus(): number {
		return 101;
	}

	get isAhead(): boolean {
		return this.#connection.isAhead;
	}

	get hasEnded(): boolean {
		return this.#tunnel === 'ending';
	}

	openTunnel(fields: ResponseFields): void {
		this.#writing = 'begun';
		this.#reading = 'taken';
		this.#tunnel = 'open';
		const { webSocket } = this.head as RequestHead;
		const { key } = webSocket as WebSocketHandshake;
		const lines = fieldLines(fields.list);
		this.head = FORGOTTEN;
		this.#connection.openTunnel();
		this.#response.switchProtocols(
			`${lines}connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${acceptOf(key!)}\r\n`,
		);
	}

	closeTunnel(): void {
		this.#writing = 'out';
		this.#connection.closeTunnel();
	}

	end(trailers?: Trailers): void {
		if (this.#tunnel !== 'none') return this.#response.endTunnel();
		this.#writing = 'given';
		this.#response.end('', trailers);
	}

	reset(): void {
		this.#whole = undefined;
		this.#connection.breakOff();
	}

	readBody(): void {
		if (this.#problem !== undefined) return this.exchange.onBodyError(this.#problem);
		// Only now have the gates before the body passed (RFC 9110 section 10.1.1).
		if (this.#awaits100()) this.#response.writeContinue();
		this.resumeBody();
	}

	holdBody(): void {
		if (this.#isComplete()) return;
		this.#waits = true;
		this.pauseBody();
		this.#connection.readOn();
	}

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
			this.#awaits100() ||
			this.#leavesTooMuchUnread();
		const wallSeconds = fields.hasDate ? 0 : this.#connection.plane.clock.wallSeconds();
		this.#response.begin(status, fields, hasBody, isLast, wallSeconds, announced);
	}

	/** Whether the client expects a 100. It may give up waiting, so its body may come or not. */
	#awaits100(): boolean {
		const { head } = this;
		return this.#reading === 'unasked' && !this.#isComplete() && !(head instanceof Rejection) && head.expectsContinue;
	}

	/** An early response leaves the rest of the request on the connection. A little is read and dropped; for more, the connection is closed. */
	#leavesTooMuchUnread(): boolean {
		const { head } = this;
		if (this.#isComplete() || head instanceof Rejection) return false;
		return head.bodyLength < 0 || head.bodyLength > DROPPED_BODY;
	}

	onOut(): void {
		if (this.#writing === 'out') return;
		if (this.#tunnel !== 'none') return this.exchange.onResponseOut();
		this.#writing = 'out';
		this.#whole?.free();
		// After a body without a known end there is no next request, whatever the response's head said earlier.
		if (this.#response.isLast || this.#reading === 'broken') this.#connection.close();
		else this.#reading = 'dropped';
		this.exchange.onResponseOut();
		this.#connection.onResponseOut();
	}

	/** @param rest bytes of a tunnel that the upstream has not taken yet, if the client has all of its own. */
	onConnectionClosed(rest?: Buffer): void {
		if (this.#writing === 'out') return;
		this.#writing = 'out';
		if (this.#tunnel !== 'ending' || rest === undefined) return this.exchange.onClientGone();
		this.#tunnel = 'ended';
		this.exchange.onRequestBody(rest);
		this.exchange.onRequestEnd();
	}
}

/** State of a request's incomplete body. */
type Reading =
	/** Not asked for yet; its bytes wait. */
	| 'unasked'
	/** The exchange takes it. */
	| 'taken'
	/** The exchange has asked for it, but takes none at the moment. */
	| 'paused'
	/** It is no longer wanted. */
	| 'dropped'
	/** It is malformed, or has ended too early. */
	| 'broken';

/** Progress of the response. */
type Writing =
	| 'none'
	/** Its head was given. */
	| 'begun'
	/** All of it was given. */
	| 'given'
	/** The kernel has it, or the connection is gone. */
	| 'out';

/** State of a tunnel on the connection, on the client's side. */
type Tunnel =
	/** The connection carries HTTP. */
	| 'none'
	| 'open'
	/** The client has ended, but the tunnel has not taken all of its bytes, and does not know yet. */
	| 'ending'
	/** The exchange knows that the client has ended. */
	| 'ended';

const CUT_SHORT = BODY_ERROR.because('the connection ended within the body');
/** Largest unread rest of a request for which the connection stays open, bytes. */
const DROPPED_BODY = 65_536;

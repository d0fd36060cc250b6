import { BAD_REQUEST, Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Bodies, takesBodyAtOnce } from '#body';
import type { RequestHead } from '../../gates/headers.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { streamErrorReason } from '../../http2/errors.ts';
import { CODE } from '../../http2/frame-format.ts';
import { codedField, codedFields, codedStatus } from '../../http2/hpack-encoder.ts';
import type { Http2StreamErrorReason } from '../../memory/worker-stats.ts';
import { KeptPieces } from '../body/kept-pieces.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import { type ClientRequest, FORGOTTEN, type WholeBody } from '../client/client-request.ts';
import { datesOf, type ResponseFields } from '../client/response-fields.ts';
import type { RefusalResponse } from '../client/responses.ts';
import type { DataPlane } from '../plane/plane.ts';
import { Exchange } from '../request/exchange.ts';
import type { RequestFacts } from './request-fields.ts';
import { Stream, type StreamOwner } from './stream.ts';

/** The connection, as its requests see it. */
export interface RequestOwner {
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	/** The request is charged to its tenant: gives back the price of its head. */
	giveBackTokens(price: number): void;
	/** Has `onWritten` called when the kernel has all output so far. */
	whenWritten(request: Http2Request): void;
	/** A stream was reset for an error of the client. @param what in words. */
	onStreamError(reason: Http2StreamErrorReason, what: string): void;
	/** Has `onReadEnd` called when the current read is over. */
	whenRead(request: Http2Request): void;
}

/** A request over HTTP/2: the stream that carries it, and the client's side of its exchange. One object for both. */
export class Http2Request extends Stream implements ClientRequest {
	readonly method: string;
	readonly target: string;
	head: RequestHead | Rejection;
	readonly isGrpc: boolean;
	readonly connection: ClientConnection;
	readonly exchange: Exchange;
	readonly #connection: RequestOwner;
	/** Body bytes that are not wanted yet, or too few to hand on separately. */
	#kept: KeptPieces | undefined;
	#bodyState: 'unasked' | 'waits' | 'read' | 'paused' = 'unasked';
	/** A 100 has been sent: a request may go to several addresses. */
	#saidContinue = false;
	#endTold = false;
	#awaitsReadEnd = false;
	#trailers: Trailers | undefined;
	#requestTrailers: Trailers | undefined;
	/** A long response's body. */
	#whole: WholeBody | undefined;

	constructor(
		owner: StreamOwner,
		connection: RequestOwner,
		id: number,
		facts: RequestFacts,
		endStream: boolean,
		sendWindow: number,
	) {
		super(owner, id, endStream, facts.declaredLength, sendWindow);
		this.#connection = connection;
		this.connection = connection.client;
		this.head = facts.head;
		this.isGrpc = facts.isGrpc;
		this.method = facts.method;
		this.target = facts.path;
		this.exchange = new Exchange(this, connection.plane, Bodies);
	}

	/** A path is in origin form (RFC 9113 section 8.3.1). */
	get targetAuthority(): undefined {
		return undefined;
	}

	outOfTime(): void {
		this.exchange.outOfTime();
	}

	onPaid(): void {
		this.isAdmitted = true;
		this.#connection.giveBackTokens(this.headPrice);
	}

	// --- The response. ---

	takesTrailers(): boolean {
		return true;
	}

	respond(status: number, fields: ResponseFields, body: WholeBody | string | undefined, trailers?: Trailers): void {
		const isEmpty = body === undefined || body.length === 0;
		if (isEmpty && trailers === undefined) return this.#respond(status, fields, true);
		this.#respond(status, fields, false);
		if (isEmpty) return this.end(trailers);
		this.#trailers = trailers;
		if (typeof body === 'string') return void this.#sendLast(body);
		this.#whole = body;
		this.#pump();
	}

	/** Sends in pieces, to distinguish a slow client from one that takes nothing. */
	#pump(): void {
		for (let piece = this.#whole?.shift(); piece !== undefined; piece = this.#whole?.shift()) {
			if (this.#whole!.left === 0 ? !this.#sendLast(piece) : !this.sendData(piece, false)) return;
			this.#whole?.free();
		}
	}

	#sendLast(piece: Buffer | string): boolean {
		if (this.#trailers === undefined) return this.sendData(piece, true);
		const isOut = this.sendData(piece, false);
		this.end(this.#trailers);
		return isOut;
	}

	refuse(_refusal: Rejection, { status, fields, body }: RefusalResponse): void {
		this.#forgetBody();
		if (this.isRemoteOpen) this.owner.dropBody(this);
		const hasBody = this.method !== 'HEAD' && body !== '';
		this.#respond(status, fields, !hasBody);
		if (hasBody) this.sendData(body, true);
	}

	begin(status: number, fields: ResponseFields, hasBody: boolean): void {
		this.#respond(status, fields, !hasBody);
	}

	write(chunk: Buffer): boolean {
		return this.sendData(chunk, false, true);
	}

	get heldResponse(): number {
		return this.pendingBytes;
	}

	end(trailers?: Trailers): void {
		if (trailers === undefined) this.sendData('', true);
		else this.sendTrailers(codedTrailers(trailers));
	}

	reset(): void {
		this.#whole = undefined;
		// RFC 8441 section 5: the equivalent of a TCP reset.
		this.owner.reset(this, this.isTunnel ? CODE.CANCEL : CODE.INTERNAL_ERROR);
	}

	#respond(status: number, fields: ResponseFields, endStream: boolean): void {
		fields.coded ??= fields.form(codedFields(fields.list));
		const block = codedStatus(status) + fields.coded;
		const { clock } = this.#connection.plane;
		this.sendHeaders(fields.hasDate ? block : block + codedDate(clock.wallSeconds()), endStream);
	}

	override onRoom(): void {
		// Outgoing bytes have been copied.
		this.#whole?.free();
		this.exchange.onClientDrained(this.#whole?.left ?? 0);
		this.#pump();
	}

	/** RFC 8441 section 5: in place of a 101. */
	openTunnel(fields: ResponseFields): void {
		this.isTunnel = true;
		this.#bodyState = 'read';
		this.#respond(this.tunnelStatus, fields, false);
		this.head = FORGOTTEN;
	}

	get tunnelStatus(): number {
		return 200;
	}

	get isAhead(): boolean {
		return this.received > 0 || !this.isRemoteOpen;
	}

	get hasEnded(): boolean {
		return !this.isRemoteOpen;
	}

	closeTunnel(): void {
		this.#forgetBody();
		// Bytes that the client has not taken by now are discarded.
		if (this.isLocalOpen) this.owner.reset(this, CODE.CANCEL);
		else if (this.isRemoteOpen) this.owner.dropBody(this);
	}

	override onResponseSent(): void {
		this.#whole?.free();
		if (!this.isTunnel) this.#forgetBody();
		this.#connection.whenWritten(this);
	}

	/** The kernel has the response. */
	onWritten(): void {
		this.exchange.onResponseOut();
	}

	override onGone(why?: string, code: number = CODE.PROTOCOL_ERROR): void {
		this.#whole?.free();
		this.#whole = undefined;
		this.#forgetBody();
		if (why !== undefined) this.#connection.onStreamError(streamErrorReason(code), why);
		this.exchange.onClientGone(why === undefined ? undefined : BAD_REQUEST.because(why));
	}

	// --- The request's body. ---

	readBody(): void {
		if (this.isClosed) return;
		this.#bodyState = 'read';
		this.isTakenAtOnce = takesBodyAtOnce;
		const { head } = this;
		const expectsContinue = !(head instanceof Rejection) && head.expectsContinue;
		if (expectsContinue && !this.#saidContinue && this.isRemoteOpen && this.received === 0) {
			this.#saidContinue = true;
			this.sendHeaders(codedStatus(100), false);
		}
		this.#handOn();
	}

	holdBody(): void {
		this.#bodyState = 'waits';
		this.#tellHeld();
	}

	pauseBody(): void {
		this.#bodyState = 'paused';
	}

	resumeBody(): void {
		if (this.#bodyState === 'paused') this.#bodyState = 'read';
		this.#handOn();
	}

	/** Joins small pieces of one read: each could cost the upstream connection a write. */
	override onBody(bytes: Buffer): void {
		const mayGo = this.#bodyState === 'read';
		if (mayGo && bytes.length >= SMALL && (this.#kept === undefined || this.#kept.length === 0))
			return this.#take(bytes);
		this.#kept ??= new KeptPieces();
		this.#kept.add(bytes);
		if (!mayGo) return this.#tellHeld();
		if (this.#awaitsReadEnd) return;
		this.#awaitsReadEnd = true;
		this.#connection.whenRead(this);
	}

	/** The read that brought the last piece is over. */
	onReadEnd(): void {
		this.#awaitsReadEnd = false;
		this.#handOn();
	}

	override onBodyEnd(trailers?: Trailers): void {
		this.#requestTrailers = trailers;
		this.#handOn();
	}

	/** Hands on the kept bytes while they are wanted, then the end. */
	#handOn(): void {
		const kept = this.#kept;
		while (this.#bodyState === 'read' && (!this.isClosed || this.isTunnel)) {
			const piece = kept?.shift();
			if (piece === undefined) break;
			this.#take(piece);
		}
		// The end needs no room, so it follows the last byte unasked.
		const hasAll = kept === undefined || kept.length === 0;
		if (hasAll && (this.#bodyState === 'read' || this.#bodyState === 'paused')) this.#tellEnd();
		this.#tellHeld();
	}

	/** Reports held bytes. A body not asked for yet is read in its turn, or reported by `holdBody`. */
	#tellHeld(): void {
		if (this.#kept !== undefined && this.#bodyState !== 'unasked') this.exchange.onBodyHeld(this.#kept.length);
	}

	#take(bytes: Buffer): void {
		this.exchange.onRequestBody(bytes);
		// The held bytes of an unwanted body have already been given back with its rest.
		if (this.unwanted === undefined) this.owner.release(this, bytes.length);
	}

	#tellEnd(): void {
		if (this.isRemoteOpen || this.#endTold) return;
		this.#endTold = true;
		this.exchange.onRequestEnd(this.#requestTrailers);
	}

	#forgetBody(): void {
		this.#bodyState = 'unasked';
		this.#kept = undefined;
	}
}

const codedDate = datesOf((date) => codedField('date', date));

/** Smaller pieces of a body wait for the others of the same read, bytes. */
const SMALL = 4096;

/** Not remembered, unlike fields of heads: checksums and messages differ each time. */
function codedTrailers(trailers: Trailers): string {
	let block = '';
	for (let i = 0; i < trailers.length; i += 2) block += codedField(trailers[i]!, trailers[i + 1]!);
	return block;
}

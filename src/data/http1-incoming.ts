import type { Socket } from 'node:net';
import { KeptPieces } from './body/kept-pieces.ts';
import type { ExchangeEvents } from './client.ts';

/** Who takes a request's body. */
export type BodyTaker = Pick<ExchangeEvents, 'onRequestBody' | 'onRequestEnd'>;

/**
 * One HTTP/1.1 request as it comes from Node's parser (llhttp), which makes one where it would make an `IncomingMessage`.
 * That is a stream with all its events and turns of the loop; most requests have no body, and those that have one have a
 * single reader, who is known.
 */
export class Http1Incoming {
	// --- Set by Node, in this order. The class names them so that all requests have one shape.
	readonly socket: Socket;
	httpVersionMajor = 1;
	httpVersionMinor = 1;
	httpVersion = '';
	joinDuplicateHeaders: unknown = undefined;
	url = '';
	/** CONNECT, or `Upgrade`: llhttp has stopped behind it. */
	upgrade: boolean | null = null;
	method = '';
	/** All of the request has come. */
	complete = false;
	/** Names and values in turn, as they came. */
	rawHeaders: string[] = [];

	/** Called when the request is complete, and has a body. */
	onComplete: (() => void) | undefined = undefined;
	#taker: BodyTaker | undefined = undefined;
	#paused = true;
	#ended = false;
	/** What nobody has taken yet. */
	#kept: KeptPieces | undefined = undefined;

	/** Read by Node: nobody wants the body any more. */
	_dumped = false;

	constructor(socket: Socket) {
		this.socket = socket;
	}

	// --- Called by the request's exchange.

	/** Hands on the body from here on: what is there now, the rest as it comes. */
	take(taker: BodyTaker): void {
		this.#taker = taker;
		this.resume();
	}

	pause(): void {
		this.#paused = true;
	}

	resume(): void {
		if (this.#taker === undefined) return;
		this.#paused = false;
		this.#handOn();
		if (!this.#paused) this.#readOn();
	}

	/** The request is over. What still comes of it is read and forgotten; Node holds on to us until the next one. */
	drop(): void {
		this._dumped = true;
		this.rawHeaders = NO_FIELDS;
		this.#taker = undefined;
		this.#kept = undefined;
		this.#readOn();
	}

	#handOn(): void {
		const kept = this.#kept;
		while (kept !== undefined && kept.length > 0) {
			if (this.#paused) return;
			this.#taker?.onRequestBody(kept.shift()!);
		}
		if (this.#paused || this.#ended || !this.complete) return;
		this.#ended = true;
		this.#taker?.onRequestEnd();
	}

	/** There is more to come, and the connection may have been paused because of what was there. */
	#readOn(): void {
		const { socket } = this;
		if (!this.complete && socket.isPaused() && socket.readable) socket.resume();
	}

	// --- Called by Node.

	/** @param fields the head's or, when it is complete, the trailers', which are dropped (decisions "HTTP"). */
	_addHeaderLines(fields: string[]): void {
		if (!this.complete) this.rawHeaders = fields;
	}

	/**
	 * @param chunk `null` is the end of the request.
	 * @returns whether more may follow; if not Node stops reading the connection.
	 */
	push(chunk: Buffer | null): boolean {
		if (chunk === null) {
			this.onComplete?.();
			this.onComplete = undefined;
			this.#handOn();
			return true;
		}
		if (!this.#paused) {
			this.#taker?.onRequestBody(chunk);
			return true;
		}
		this.#kept ??= new KeptPieces();
		this.#kept.add(chunk);
		return this.#kept.length < MAX_KEPT;
	}
}

const NO_FIELDS: string[] = [];
/** As much of a body that nobody takes yet is read ahead, bytes. */
const MAX_KEPT = 65_536;

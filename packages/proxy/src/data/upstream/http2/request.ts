import { UNDECLARED } from '../../../gates/body-limit.ts';
import type { Trailers } from '../../../gates/trailers.ts';
import { ClientStream, type StreamEnd } from '../../../http2/client/client-stream.ts';
import type { ResponseFacts } from '../../../http2/client/response-fields.ts';
import { codedFields } from '../../../http2/hpack-encoder.ts';
import { KeptPieces } from '../../body/kept-pieces.ts';
import { endOwner, guarded } from '../../loop/faults.ts';
import { http2ResponseHead } from '../../memo/http2-response-head.ts';
import { webSocketField } from '../../memo/outgoing-block.ts';
import type { OutgoingBody, OutgoingRequest, ResponseHandler, UpstreamFailure, UpstreamRequest } from '../contract.ts';
import type { ResponseHead } from '../response-head.ts';
import type { Http2UpstreamConnection } from './connection.ts';

/** A request at an HTTP/2 upstream: the stream that carries it. One object for both. */
export class Http2UpstreamRequest extends ClientStream implements UpstreamRequest {
	readonly isConnected = true;
	readonly mayBeRefused = true;
	/** When it was sent: reads of the connection until then, and ticks of the timer of all time limits. */
	readsBefore = 0;
	sentAtTick = 0;
	/** Turns of the loop in which more of its body has been given. */
	turns = 0;
	/** `writes` of the connection in the last of them. */
	#lastTurn = -1;
	readonly #connection: Http2UpstreamConnection;
	#handler: ResponseHandler | undefined;
	#onWritten: (() => void) | undefined;
	/** Header block of an extended CONNECT that waits for the upstream's SETTINGS. */
	#block = '';
	/** Bytes that arrived while the client takes nothing. */
	#kept: KeptPieces | undefined;
	#isPaused = false;
	/** The response has ended, but its kept bytes must go first. */
	#end: { readonly trailers: Trailers | undefined; readonly failure?: UpstreamFailure } | undefined;

	constructor(connection: Http2UpstreamConnection) {
		super(connection.protocol.streams);
		this.#connection = connection;
	}

	// --- The request. ---

	send(request: OutgoingRequest, body: OutgoingBody, handler: ResponseHandler): void {
		this.#handler = handler;
		this.tenant = request.tenant;
		const { pieces, onWritten, complete, trailers } = body;
		const block = this.#connection.scheme + request.headAsBlock(body);
		if (request.handshake !== undefined) return this.#connect(webSocketField() + block);
		const problem = this.#connection.refusesHead(block);
		if (problem !== undefined) return this.#refuse(problem);
		this.#connection.sends(this);
		this.#onWritten = onWritten;
		const endsWithBody = complete && trailers === undefined;
		const isEmpty = endsWithBody && pieces.length === 0;
		const endsWithHead = isEmpty && !request.isCall;
		this.begin(request.method, block, endsWithHead);
		if (isEmpty && !endsWithHead) this.sendData(NOTHING, true);
		const last = endsWithBody ? pieces.length - 1 : -1;
		for (const [i, piece] of pieces.entries()) this.sendData(piece, i === last);
		if (complete && trailers !== undefined) this.sendTrailers(codedFields(trailers));
	}

	/** Asks for a WebSocket (RFC 8441 sections 4 and 5), as soon as it is known whether the upstream takes one. */
	#connect(block: string): void {
		const { isGreeted } = this.#connection.protocol;
		const problem = isGreeted ? this.#connection.refusesConnect(block) : undefined;
		if (problem !== undefined) return this.#refuse(problem);
		this.#connection.sends(this);
		if (isGreeted) return this.begin('CONNECT', block, false);
		this.#block = block;
		this.#connection.awaitSettings(this);
	}

	#refuse(problem: UpstreamFailure): void {
		// Its body may still come: there is no stream to send it on.
		this.isClosed = true;
		this.#connection.failLater(this, problem);
	}

	/** For the connection: the upstream's SETTINGS are there. */
	onGreeted(): void {
		const problem = this.#connection.refusesConnect(this.#block);
		if (problem === undefined) return this.begin('CONNECT', this.#block, false);
		this.isClosed = true;
		this.failing(problem);
		this.#connection.onStreamEnd();
		this.failed(problem);
	}

	write(bytes: Buffer): boolean {
		if (this.isClosed) return true;
		const { writes } = this.#connection;
		if (writes !== this.#lastTurn) this.turns++;
		this.#lastTurn = writes;
		return this.sendData(bytes, false, true);
	}

	finish(trailers?: Trailers): void {
		if (this.isClosed) return;
		if (trailers === undefined) this.sendData(NOTHING, true);
		else this.sendTrailers(codedFields(trailers));
	}

	override onRoom(): void {
		this.#tell((handler) => handler.onWritable());
	}

	protected override onSent(): void {
		this.#onWritten?.();
		this.#onWritten = undefined;
		super.onSent();
	}

	destroy(): void {
		this.#handler = undefined;
		this.#kept = undefined;
		// Both sides of a tunnel have ended, and the client's last bytes may still wait for the upstream.
		const isLast = this.isTunnel && !this.isRemoteOpen && this.isEnding;
		if (isLast) this.#cancelLater();
		else this.#connection.cancel(this);
	}

	#cancelLater(): void {
		const connection = this.#connection;
		setTimeout(
			guarded(connection, () => connection.cancel(this)),
			CLOSE_LIMIT_MS,
		).unref();
	}

	// --- The response. ---

	override onResponse(facts: ResponseFacts, endStream: boolean): void {
		const head = http2ResponseHead(facts);
		// The CONNECT was refused: there is nothing to send.
		if (this.method === 'CONNECT' && !this.isTunnel) this.finish();
		if (this.#handler === undefined) return;
		this.#tell((handler) => this.#tellHead(handler, head, endStream));
		if (!this.hasBody && !endStream) this.#endWithHead();
	}

	/**
	 * The head is the whole response (RFC 9110 section 6.4.1). END_STREAM may come in a frame of its own, or never: nobody waits for it, and
	 * a reset in its place breaks nothing off.
	 */
	#endWithHead(): void {
		// As after END_STREAM: the upstream does not need the rest of the request.
		if (this.isLocalOpen) this.#connection.cancel(this);
		else this.#cancelLater();
		this.#tellEnd(undefined);
	}

	#tellHead(handler: ResponseHandler, { status, fields, length }: ResponseHead, endStream: boolean): void {
		if (this.isTunnel) handler.onTunnel?.(fields);
		else if (!endStream || !this.hasBody) handler.onHead(status, fields, length, this.hasBody);
		// The head ends the stream: gRPC servers end a call so, and clients distinguish it from an empty body.
		else handler.onHead(status, fields.hasLength ? fields : fields.withLength(0), 0, false);
	}

	override onBody(bytes: Buffer): void {
		if (this.#isPaused || (this.#kept !== undefined && this.#kept.length > 0)) {
			this.#kept ??= new KeptPieces();
			this.#kept.add(bytes);
			return this.#tellHeld(this.#kept);
		}
		this.#take(bytes);
	}

	#tellHeld({ length }: KeptPieces): void {
		this.#tell((handler) => handler.onResponseHeld(length));
	}

	#take(bytes: Buffer): void {
		this.#tell((handler) => handler.onBody(bytes));
		this.owner.release(this, bytes.length);
	}

	override onResponseEnd(trailers: Trailers | undefined): void {
		if (this.#kept !== undefined && this.#kept.length > 0) this.#end = { trailers };
		else this.#tellEnd(trailers);
	}

	#tellEnd(trailers: Trailers | undefined): void {
		const handler = this.#handler;
		// Our side of a tunnel may go on.
		if (!this.isTunnel) this.#handler = undefined;
		if (handler === undefined) return;
		try {
			handler.onEnd(trailers);
		} catch (error) {
			endOwner(handler, error);
		}
	}

	pause(): void {
		this.#isPaused = true;
	}

	resume(): void {
		if (!this.#isPaused) return;
		this.#isPaused = false;
		const kept = this.#kept;
		while (kept !== undefined && !this.#isPaused && this.#handler !== undefined) {
			const piece = kept.shift();
			if (piece === undefined) break;
			this.#take(piece);
		}
		if (kept !== undefined) this.#tellHeld(kept);
		const end = this.#end;
		if (end === undefined || this.#isPaused || kept?.length !== 0) return;
		this.#end = undefined;
		if (end.failure === undefined) return this.#tellEnd(end.trailers);
		this.failing(end.failure);
		this.failed(end.failure);
	}

	// --- It fails. ---

	override onClosed(end: StreamEnd): void {
		const failure = this.#failureOf(end);
		this.failing(failure);
		this.failed(failure);
	}

	#failureOf({ kind, cause }: StreamEnd): UpstreamFailure {
		if (kind === 'refused' || kind === 'malformed' || kind === 'excessive') return { kind, cause };
		return { kind: this.hasHead ? 'broken' : 'unanswered', cause: this.hasHead ? `${cause} ${this.place}` : cause };
	}

	/** Position in the response, for one that breaks off. */
	get place(): string {
		if (!this.hasHead) return 'before a response';
		const inWords = (bytes: number) => bytes.toLocaleString('en-US');
		if (this.declaredLength === UNDECLARED) return `after ${inWords(this.received)} bytes of a body`;
		return `after ${inWords(this.received)} of ${inWords(this.declaredLength)} bytes`;
	}

	/** All bytes of its declared length have come, and some wait for the client: they may be all that the client needs. */
	#keepsLastByte(): boolean {
		const isThere = this.declaredLength !== UNDECLARED && this.received === this.declaredLength;
		return isThere && this.#kept !== undefined && this.#kept.length > 0;
	}

	/** `failed` follows; if the connection has ended, once any thread can take its place. */
	failing(failure: UpstreamFailure): void {
		// Everything that the upstream sent through the tunnel has arrived and waits for the client.
		if (this.#end !== undefined) return;
		if (this.#keepsLastByte()) {
			this.#end = { trailers: undefined, failure };
			return;
		}
		this.#kept = undefined;
		this.#tell((handler) => handler.onFailing(failure));
	}

	failed(failure: UpstreamFailure): void {
		// Bytes that the client still sends have no destination, and must not wait.
		if (this.#end !== undefined) return this.onRoom();
		const handler = this.#handler;
		this.#handler = undefined;
		if (handler === undefined) return;
		try {
			handler.onFailure(failure);
		} catch (error) {
			endOwner(handler, error);
		}
	}

	/** A throw ends this request, and no other of the connection. */
	#tell(what: (handler: ResponseHandler) => void): void {
		const handler = this.#handler;
		if (handler === undefined) return;
		try {
			what(handler);
		} catch (error) {
			this.destroy();
			endOwner(handler, error);
		}
	}

	/** Our code has thrown, and the connection ends. */
	fault(error: unknown): void {
		const handler = this.#handler;
		this.#handler = undefined;
		if (handler !== undefined) endOwner(handler, error);
	}
}

const NOTHING = Buffer.alloc(0);
/** Time for an upstream to take the last bytes of a tunnel, or to end a response without a body, ms. */
const CLOSE_LIMIT_MS = 1_000;

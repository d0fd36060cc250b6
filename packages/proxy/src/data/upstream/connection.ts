import type { Socket } from 'node:net';
import { connectionCause, refusesOurCertificate } from '@mtls-edge-proxy/gate/words/causes.ts';
import { READ_BUFFER, reader, readView } from '#read-buffer';
import { UNDECLARED } from '../../gates/body-limit.ts';
import type { Trailers } from '../../gates/trailers.ts';
import { NO_HTTP1 } from '../../tls/upstream-tls.ts';
import { lastChunk } from '../http1/last-chunk.ts';
import { TICK_MS, Timed } from '../loop/deadlines.ts';
import { endOwner, guarded, listen } from '../loop/faults.ts';
import type { Deferred } from '../loop/paced-reads.ts';
import {
	connectFailure,
	NO_CONNECT,
	type OutgoingBody,
	type OutgoingRequest,
	type ResponseHandler,
	STALE,
	UNCONNECTED,
	UNREACHED,
	type UpstreamFailure,
	type UpstreamRequest,
} from './contract.ts';
import type { Dial } from './dial.ts';
import type { Endpoint } from './endpoint.ts';
import type { UpstreamPool } from './pool.ts';
import { ProtocolError } from './response-head.ts';
import { ResponseParser } from './response-parser.ts';
import type { Transport } from './transport.ts';
import { Upload } from './upload.ts';

/**
 * One HTTP/1.1 connection to an upstream, one request at a time. Anything unsolicited from the upstream ends the
 * connection: a stray byte before the next tenant's response would be worse than any reconnect.
 */
export class UpstreamConnection extends Timed implements UpstreamRequest, Deferred {
	/** Requests sent so far. */
	requests = 0;
	/** Monotonic milliseconds until which an idle connection may be used again. */
	usableUntil = 0;
	/** `PlaneDeadlines.ticks` when the request at hand took it. */
	takenAt = 0;
	/** No other request may use it later. */
	isForOne = false;
	readonly endpoint: Endpoint;
	/** The transport that made the connection; no longer the upstream's if its TLS settings have changed. */
	readonly transport: Transport;
	readonly #pool: UpstreamPool;
	readonly #socket: Socket;
	readonly #parser: ResponseParser;
	#handler: ResponseHandler | undefined;
	/** The upload of the current request, kept after its end. */
	#upload: Upload | undefined;
	/** The request's body is framed as chunks (RFC 9112 section 7.1). */
	#chunked = false;
	/** The request, body included, has been handed over; until then the connection cannot be used again. */
	#sent = true;
	/** The upstream has ended its side of a tunnel. */
	#tunnelEnded = false;
	#connected = false;
	#gone = false;
	#paused = false;
	/** Whether reads wait until the address has paid its debt. */
	#delay: Delay = DELAY.none;
	readonly #openedAt: number;
	/** Time that connecting took: at least one round trip, ms. */
	#connectMs = 0;
	/** The target of the next read. */
	#buffer: Buffer = READ_BUFFER;

	/** @param dial the dial that made the connection; `undefined`: it is made here. */
	constructor(endpoint: Endpoint, pool: UpstreamPool, dial?: Dial) {
		super();
		this.#pool = pool;
		this.endpoint = endpoint;
		this.#openedAt = endpoint.clock.now();
		const transport = dial?.transport ?? endpoint.transport;
		this.transport = transport;
		this.#parser = new ResponseParser(endpoint.heads, transport.endIsKnown, endpoint.maxTrailers);
		const onread = { buffer: () => this.#nextBuffer(), callback: reader((length) => this.#onRead(length)) };
		const socket = dial?.handOver(onread) ?? transport.open(onread, 'http/1.1');
		this.#socket = socket;
		if (dial !== undefined) {
			this.#connected = true;
			this.#connectMs = dial.connectMs;
		}
		const onEof = () => this.#onEof();
		listen(socket, this, {
			[transport.connected]: () => this.#onConnected(),
			drain: () => this.#handler?.onWritable(),
			error: (error: NodeJS.ErrnoException) => this.#fail(this.#failureOf(error)),
			end: onEof,
			close: onEof,
		});
	}

	/** Our code has thrown in a callback of the socket, which ends the current request and this connection. */
	override onFault(error: unknown): void {
		const handler = this.#handler;
		this.destroy();
		if (handler === undefined) this.endpoint.log.error('proxy::exchange', 'internal error', { error });
		else handler.onFault(error);
	}

	#onConnected(): void {
		if (this.#socket.destroyed) return;
		this.#connected = true;
		this.#connectMs = this.endpoint.clock.now() - this.#openedAt;
		this.cancelDeadline();
		if (this.endpoint.share.isOverdrawn) this.#settle(DELAY.beforeResponse);
		this.#handler?.onConnected();
	}

	get isConnected(): boolean {
		return this.#connected;
	}

	get mayBeRefused(): boolean {
		return false;
	}

	/** The upstream's own promise about idle connections, from its last response. */
	get keepAliveTimeoutMs(): number | undefined {
		return this.#parser.keepAliveTimeoutMs;
	}

	send(request: OutgoingRequest, body: OutgoingBody, handler: ResponseHandler): void {
		const head = request.headAsText(body);
		const { pieces, complete } = body;
		this.#handler = handler;
		this.#sent = complete;
		this.#chunked = body.length === UNDECLARED;
		this.#upload = undefined;
		this.requests++;
		this.#parser.expect(request.method, handler, request.handshake !== undefined);
		const socket = this.#socket;
		// A handshake is not delayed.
		if (this.#connected && this.endpoint.share.isOverdrawn) this.#settle(DELAY.beforeResponse);
		if (complete && this.#chunked) return this.#sendChunked(head, body);
		if (pieces.length === 0) return void socket.write(head, 'latin1');
		socket.cork();
		socket.write(head, 'latin1');
		const last = pieces.length - 1;
		for (const [i, piece] of pieces.entries()) {
			if (i < last) socket.write(piece);
			else socket.write(piece, whenWritten(body));
		}
		socket.uncork();
	}

	/** Sends a whole body with trailers, which only chunked framing can carry. */
	#sendChunked(head: string, body: OutgoingBody): void {
		const socket = this.#socket;
		socket.cork();
		let text = head;
		for (const piece of body.pieces) {
			socket.write(`${text}${piece.length.toString(16)}\r\n`, 'latin1');
			socket.write(piece);
			text = '\r\n';
		}
		socket.write(text + lastChunk(body.trailers), 'latin1', whenWritten(body));
		socket.uncork();
	}

	write(bytes: Buffer): boolean {
		this.#upload ??= new Upload(this.#socket, this.#chunked, this.endpoint.writing, this);
		return this.#upload.write(bytes);
	}

	finish(trailers?: Trailers): void {
		this.#sent = true;
		this.#upload ??= new Upload(this.#socket, this.#chunked, this.endpoint.writing, this);
		this.#upload.finish(trailers);
		if (this.#parser.isTunnel) this.#socket.end();
	}

	onUploadHeld(bytes: number): void {
		this.#handler?.onUploadHeld?.(bytes);
	}

	pause(): void {
		if (this.#paused) return;
		this.#paused = true;
		this.#socket.pause();
	}

	resume(): void {
		if (!this.#paused) return;
		this.#paused = false;
		if (this.#isReading()) this.#socket.resume();
	}

	/** The connection is idle: it is read, so that its end is noticed. A debt delays its next response. */
	#watch(): void {
		if (this.#isReading()) return;
		if (this.#delay !== DELAY.none) this.#delay = DELAY.over;
		this.#paused = false;
		this.#socket.resume();
	}

	#chargeSmallRead(): void {
		if (this.#parser.isTunnel) return;
		this.#parser.cost += PRICE_OF_SMALL_READ;
		this.#charge();
	}

	/** Charges the address for what was just read. */
	#charge(): void {
		const { share } = this.endpoint;
		share.spend(this.#parser.cost);
		this.#parser.cost = 0;
		// A whole response is given on: a debt delays the next one.
		if (share.isOverdrawn && this.#handler !== undefined) this.#settle(DELAY.inResponse);
	}

	/** Reads later, if the address has used up its share of the worker. */
	#settle(delay: typeof DELAY.beforeResponse | typeof DELAY.inResponse): void {
		const { endpoint } = this;
		if (this.#isDelayed() || endpoint.share.settle(endpoint.reads.now)) return;
		endpoint.reportDelay();
		const isQueued = this.#delay === DELAY.over;
		this.#delay = delay;
		this.#socket.pause();
		if (!isQueued) endpoint.reads.add(this);
	}

	/** For `ReadQueue`. */
	goOn(now: number): boolean {
		try {
			return this.#goOn(now);
		} catch (error) {
			endOwner(this, error);
			return true;
		}
	}

	#goOn(now: number): boolean {
		const { share } = this.endpoint;
		const isOver = !this.#isDelayed() || this.#gone;
		if (!isOver && !share.settle(now)) return false;
		const delay = this.#delay;
		this.#delay = DELAY.none;
		if (isOver) return true;
		// Otherwise all that wait would be read at once. A request that has just been sent pays nothing: under load, such prices would
		// prolong a debt for ever.
		if (delay === DELAY.inResponse) share.spend(PRICE_OF_DELAY);
		// Until now the end of an idle connection could not be seen.
		else this.takenAt = this.endpoint.deadlines.ticks;
		if (!this.#paused) this.#socket.resume();
		return true;
	}

	/** Ends the connection: the request is no longer wanted, or nothing was asked. */
	destroy(): void {
		this.#handler = undefined;
		this.#parser.drop();
		// Nothing that still arrives is wanted.
		if (this.#gone) return void this.#socket.destroy();
		this.#leave();
		if (this.#tunnelEnded && this.#socket.writableEnded) this.#closeBehindWrites();
		else this.transport.close(this.#socket);
	}

	/** Closes after both sides of a tunnel have ended; the client's last bytes may still be on their way. */
	#closeBehindWrites(): void {
		const socket = this.#socket;
		socket.setTimeout(CLOSE_LIMIT_MS, () => socket.destroy());
		socket.destroySoon();
	}

	/** The connection was not made in time, or has been idle for too long. */
	override onDeadline(): void {
		if (this.#connected) this.destroy();
		else this.#fail(UNREACHED);
	}

	/** Called after each read. */
	#nextBuffer(): Buffer {
		this.#buffer = READ_BUFFER;
		const handler = this.#handler;
		const left = handler === undefined ? 0 : this.#parser.leftOfBody;
		if (left === 0) return READ_BUFFER;
		try {
			const room = handler!.room();
			if (room !== undefined) this.#buffer = room.length <= left ? room : room.subarray(0, left);
		} catch (error) {
			this.onFault(error);
		}
		return this.#buffer;
	}

	#onRead(length: number): boolean {
		if (this.#handler === undefined) {
			// Nobody asked for anything: the connection is poisoned.
			this.destroy();
			return false;
		}
		try {
			return this.#read(length, this.#handler);
		} catch (error) {
			this.onFault(error);
			return false;
		}
	}

	#read(length: number, handler: ResponseHandler): boolean {
		try {
			if (this.#buffer !== READ_BUFFER) {
				handler.onBodyInRoom(length);
				this.#parser.skip(length);
				if (this.#parser.isDone) this.#complete(true);
				else if (length < SMALL_READ) this.#chargeSmallRead();
				return this.#isReading();
			}
			const parser = this.#parser;
			const used = parser.push(readView(length));
			if (parser.isDone) this.#complete(used === length);
			else if (length < SMALL_READ) this.#chargeSmallRead();
			if (parser.cost > 0) this.#charge();
			return this.#isReading();
		} catch (error) {
			if (!(error instanceof ProtocolError)) throw error;
			this.endpoint.share.spend(this.#parser.cost);
			this.#fail({ kind: 'malformed', cause: String(error.cause ?? error.message) });
			return false;
		}
	}

	#isReading(): boolean {
		return !this.#paused && !this.#isDelayed();
	}

	#isDelayed(): boolean {
		return this.#delay > DELAY.over;
	}

	/** The response is whole. The connection goes back first, so that the handler's next request can use it. */
	#complete(clean: boolean): void {
		const handler = this.#handler;
		this.#handler = undefined;
		const { trailers } = this.#parser;
		const reusable = clean && this.#sent && this.#parser.keepAlive && !this.#gone;
		if (reusable && this.#socket.writableLength === 0) {
			this.#watch();
			this.#pool.release(this);
		} else if (reusable && this.transport.writesEndLater) {
			this.#watch();
			setImmediate(guarded(this, () => this.#releaseDrained()));
		} else {
			this.destroy();
		}
		try {
			handler?.onEnd(trailers);
		} catch (error) {
			// By now the connection may belong to another request.
			endOwner(handler!, error);
		}
	}

	/**
	 * Gives the connection back to the pool unless bytes still wait to be sent. A response that comes before the end of the request's body may
	 * leave bytes that the upstream never reads, and they would block the next request.
	 */
	#releaseDrained(): void {
		if (this.#gone) return;
		if (this.#socket.writableLength === 0) this.#pool.release(this);
		else this.destroy();
	}

	#onEof(): void {
		if (this.#parser.isTunnel && this.#socket.readableEnded) return this.#onTunnelEnd();
		if (this.#handler !== undefined && this.#parser.started && this.#parser.close()) this.#complete(false);
		else if (!this.#connected) this.#fail(UNCONNECTED);
		else this.#fail(this.#isStale() ? STALE : { kind: this.#broken(), cause: `closed ${this.#parser.place}` });
	}

	/** The upstream sends nothing more. If the socket closes, both sides have ended. */
	#onTunnelEnd(): void {
		if (this.#tunnelEnded) return;
		this.#tunnelEnded = true;
		this.#handler?.onEnd();
	}

	#fail(failure: UpstreamFailure): void {
		const handler = this.#handler;
		// Before another request can take the place: a breaker that this failure opens must be open by then.
		handler?.onFailing(failure);
		this.destroy();
		try {
			handler?.onFailure(failure);
		} catch (error) {
			endOwner(handler!, error);
		}
	}

	#failureOf(error: NodeJS.ErrnoException): UpstreamFailure {
		if (error.code === NO_HTTP1) return { kind: 'unsupported', cause: `${NO_CONNECT.cause}, and no HTTP/1.1` };
		if (!this.#connected || this.#isRefused(error)) return connectFailure(error);
		if (this.#isStale()) return STALE;
		const cause = connectionCause(error);
		return { kind: this.#broken(), cause: this.#parser.started ? `${cause} ${this.#parser.place}` : cause };
	}

	/**
	 * Whether a used connection had ended before the request came. That shows within a round trip. An upstream that ends it later, or
	 * after it has taken part of the body, has received the request.
	 */
	#isStale(): boolean {
		// While reads are delayed, the kernel may have the response.
		if (this.requests === 1 || this.#parser.started || this.#isDelayed()) return false;
		const ticks = this.endpoint.deadlines.ticks - this.takenAt;
		const isTakenInParts = (this.#upload?.turns ?? 0) > 2;
		return ticks <= 1 + (2 * this.#connectMs) / TICK_MS && !isTakenInParts;
	}

	#broken(): 'broken' | 'unanswered' {
		return this.#parser.started ? 'broken' : 'unanswered';
	}

	/** In TLS 1.3 the upstream refuses our certificate only after our half of the handshake, instead of reading the request. */
	#isRefused(error: NodeJS.ErrnoException): boolean {
		return this.requests === 1 && !this.#parser.started && refusesOurCertificate(error);
	}

	#leave(): void {
		if (this.#gone) return;
		this.#gone = true;
		this.cancelDeadline();
		this.#pool.forget(this);
	}
}

/** Whether reads are delayed. */
const DELAY = {
	/** They are not. */
	none: 0,
	/** No longer, but `ReadQueue` still has the connection. */
	over: 1,
	/** A request has been sent; its response is unread. */
	beforeResponse: 2,
	/** The rest of a response may be unread. */
	inResponse: 3,
} as const;
type Delay = (typeof DELAY)[keyof typeof DELAY];

function whenWritten({ onWritten }: OutgoingBody): (error?: Error | null) => void {
	return (error) => error ?? onWritten?.();
}

/** Time for the upstream to take a client's last bytes, ms. */
const CLOSE_LIMIT_MS = 1_000;

/** A read of less than this has a price if the response goes on, bytes. */
const SMALL_READ = 256;
/** Tokens: as much as a small message over HTTP/2. */
const PRICE_OF_SMALL_READ = 1;
/** Tokens. */
const PRICE_OF_DELAY = 100;

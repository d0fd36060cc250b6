import { createServer, IncomingMessage, type Server, ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { BodyExchange } from '#body';
import { type RequestHead, readHttp1Head } from '../gates/headers.ts';
import * as rejection from '../gates/rejection.ts';
import { Rejection } from '../gates/rejection.ts';
import { originForm } from '../gates/target.ts';
import { forwardedLines, refusalFields } from './answers.ts';
import type { ClientRequest } from './client.ts';
import { Timed } from './deadlines.ts';
import { afterDrainGrace } from './drain-grace.ts';
import type { DataPlane } from './plane.ts';

/**
 * The HTTP/1.1 front. Node's parser (llhttp) faces the client; this file adds what Node leaves open (time limits, one
 * request of a connection at a time, lingering close) and presents each request to the pipeline as a `ClientRequest`.
 */
export class Http1Front {
	readonly #plane: DataPlane;
	readonly #server: Server<typeof EdgeRequest, typeof EdgeResponse>;
	readonly #connections = new Map<Duplex, Http1Connection>();
	#draining = false;

	constructor(plane: DataPlane) {
		this.#plane = plane;
		this.#server = createServer({
			IncomingMessage: EdgeRequest,
			ServerResponse: EdgeResponse,
			maxHeaderSize: plane.limits.maxHeaderBytes,
			insecureHTTPParser: false,
			// Hosts and framing are judged by the gate, from the raw list; Node would look at one of two.
			requireHostHeader: false,
			shouldUpgradeCallback: stayWithHttp,
			// All time limits are ours: Node checks its own every 30 s, and never on a server that does not listen.
			keepAliveTimeout: 0,
			requestTimeout: 0,
			headersTimeout: 0,
			connectionsCheckingInterval: 2 ** 30,
		});
		this.#server.timeout = 0;
		// Beyond 2000 fields Node would drop the rest without a word; the head's size is what limits them.
		this.#server.maxHeadersCount = 0;
		this.#server.on('request', (req, res) => this.#connectionOf(req.socket)?.onRequest(req, res));
		// Node lets go of the socket after a CONNECT; it is refused in its turn all the same.
		this.#server.on('connect', (req, socket) => this.#connectionOf(socket)?.onRequest(req, undefined));
		this.#server.on('clientError', (error, socket) => this.#connectionOf(socket)?.onParseError(error));
	}

	/** Takes over a connection whose handshake is done. @param peer the client's IP. */
	accept(socket: TLSSocket, peer: string): void {
		const connection = new Http1Connection(socket, peer, this.#plane);
		this.#connections.set(socket, connection);
		this.#plane.stats.connections('http/1.1', 1);
		socket.once('close', () => {
			this.#connections.delete(socket);
			this.#plane.stats.connections('http/1.1', -1);
			connection.onClose();
		});
		if (this.#draining) connection.drain();
		this.#server.emit('connection', socket);
		// Behind Node's own listener, which begins to read again after each request.
		socket.on('resume', () => connection.onResume());
	}

	/** From now on each answer is the last one of its connection. */
	drain(): void {
		this.#draining = true;
		for (const connection of this.#connections.values()) connection.drain();
	}

	get size(): number {
		return this.#connections.size;
	}

	#connectionOf(socket: Duplex): Http1Connection | undefined {
		return this.#connections.get(socket);
	}
}

/**
 * Node asks each request for its header object, twice, before we see it; we work on the raw list, where nothing has been
 * merged or dropped. An empty object spares building one that nobody needs.
 */
class EdgeRequest extends IncomingMessage {
	/** What follows it is lost on us. */
	endsParsing = false;
}
Object.defineProperty(EdgeRequest.prototype, 'headers', { value: Object.freeze({}) });

/**
 * No upgrade is granted, but llhttp has stopped behind such a request all the same: Node drops the rest of the read and goes
 * on with the next one, wherever in the stream that begins.
 */
function stayWithHttp(req: IncomingMessage): boolean {
	(req as EdgeRequest).endsParsing = true;
	return false;
}

/** Knows its request, so that one listener serves all. */
class EdgeResponse extends ServerResponse<EdgeRequest> {
	request: Http1Request | undefined = undefined;
}

/** Pipelined requests that wait before we stop reading; what a single read brings may be more. */
const MAX_WAITING = 8;

/** One connection: which request is being served, which wait, and what it may not take too long for. */
class Http1Connection extends Timed {
	readonly socket: TLSSocket;
	readonly plane: DataPlane;
	readonly forwardedLines: string;
	readonly #waiting: Http1Request[] = [];
	#current: Http1Request | undefined;
	/** The request to which the next bytes belong if it is not complete yet. */
	#latest: Http1Request | undefined;
	/** No request is taken any more. */
	#closing = false;
	#draining = false;
	/** The bytes behind the last request are no HTTP; told when it has been answered. */
	#garbage: Rejection | undefined;
	/** The latest request is the last one: where it ends, or what follows it, cannot be known. */
	#sealed = false;

	constructor(socket: TLSSocket, peer: string, plane: DataPlane) {
		super();
		this.socket = socket;
		this.plane = plane;
		this.forwardedLines = forwardedLines(peer);
		// What Node calls after the last answer. It would not linger.
		socket.destroySoon = () => this.close();
		plane.deadlines.firstRequest.add(this);
	}

	/** Whether the answer being given is the last one. */
	get isLast(): boolean {
		return (this.#draining || this.#sealed) && this.#waiting.length === 0;
	}

	/** One request at a time: what is pipelined behind it waits its turn, and the gates see it in order. */
	onRequest(req: EdgeRequest, res: EdgeResponse | undefined): void {
		// The rest of the read in which the last request was.
		if (this.#closing || this.#sealed) return;
		if (req.endsParsing) this.#sealed = true;
		const request = new Http1Request(this, req, res);
		this.#latest = request;
		if (this.#current === undefined) return this.#serve(request);
		this.#waiting.push(request);
		if (this.#waiting.length === MAX_WAITING) this.socket.pause();
	}

	onResume(): void {
		if (this.#waiting.length >= MAX_WAITING && !this.#closing) this.socket.pause();
	}

	#serve(request: Http1Request): void {
		this.cancelDeadline();
		this.#current = request;
		request.exchange.start();
	}

	/** The current answer is out. */
	onServed(): void {
		this.#current = undefined;
		if (this.#closing) return;
		const next = this.#waiting.shift();
		if (next !== undefined) {
			if (this.#waiting.length === 0 && this.socket.isPaused()) this.socket.resume();
			return this.#serve(next);
		}
		if (this.#latest?.isComplete) this.#latest = undefined;
		if (this.#sealed) return this.close();
		if (this.#garbage !== undefined) return this.#refuseRaw(this.#garbage);
		this.plane.deadlines.idleClient.add(this);
		// The answer had begun before the drain and did not say that it was the last: the next request may be on its way.
		if (this.#draining) this.#closeAfterGrace();
	}

	/** llhttp gave up, or the connection did. */
	onParseError(error: NodeJS.ErrnoException): void {
		if (this.#closing) return;
		const { socket } = this;
		if (!error.code?.startsWith('HPE_') || !socket.writable) return void socket.destroy();
		const reason = error.code === 'HPE_HEADER_OVERFLOW' ? rejection.HEADERS_TOO_LARGE : rejection.BAD_REQUEST;
		if (this.#latest?.isComplete === false) {
			this.#sealed = true;
			this.#latest.onBodyBroken();
			if (this.#current === undefined) this.close();
		} else if (this.#sealed) {
			return;
		} else if (this.#current === undefined) {
			this.#refuseRaw(reason);
		} else {
			this.#garbage = reason;
		}
	}

	/** An answer for which there is no request object. It is the connection's last. */
	#refuseRaw(answer: Rejection): void {
		const { stats, logAnswer } = this.plane;
		const { status } = answer;
		stats.answered(status);
		const unknown = { method: '', path: '', tenant: undefined, upstream: undefined };
		logAnswer?.({ ...unknown, status, rejection: answer, duration: 0 });
		this.writeRaw(answer);
		this.close();
	}

	writeRaw(answer: Rejection): void {
		const fields = refusalFields(answer);
		let head = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}\r\n`;
		for (let i = 0; i < fields.length; i += 2) head += `${fields[i]}: ${fields[i + 1]}\r\n`;
		this.socket.write(`${head}date: ${new Date().toUTCString()}\r\nconnection: close\r\n\r\n${answer.body}`, 'latin1');
	}

	/** The first request, the next one, or the end of a lingering close has not come in time. */
	override onDeadline(): void {
		this.socket.destroy();
	}

	drain(): void {
		this.#draining = true;
		if (this.#current === undefined) this.#closeAfterGrace();
	}

	#closeAfterGrace(): void {
		const received = this.socket.bytesRead;
		afterDrainGrace(() => {
			if (this.#current !== undefined || this.#closing) return;
			// Part of a head has come: that request is served, or ended by the limit of the drain.
			if (this.socket.bytesRead === received) this.close();
		});
	}

	/**
	 * Closes our side and reads on for a while. Closing both at once would make the kernel answer what the client is
	 * still sending with a reset, which may reach the client before it has read our answer (RFC 9112 section 9.6).
	 */
	close(): void {
		this.#closing = true;
		const { socket } = this;
		socket.end();
		// What still comes is nobody's request; listening for it takes the socket away from Node's parser.
		socket.removeAllListeners('data').on('data', drop).resume();
		this.plane.deadlines.linger.add(this);
	}

	onClose(): void {
		this.#closing = true;
		this.cancelDeadline();
		this.#waiting.length = 0;
		this.#current?.onConnectionClosed();
		this.#current = undefined;
	}
}

function drop(): void {}

/** One request and its answer. */
class Http1Request implements ClientRequest {
	readonly method: string;
	readonly target: string;
	readonly head: RequestHead | Rejection;
	readonly forwardedLines: string;
	readonly exchange: BodyExchange;
	readonly #connection: Http1Connection;
	readonly #req: IncomingMessage;
	/** `undefined` after CONNECT, where Node makes none. */
	readonly #res: EdgeResponse | undefined;
	#readingBody = false;
	#bodyBroken = false;
	#answering = false;
	#done = false;
	/** What is left of a long answer. */
	#rest: Buffer | undefined;

	constructor(connection: Http1Connection, req: IncomingMessage, res: EdgeResponse | undefined) {
		this.#connection = connection;
		this.#req = req;
		this.#res = res;
		this.method = req.method!;
		this.target = originForm(req.url!);
		this.forwardedLines = connection.forwardedLines;
		// llhttp lets other versions pass; what they would mean is nobody's guess (RFC 9112 section 2.3).
		const known = req.httpVersionMajor === 1 && req.httpVersionMinor <= 1;
		this.head = known ? readHttp1Head(req.rawHeaders, req.httpVersionMinor) : rejection.BAD_REQUEST;
		this.exchange = new BodyExchange(this, connection.plane);
		if (res !== undefined) {
			res.request = this;
			res.on('close', onResponseClose);
		}
	}

	/** The client owes no more bytes of this request. */
	get isComplete(): boolean {
		return this.#req.complete;
	}

	/** What comes of the body is no HTTP. */
	onBodyBroken(): void {
		this.#bodyBroken = true;
		if (this.#readingBody && !this.#answering) this.exchange.onBodyError();
	}

	answer(status: number, fields: string[], body: Buffer | string | undefined): void {
		this.#writeHead(status, fields);
		const res = this.#res!;
		if (body === undefined || body.length === 0) res.end();
		// As text it leaves in one write together with the head.
		else if (typeof body === 'string') res.end(body, 'latin1');
		else if (body.length <= ONE_WRITE) res.end(body.toString('latin1'), 'latin1');
		else {
			this.#rest = body;
			res.on('drain', () => {
				this.exchange.onClientDrained();
				this.#pump();
			});
			this.#pump();
		}
	}

	/** In pieces, so that a client that takes its time can be told from one that takes nothing. */
	#pump(): void {
		const res = this.#res!;
		while (this.#rest !== undefined) {
			const piece = this.#rest.subarray(0, PIECE);
			this.#rest = piece.length === this.#rest.length ? undefined : this.#rest.subarray(PIECE);
			if (this.#rest === undefined) res.end(piece);
			else if (!res.write(piece)) return;
		}
	}

	refuse(rejected: Rejection): void {
		if (this.#res === undefined) {
			this.#done = true;
			this.#connection.writeRaw(rejected);
			this.#connection.close();
			this.exchange.onAnswered();
			return;
		}
		const fields = refusalFields(rejected).slice();
		this.#writeHead(rejected.status, fields, rejected.closes);
		this.#res.end(rejected.body, 'latin1');
	}

	begin(status: number, fields: string[], hasBody: boolean): void {
		this.#writeHead(status, fields);
		if (hasBody) this.#res!.on('drain', () => this.exchange.onClientDrained());
	}

	write(chunk: Buffer): boolean {
		return this.#res!.write(Buffer.from(chunk));
	}

	end(): void {
		this.#res!.end();
	}

	reset(): void {
		this.#connection.socket.destroy();
	}

	readBody(): void {
		this.#readingBody = true;
		const req = this.#req;
		const { head, exchange } = this;
		// Only now have the gates before the body passed (RFC 9110 section 10.1.1).
		if (!(head instanceof Rejection) && head.expectsContinue && req.httpVersionMinor === 1) this.#res!.writeContinue();
		req.on('data', (chunk: Buffer) => exchange.onRequestBody(chunk));
		req.on('end', () => exchange.onRequestEnd());
		// The connection's own events tell the same, and in time.
		req.on('error', () => {});
		if (this.#bodyBroken) process.nextTick(() => this.onBodyBroken());
	}

	pauseBody(): void {
		this.#req.pause();
	}

	resumeBody(): void {
		this.#req.resume();
	}

	#writeHead(status: number, fields: string[], closes = false): void {
		this.#answering = true;
		const res = this.#res!;
		if (closes || this.#connection.isLast || this.#leavesTooMuchUnread()) {
			fields.push('connection', 'close');
		}
		// Where there is no body by rule (HEAD, 204, 304), Node knows the same rule and announces no chunks.
		res.writeHead(status, fields as unknown as string[] & Record<string, never>);
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

	/** Node has done with the answer, one way or the other. */
	onResponseClose(): void {
		if (this.#done) return;
		if (!this.#res!.writableFinished) return this.onConnectionClosed();
		this.#done = true;
		this.exchange.onAnswered();
		this.#connection.onServed();
	}

	onConnectionClosed(): void {
		if (this.#done) return;
		this.#done = true;
		this.exchange.onClientGone();
	}
}

function onResponseClose(this: EdgeResponse): void {
	this.request?.onResponseClose();
}

/** Bodies up to this size go out as one write with their head, bytes. */
const ONE_WRITE = 16_384;
const PIECE = 65_536;
/** Unread rest of a request that is not worth closing for, bytes. */
const DROPPED_BODY = 65_536;

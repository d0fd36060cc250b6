import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { BodyExchange } from '#body';
import { type Http2RequestHead, readHttp2Head } from '../gates/headers.ts';
import { Rejection } from '../gates/rejection.ts';
import { forwardedLines, refusalFields } from './answers.ts';
import type { ClientRequest } from './client.ts';
import { ClientConnection } from './client-connection.ts';
import { Timed } from './deadlines.ts';
import { afterDrainGrace } from './drain-grace.ts';
import type { DataPlane } from './plane.ts';
import { useStreamTable } from './stream-table.ts';

/**
 * The HTTP/2 front, on Node's core `stream` API with raw header lists: nghttp2 faces the client. This file adds time
 * limits, pings and drain, and presents each stream to the pipeline as a `ClientRequest`.
 */
export class Http2Front {
	readonly #plane: DataPlane;
	readonly #sessions = new Set<Http2Connection>();
	readonly #options: Parameters<typeof performServerHandshake>[1];
	#draining = false;
	/** Streams that have been opened in this turn of the loop. */
	#opened: Opened[] = [];

	constructor(plane: DataPlane) {
		this.#plane = plane;
		const { limits } = plane;
		this.#options = {
			settings: {
				maxConcurrentStreams: limits.h2MaxConcurrentStreams,
				maxHeaderListSize: limits.maxHeaderBytes,
				enablePush: false,
			},
			// The head's size limits the fields, not their number; each counts 32 bytes (RFC 9113 section 6.5.2).
			maxHeaderListPairs: Math.ceil(limits.maxHeaderBytes / 32) + 8,
			// Compared with an upper bound of the coded size: enough for any head that an upstream may send.
			maxSendHeaderBlockLength: 4 * 65_536,
			// nghttp2 would drop such fields without a word; the gate refuses the request (RFC 9113 section 8.2.1).
			strictFieldWhitespaceValidation: false,
			// An upstream may repeat a field that should be single; it is the client's to judge, not ours to fail on.
			strictSingleValueFields: false,
		};
	}

	/** Takes over a connection whose handshake is done. @param peer the client's IP. */
	accept(socket: TLSSocket, peer: string): void {
		const session = performServerHandshake(socket, this.#options);
		useStreamTable(session);
		const connection = new Http2Connection(session, socket, peer, this.#plane);
		session.on('stream', (stream, _headers, flags, rawHeaders) => {
			stream.on('error', ignore);
			if (this.#opened.push({ connection, stream, flags, rawHeaders: rawHeaders as unknown as string[] }) === 1) {
				setImmediate(this.#serveOpened);
			}
		});
		this.#sessions.add(connection);
		this.#plane.stats.connections('h2', 1);
		session.once('close', () => {
			this.#sessions.delete(connection);
			this.#plane.stats.connections('h2', -1);
			connection.onClose();
		});
		if (this.#draining) connection.drain();
	}

	/**
	 * Serves what has been opened at the end of the loop's turn: whoever opens streams and resets them at once (rapid
	 * reset, CVE-2023-44487) has done both by then, and nobody has gone to an upstream in vain.
	 */
	readonly #serveOpened = (): void => {
		const opened = this.#opened;
		this.#opened = [];
		for (const { connection, stream, flags, rawHeaders } of opened) connection.onStream(stream, flags, rawHeaders);
	};

	/** Tells all clients to open no more streams here; those under way are served. */
	drain(): void {
		this.#draining = true;
		for (const connection of this.#sessions) connection.drain();
	}

	get size(): number {
		return this.#sessions.size;
	}
}

/** A stream, as Node has announced it. */
interface Opened {
	readonly connection: Http2Connection;
	readonly stream: ServerHttp2Stream;
	readonly flags: number;
	readonly rawHeaders: string[];
}

function ignore(): void {}

const { NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

class Http2Connection extends Timed {
	readonly plane: DataPlane;
	readonly forwardedLines: string;
	readonly client: ClientConnection;
	readonly #session: ServerHttp2Session;
	readonly #socket: TLSSocket;
	/** Exchanges under way: streams that the client has reset may still have one for a moment. */
	#exchanges = 0;
	#pinging = false;
	#served = false;
	#draining = false;

	constructor(session: ServerHttp2Session, socket: TLSSocket, peer: string, plane: DataPlane) {
		super();
		this.plane = plane;
		this.forwardedLines = forwardedLines(peer);
		this.client = new ClientConnection(socket, peer, 'h2');
		this.#session = session;
		this.#socket = socket;
		plane.deadlines.firstRequest.add(this);
		// Without a listener an error of one client would end the process. The session closes by itself.
		session.on('error', () => {});
	}

	onStream(stream: ServerHttp2Stream, flags: number, rawHeaders: string[]): void {
		const { plane } = this;
		// Reset since it was opened: nobody waits for anything.
		if (stream.closed) return;
		// A client that opens and resets streams in a row counts with all that have not been cleared away yet.
		if (this.#exchanges >= plane.limits.h2MaxConcurrentStreams) return stream.close(NGHTTP2_REFUSED_STREAM);
		if (!this.#served) {
			this.#served = true;
			plane.deadlines.ping.add(this);
			if (this.#draining) this.#announceEnd();
		}
		this.#exchanges++;
		// A body that has ended since without a byte is none; Node has already told its end.
		const endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0 || stream.readableEnded;
		new Http2Request(this, stream, rawHeaders, endStream).exchange.start();
	}

	onExchangeOver(): void {
		this.#exchanges--;
	}

	/** No first request; or time for a ping; or a ping without answer; or a client that has not hung up after the end. */
	override onDeadline(): void {
		const session = this.#session;
		// Destroying the session would first wait for the client to take what is still to be sent.
		if (!this.#served || this.#pinging || session.destroyed) return void this.#socket.destroy();
		this.#pinging = true;
		this.plane.deadlines.pong.add(this);
		session.ping((error) => {
			// After a GOAWAY no pings are sent; the streams that are left have their own limits.
			if (error !== null && (session.destroyed || !session.closed)) return;
			this.#pinging = false;
			this.plane.deadlines.ping.add(this);
		});
	}

	drain(): void {
		const session = this.#session;
		this.#draining = true;
		// A client that has only just connected is told with its first stream: told before, it could send nothing at all.
		if (this.#served) this.#announceEnd();
		afterDrainGrace(() => {
			if (!session.destroyed) session.close();
		});
	}

	/**
	 * RFC 9113 section 6.8: the GOAWAY names the last stream that is served. A first one that excludes none would be a
	 * promise which cannot be kept: nghttp2 ignores streams that come after a GOAWAY, unless it is a "shutdown notice",
	 * which Node has no call for. So streams that are on their way are disowned, but at once, and may be sent elsewhere.
	 */
	#announceEnd(): void {
		if (!this.#session.destroyed) this.#session.goaway(NGHTTP2_NO_ERROR);
	}

	onClose(): void {
		this.cancelDeadline();
	}
}

class Http2Request implements ClientRequest {
	readonly method: string;
	readonly target: string;
	readonly head: Http2RequestHead | Rejection;
	readonly forwardedLines: string;
	readonly connection: ClientConnection;
	readonly exchange: BodyExchange;
	readonly #connection: Http2Connection;
	readonly #stream: ServerHttp2Stream;
	readonly #hasBody: boolean;
	#answerEnded = false;
	/** What is left of a long answer. */
	#rest: Buffer | undefined;

	constructor(connection: Http2Connection, stream: ServerHttp2Stream, rawHeaders: string[], endStream: boolean) {
		this.#connection = connection;
		this.#stream = stream;
		this.#hasBody = !endStream;
		this.forwardedLines = connection.forwardedLines;
		this.connection = connection.client;
		const { limits, correlate } = connection.plane;
		const head = readHttp2Head(rawHeaders, endStream, limits.maxHeaderBytes, correlate !== undefined);
		this.head = head;
		this.method = head instanceof Rejection ? '' : head.method;
		this.target = head instanceof Rejection ? '' : head.path;
		this.exchange = new BodyExchange(this, connection.plane);
		stream.on('close', () => this.#onClose());
	}

	answer(status: number, fields: string[], body: Buffer | string | undefined): void {
		if (body === undefined || body.length === 0) return this.#respond(status, fields, true);
		this.#respond(status, fields, false);
		if (typeof body === 'string' || body.length <= PIECE) return this.#end(body);
		this.#rest = body;
		this.#stream.on('drain', () => {
			this.exchange.onClientDrained(this.#rest?.length ?? 0);
			this.#pump();
		});
		this.#pump();
	}

	/** In pieces, so that a client that takes its time can be told from one that takes nothing. */
	#pump(): void {
		while (this.#rest !== undefined) {
			const piece = this.#rest.subarray(0, PIECE);
			this.#rest = piece.length === this.#rest.length ? undefined : this.#rest.subarray(PIECE);
			if (this.#rest === undefined) this.#end(piece);
			else if (!this.#stream.write(piece)) return;
		}
	}

	refuse(rejected: Rejection): void {
		const fields = refusalFields(rejected).slice();
		if (this.method === 'HEAD') return this.#respond(rejected.status, fields, true);
		this.#respond(rejected.status, fields, false);
		this.#end(rejected.body);
	}

	begin(status: number, fields: string[], hasBody: boolean): void {
		this.#respond(status, fields, !hasBody);
		if (hasBody) this.#stream.on('drain', () => this.exchange.onClientDrained(0));
	}

	write(chunk: Buffer): boolean {
		return this.#stream.write(Buffer.from(chunk));
	}

	end(): void {
		if (!this.#answerEnded) this.#end();
	}

	/** Closing the stream would end its writable side first, with a frame that makes the answer look whole. */
	reset(): void {
		this.#rest = undefined;
		this.#stream.destroy(BROKEN_OFF);
	}

	readBody(): void {
		const { exchange, head } = this;
		// A body without a byte may have ended since: Node has told that when nobody listened.
		if (this.#stream.readableEnded) return exchange.onRequestEnd();
		if (!(head instanceof Rejection) && head.expectsContinue) this.#stream.additionalHeaders({ ':status': 100 });
		this.#stream.on('data', (chunk: Buffer) => exchange.onRequestBody(chunk));
		this.#stream.on('end', () => {
			// Node ends what it reads of a stream that is reset, too; such a body is not complete.
			if (!this.#stream.closed) exchange.onRequestEnd();
		});
	}

	pauseBody(): void {
		this.#stream.pause();
	}

	resumeBody(): void {
		this.#stream.resume();
	}

	#respond(status: number, fields: string[], endStream: boolean): void {
		if (this.#stream.destroyed || this.#stream.closed) return;
		fields.push(':status', String(status));
		this.#answerEnded = endStream;
		this.#stream.respond(fields as never, endStream ? END_STREAM : undefined);
		if (endStream) this.#dropRest();
	}

	#end(bytes?: Buffer | string): void {
		this.#answerEnded = true;
		if (bytes === undefined) this.#stream.end();
		else this.#stream.end(bytes, 'latin1');
		this.#dropRest();
	}

	/** RFC 9113 section 8.1: after a whole answer, the rest of the request is asked to stay away without an error. */
	#dropRest(): void {
		if (!this.#hasBody || this.#stream.readableEnded) return;
		this.#stream.resume();
		this.#stream.once('finish', () => {
			if (!this.#stream.readableEnded) this.#stream.close(NGHTTP2_NO_ERROR);
		});
	}

	#onClose(): void {
		this.#connection.onExchangeOver();
		// Not `writableFinished`: of a request with a body Node closes the stream before it says that the answer is written.
		if (this.#answerEnded && this.#stream.rstCode === NGHTTP2_NO_ERROR) {
			this.exchange.onAnswered();
		} else {
			this.exchange.onClientGone();
		}
	}
}

/** Has Node reset the stream with INTERNAL_ERROR. */
const BROKEN_OFF = new Error('the answer broke off');
const END_STREAM = { endStream: true };
const PIECE = 65_536;

/**
 * The bad upstream over HTTP/2, in clear text or over TLS. node:http2 parses what the proxy sends and sends what a good server sends; other
 * frames are written next to it. Requests of many clients share a connection, so the ledger learns which streams lost their connection:
 * no other request may notice.
 */
import {
	type IncomingHttpHeaders,
	performServerHandshake,
	type ServerHttp2Session,
	type ServerHttp2Stream,
} from 'node:http2';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { abortStream } from '../fixtures/abort-stream.ts';
import { ERROR_CODE, FLAG, FRAME, FrameReader, goawayFrame, PREFACE } from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import type { Changes } from '../fixtures/wait.ts';
import { BreakerRest, type FaultLane } from './fault-lane.ts';
import type { Http2Act, Http2Kind } from './http2-fault-kinds.ts';
import { type Entry, type Ledger, nameOf } from './ledger.ts';
import { answerHead, answerTrailers, faultOfUpload, replyBody, UPLOAD_TRAILER } from './plan.ts';

export interface Http2LaneOptions {
	/** Kinds that end connections are played here. */
	readonly isRough: boolean;
	readonly overTls: boolean;
	/** SETTINGS_INITIAL_WINDOW_SIZE, bytes. */
	readonly window: number;
	/** SETTINGS_MAX_CONCURRENT_STREAMS. */
	readonly streams: number;
}

export class Http2Lane implements FaultLane {
	readonly prefix: string;
	readonly rest: BreakerRest;
	readonly options: Http2LaneOptions;
	readonly #sockets = new Set<Socket>();
	readonly #server: Server;
	#caPath = '';

	private constructor(
		number: number,
		ledger: Ledger,
		changes: Changes,
		options: Http2LaneOptions,
		server: Server,
		secureContext: SecureContext | undefined,
	) {
		this.prefix = `/stream-lane-${number}`;
		this.rest = new BreakerRest(changes);
		this.options = options;
		this.#server = server;
		server.on('connection', (socket: Socket) => {
			this.#sockets.add(socket);
			socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
			const begin = (stream: Duplex) => new LaneConnection(stream, socket, options, ledger, () => this.rest.onProbe());
			if (secureContext === undefined) begin(socket);
			else overTls(socket, secureContext, begin);
		});
	}

	/** @param changes notified when the lane may have become usable. */
	static async start(number: number, ledger: Ledger, changes: Changes, options: Http2LaneOptions): Promise<Http2Lane> {
		const { server: credentials, caPath } = await testPki();
		const { certPem: cert, keyPem: key } = credentials;
		const secureContext = options.overTls ? createSecureContext({ cert, key }) : undefined;
		const server = createServer({ noDelay: true });
		const lane = new Http2Lane(number, ledger, changes, options, server, secureContext);
		lane.#caPath = caPath;
		await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 1024 }, resolve));
		return lane;
	}

	get #authority(): string {
		return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
	}

	get route(): FaultLane['route'] {
		const { prefix } = this;
		return { prefix, upstream: this.options.overTls ? this.#name : `h2c://${this.#authority}` };
	}

	get upstream(): FaultLane['upstream'] {
		if (!this.options.overTls) return undefined;
		return { name: this.#name, addresses: [this.#authority], protocol: 'h2', tls: { ca_path: this.#caPath } };
	}

	get #name(): string {
		return this.prefix.slice(1);
	}

	get isUsable(): boolean {
		return this.rest.isOver;
	}

	async stop(): Promise<void> {
		this.#server.close();
		for (const socket of this.#sockets) socket.destroy();
	}
}

function overTls(socket: Socket, secureContext: SecureContext, begin: (secure: Duplex) => void): void {
	const secure = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['h2'] });
	secure.on('error', () => socket.destroy());
	secure.once('secure', () => begin(secure));
}

class LaneConnection {
	/** The TCP socket below TLS. */
	readonly #socket: Socket;
	readonly #stream: Duplex;
	/** node:http2's side of the connection. Our own frames go between its frames. */
	readonly #inner: Duplex;
	readonly #session: ServerHttp2Session;
	readonly #ledger: Ledger;
	readonly #onProbe: () => void;
	/** The last streams. What was sent to them may still be lost. */
	readonly #requests = new Map<ServerHttp2Stream, Entry>();
	#newest = 0;
	/** Streams after this one are not processed (GOAWAY). */
	#last = Number.POSITIVE_INFINITY;
	readonly #outgoing = new FrameReader();
	/** Streams whose response head has left, interim or final. */
	readonly #begun = new Set<number>();
	/** Pending waits for that, or for the end of a response. */
	readonly #onBegun = new Map<number, () => void>();
	readonly #onEnded = new Map<number, () => void>();
	/** The connection is ending; later requests on it get nothing. */
	#isRuined = false;

	constructor(
		stream: Duplex,
		socket: Socket,
		{ window, streams }: Http2LaneOptions,
		ledger: Ledger,
		onProbe: () => void,
	) {
		this.#stream = stream;
		this.#socket = socket;
		this.#ledger = ledger;
		this.#onProbe = onProbe;
		const [inner, outer] = duplexPair();
		this.#inner = inner;
		outer.pipe(stream);
		outer.on('data', (bytes: Buffer) => this.#watch(bytes));
		this.#forward(stream, outer);
		outer.on('error', () => {});
		inner.on('error', () => {});
		socket.once('close', () => inner.destroy());
		const settings = { initialWindowSize: window, maxConcurrentStreams: streams };
		this.#session = performServerHandshake(inner, { settings });
		this.#session.on('close', () => socket.destroy());
		// node:http2 checks what the proxy sends.
		this.#session.on('error', (error) => {
			if (!this.#isRuined) ledger.violate(`node:http2 has ended a connection: ${error.message}`);
		});
		this.#session.on('stream', (stream, headers) => void this.#serve(stream as ServerHttp2Stream, headers));
	}

	/** Sent bytes, including our own frames. */
	#watch(bytes: Buffer): void {
		for (const { type, flags, streamId } of this.#outgoing.push(bytes)) {
			if (type !== FRAME.HEADERS && type !== FRAME.DATA) continue;
			this.#begun.add(streamId);
			this.#onBegun.get(streamId)?.();
			if ((flags & FLAG.END_STREAM) !== 0) this.#onEnded.get(streamId)?.();
		}
	}

	/**
	 * Forwards what the proxy sends, except for a GOAWAY before the proxy ends the connection. After one, node:http2 would end its side, write
	 * resets after that, and crash on an assertion (Node 26, on a stream that is not a socket).
	 */
	#forward(stream: Duplex, outer: Duplex): void {
		const frames = new FrameReader();
		let preface = PREFACE.length;
		let isOver = false;
		stream.on('data', (bytes: Buffer) => {
			if (isOver) return;
			const behind = bytes.subarray(preface);
			preface = Math.max(0, preface - bytes.length);
			isOver = frames.push(behind).some(({ type }) => type === FRAME.GOAWAY);
			if (isOver) this.#socket.destroy();
			else if (!outer.write(bytes)) stream.pause();
		});
		outer.on('drain', () => stream.resume());
		stream.on('end', () => this.#socket.destroy());
	}

	async #serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
		stream.on('error', () => {});
		if (headers[':path'] === '/health') {
			stream.respond({ ':status': 204 }, { endStream: true });
			return this.#onProbe();
		}
		// The proxy knows that this stream is not processed, and may have sent the request again already.
		if (stream.id! > this.#last) return abortStream(stream, ERROR_CODE.CANCEL);
		this.#newest = Math.max(this.#newest, stream.id!);
		const entry = this.#identify(headers);
		if (entry === undefined) return void stream.close(ERROR_CODE.INTERNAL_ERROR);
		// Too late: the client has its outcome.
		if (entry.settled) return void stream.close(ERROR_CODE.CANCEL);
		this.#ledger.deliveredOnStream(entry);
		if (this.#isRuined) hit(entry, true);
		if (this.#requests.size > MOST_REMEMBERED) this.#requests.delete(this.#requests.keys().next().value!);
		this.#requests.set(stream, entry);
		const closed = new Promise<void>((resolve) => stream.once('close', resolve));
		const kind = entry.plan.kind as Http2Kind;
		const early = kind.early ? this.#play(entry, stream, closed) : undefined;
		if (kind.leavesUpload || (await this.#takesUpload(stream, entry)))
			await (early ?? this.#play(entry, stream, closed));
	}

	/** Finds the request's entry, and checks that all its identifiers agree. */
	#identify(headers: IncomingHttpHeaders): Entry | undefined {
		const entry = this.#ledger.find(headers['x-request-id'] as string | undefined);
		if (entry === undefined) {
			this.#ledger.violate(`a request that nobody has sent: ${JSON.stringify(headers)}`);
			return undefined;
		}
		const { plan } = entry;
		const seen = `${headers[':method']} ${headers[':path']} for ${headers['x-proxy-tenant']}`;
		const expected = new RegExp(`^${plan.method} /stream-lane-\\d+/${plan.id} for ${plan.tenant}$`);
		if (!expected.test(seen)) this.#ledger.violate(`${nameOf(plan)} arrived as ${seen}`);
		return entry;
	}

	/** @returns false if the body was cut. */
	async #takesUpload(stream: ServerHttp2Stream, { plan }: Entry): Promise<boolean> {
		const pieces: Buffer[] = [];
		let trailer: string | undefined;
		stream.on('trailers', (trailers) => {
			trailer = trailers[UPLOAD_TRAILER] as string | undefined;
		});
		stream.on('data', (piece: Buffer) => pieces.push(piece));
		const isWhole = await new Promise<boolean>((resolve) => {
			stream.once('end', () => resolve(!stream.aborted && stream.rstCode === 0));
			stream.once('close', () => resolve(false));
		});
		if (!isWhole) return false;
		const body = Buffer.concat(pieces);
		// A client with a complete response need not send the rest. node:http2 cannot tell that from the body's end (RFC 9113 section 8.1).
		if (plan.kind.early && body.length < plan.uploadLength!) return true;
		const fault = faultOfUpload(plan, body, trailer);
		if (fault !== undefined) this.#ledger.violate(`${nameOf(plan)} arrived with ${fault}`);
		else this.#ledger.checkedBytes += body.length;
		return true;
	}

	async #play(entry: Entry, stream: ServerHttp2Stream, closed: Promise<void>): Promise<void> {
		// The proxy knows that this stream is not processed, or its client has left.
		if (stream.closed || stream.destroyed) return;
		const kind = entry.plan.kind as Http2Kind;
		const act = this.#actOf(entry, stream, closed);
		entry.played = true;
		if (entry.deliveries > 1 && kind.fate !== 'refused') {
			// A second failure would prove nothing: this attempt is served.
			entry.repeated = true;
			void act.head();
			return await act.finish();
		}
		await kind.play(act);
	}

	#actOf(entry: Entry, stream: ServerHttp2Stream, closed: Promise<void>): Http2Act {
		const { plan } = entry;
		const body = replyBody(plan);
		const trailers = answerTrailers(plan);
		const isOver = () => stream.destroyed || stream.closed;
		let sent = 0;
		const write = (to: number) => {
			const piece = body!.subarray(sent, to);
			sent = Math.max(sent, to);
			return new Promise<void>((resolve) => {
				if (isOver() || piece.length === 0) resolve();
				else stream.write(piece, () => resolve());
			});
		};
		return {
			random: plan.random,
			framing: plan.framing,
			stream,
			id: stream.id!,
			newest: this.#newest,
			length: body?.length ?? 0,
			delivery: entry.deliveries,
			closed,
			head: async (declared = body?.length) => {
				if (isOver()) return;
				const lines = Object.fromEntries(answerHead(plan).map(([name, value]) => [name.toLowerCase(), value]));
				const length = plan.framing === 'length' && declared !== undefined ? { 'content-length': declared } : {};
				stream.on('wantTrailers', () => stream.sendTrailers(trailers!));
				stream.respond(
					{ ':status': plan.status, ...lines, ...length },
					{ endStream: body === undefined, waitForTrailers: body !== undefined && trailers !== undefined },
				);
				const begun = new Promise<void>((resolve) => this.#onBegun.set(stream.id!, resolve));
				await Promise.race([closed, begun]);
				this.#onBegun.delete(stream.id!);
			},
			body: write,
			finish: async () => {
				if (body === undefined || isOver()) return;
				void write(body.length);
				const ended = new Promise<void>((resolve) => this.#onEnded.set(stream.id!, resolve));
				stream.end();
				await Promise.race([ended, closed]);
				this.#onEnded.delete(stream.id!);
			},
			reset: (code) => abortStream(stream, code),
			refuse: () => {
				entry.undone++;
				abortStream(stream, ERROR_CODE.REFUSED_STREAM);
			},
			interim: () => {
				if (!isOver()) stream.additionalHeaders({ ':status': 103, 'x-answer-to': 'interim' });
			},
			inject: (...frames) => void this.#inner.write(Buffer.concat(frames)),
			ruin: (...frames) => {
				this.#ruin();
				this.#inner.write(Buffer.concat(frames));
			},
			cut: (how) => this.#cut(how),
			goAway: (last, code = ERROR_CODE.NO_ERROR) => this.#goAway(last, code),
			resettle: (window) => {
				if (!this.#session.destroyed) this.#session.settings({ initialWindowSize: window });
			},
			ping: () => {
				if (!this.#session.destroyed) this.#session.ping(() => {});
			},
		};
	}

	/**
	 * Reports the open streams: they may be lost, and a request without any response byte may be sent again if that is safe.
	 *
	 * @param losesHeads heads that have left may not arrive.
	 */
	#ruin(losesHeads = false): void {
		if (this.#isRuined && !losesHeads) return;
		this.#isRuined = true;
		for (const [stream, entry] of this.#requests) hit(entry, losesHeads || !this.#begun.has(stream.id!));
	}

	#cut(how: 'end' | 'reset'): void {
		this.#ruin(how === 'reset');
		// After everything that was written.
		setImmediate(() => {
			if (how === 'end') this.#stream.end(() => this.#socket.destroySoon());
			// Node neither resets nor closes a socket that is being shut down.
			else if (this.#stream.writableEnded) this.#socket.destroy();
			else this.#socket.resetAndDestroy();
		});
	}

	#goAway(last: number, code: number): void {
		this.#last = Math.min(this.#last, last);
		this.#inner.write(goawayFrame(Math.min(this.#last, 2 ** 31 - 1), code));
		for (const [stream, entry] of this.#requests) {
			if (stream.id! <= this.#last) continue;
			entry.isHit ||= this.#begun.has(stream.id!) || (entry.played && entry.plan.kind.fate !== 'refused');
			entry.undone++;
			this.#requests.delete(stream);
			abortStream(stream, ERROR_CODE.CANCEL);
		}
	}
}

/** @param isUnseen nothing of a response arrives. */
function hit(entry: Entry, isUnseen: boolean): void {
	entry.isHit = true;
	const { method } = entry.plan;
	if (isUnseen && (method === 'GET' || method === 'HEAD')) entry.undone++;
}

/** More than are ever in flight. */
const MOST_REMEMBERED = 500;

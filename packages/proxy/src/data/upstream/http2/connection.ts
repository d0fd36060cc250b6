import type { Socket } from 'node:net';
import { connectionCause, refusesOurCertificate } from '@mtls-edge-proxy/gate/words/causes.ts';
import { READ_BUFFER } from '#read-buffer';
import { type ClientEvents, ClientProtocol } from '../../../http2/client/client-protocol.ts';
import { ConnectionError } from '../../../http2/errors.ts';
import { CODE } from '../../../http2/frame-format.ts';
import { listSizeOf } from '../../../http2/hpack-encoder.ts';
import { SLABS } from '../../../shared/slabs.ts';
import { TICK_MS, Timed } from '../../loop/deadlines.ts';
import { endOwner, guarded, listen } from '../../loop/faults.ts';
import { PacedReads, type ReadSink } from '../../loop/paced-reads.ts';
import { ConnectionShare } from '../../loop/read-share.ts';
import type { Flushed } from '../../loop/turn-end.ts';
import { schemeField } from '../../memo/outgoing-block.ts';
import { NO_CONNECT, STALE, UNCONNECTED, type UpstreamFailure } from '../contract.ts';
import type { Dial } from '../dial.ts';
import type { Endpoint } from '../endpoint.ts';
import type { Transport } from '../transport.ts';
import { Liveness } from './liveness.ts';
import type { Http2Pool } from './pool.ts';
import { Http2UpstreamRequest } from './request.ts';

/**
 * One HTTP/2 connection to an upstream: the socket below its `ClientProtocol`. Requests of all tenants share it. All output of a turn
 * of the loop goes out in one write at its end.
 */
export class Http2UpstreamConnection extends Timed implements ClientEvents, Flushed, ReadSink {
	/** Requests sent so far. */
	requests = 0;
	/** Reads so far. */
	reads = 0;
	/** Writes so far, one for each turn of the loop. */
	writes = 0;
	/** `ticks` at the last read, or at the beginning. */
	heardAt: number;
	readonly endpoint: Endpoint;
	/** The transport that made the connection. */
	readonly transport: Transport;
	readonly protocol: ClientProtocol;
	/** Coded `:scheme`. */
	readonly scheme: string;
	readonly #pool: Http2Pool;
	readonly #socket: Socket;
	readonly #share: ConnectionShare;
	readonly #reads: PacedReads;
	readonly #liveness: Liveness;
	#isGone = false;
	#isIdle = false;
	#hasLeft = false;
	/** A request was given up there in silence, and nothing has come since: it may be lost. */
	#isDoubted = false;
	/** Time that connecting took: at least one round trip, ms. */
	readonly #connectMs: number;
	/** WebSockets that wait for the upstream's SETTINGS; they count as requests under way. */
	readonly #ungreeted: Http2UpstreamRequest[] = [];

	/** @param untoldStreams limit of concurrent requests until the upstream's SETTINGS arrive. */
	constructor(endpoint: Endpoint, pool: Http2Pool, dial: Dial, untoldStreams: number) {
		super();
		this.endpoint = endpoint;
		this.#pool = pool;
		this.heardAt = endpoint.deadlines.ticks;
		const { transport, connectMs } = dial;
		this.transport = transport;
		this.#connectMs = connectMs;
		this.scheme = schemeField(transport.context !== undefined);
		this.#share = new ConnectionShare(endpoint.share);
		this.protocol = new ClientProtocol(this, { ...LIMITS, untoldStreams }, this.#share);
		this.#liveness = new Liveness(this, endpoint.deadlines);
		const socket = dial.handOver({ buffer: () => READ_BUFFER, callback: (length) => this.#onRead(length) });
		this.#socket = socket;
		this.#reads = new PacedReads(socket, this.#share, endpoint.reads, this);
		const onEof = () => this.#ends((request) => this.#closedFailure(request));
		listen(socket, this, {
			drain: () => this.#onDrain(),
			error: (error: NodeJS.ErrnoException) => this.#ends((request) => this.#failureOf(error, request)),
			end: onEof,
			close: onEof,
		});
		this.protocol.begin();
	}

	/** Requests under way. */
	get size(): number {
		return this.protocol.streams.size + this.#ungreeted.length;
	}

	/** Whether it takes another request. */
	get hasRoom(): boolean {
		return !this.#hasLeft && this.protocol.streams.hasRoom && this.hasRoomFor(1) && !this.#isFull();
	}

	/** Whether that many more requests are within the limit of streams. */
	hasRoomFor(requests: number): boolean {
		return this.size + requests <= this.protocol.streams.maxStreams;
	}

	/** Heads are sent whatever waits before them, so if the upstream does not read, further requests are held back. */
	#isFull(): boolean {
		const { output } = this.protocol;
		return (output.isBlocked ? output.bytes + this.#socket.writableLength : output.bytes) > MAX_UNSENT;
	}

	/** Whether it carries so much that another connection should be made. */
	get isBusy(): boolean {
		return this.size >= this.protocol.streams.maxStreams * COMFORT || this.isStalled;
	}

	/** Whether a request should use another connection, even if it has to wait for one. */
	get isStalled(): boolean {
		return this.protocol.output.isBlocked || this.isStarved;
	}

	/** Whether bodies wait for a reader that may never read, or the connection may be dead. Over long distances windows open later. */
	get isStarved(): boolean {
		return this.#isDoubted || this.protocol.isStarved(this.endpoint.deadlines.now - 2 * this.#connectMs);
	}

	/** The connection cannot have ended unnoticed: it is unused, or something has just been read from it. */
	get isProven(): boolean {
		return this.requests === 0 || this.endpoint.deadlines.ticks - this.heardAt <= PROVEN_TICKS;
	}

	/** The requests that waited for it have been sent. */
	begun(): void {
		if (this.size === 0) this.#becomeIdle();
	}

	// --- Requests. ---

	request(): Http2UpstreamRequest {
		return new Http2UpstreamRequest(this);
	}

	/** For requests: called just before the request is sent. */
	sends(request: Http2UpstreamRequest): void {
		if (this.#isIdle) {
			this.#isIdle = false;
			this.cancelDeadline();
			this.#pool.whenBusy();
		}
		this.requests++;
		request.readsBefore = this.reads;
		request.sentAtTick = this.endpoint.deadlines.ticks;
		this.endpoint.stats.streams(1);
		this.#liveness.watch();
	}

	/** @param block coded. @returns why the head cannot be sent; `undefined`: it can. */
	refusesHead(block: string): UpstreamFailure | undefined {
		const { maxHeaderList } = this.protocol.settings;
		// A byte of a block stands for at most sixty bytes of the list.
		if (block.length * 60 <= maxHeaderList || listSizeOf(block) <= maxHeaderList) return undefined;
		const cause = `the upstream accepts heads of at most ${maxHeaderList} bytes (SETTINGS_MAX_HEADER_LIST_SIZE)`;
		return { kind: 'oversized', cause };
	}

	/** Like `refusesHead`, for an extended CONNECT, once the upstream's SETTINGS are there (RFC 8441 section 3). */
	refusesConnect(block: string): UpstreamFailure | undefined {
		if (!this.protocol.settings.takesConnect) return NO_CONNECT;
		return this.protocol.streams.hasRoom ? this.refusesHead(block) : NO_STREAM;
	}

	/** For extended CONNECT requests: has `onGreeted` called when the SETTINGS are there. */
	awaitSettings(request: Http2UpstreamRequest): void {
		this.#ungreeted.push(request);
	}

	/** Notifies a request that it was not sent, after the call that sends it has returned. */
	failLater(request: Http2UpstreamRequest, failure: UpstreamFailure): void {
		setImmediate(() => {
			request.failing(failure);
			request.failed(failure);
		});
	}

	/** For requests: the request is no longer wanted. */
	cancel(request: Http2UpstreamRequest): void {
		if (request.isClosed) return;
		// A PING would tell, but may hardly ever be sent. Over HTTP/1.1 a request that is given up takes its connection with it.
		const ticks = this.endpoint.deadlines.ticks - request.sentAtTick;
		if (request.readsBefore === this.reads && ticks >= SILENT_TICKS) this.#isDoubted = true;
		if (request.id === 0) return this.#forgetUngreeted(request);
		this.protocol.streams.cancel(request);
	}

	#forgetUngreeted(request: Http2UpstreamRequest): void {
		const at = this.#ungreeted.indexOf(request);
		if (at === -1) return;
		this.#ungreeted.splice(at, 1);
		this.onStreamEnd();
	}

	// --- Events of the protocol. ---

	onOutput(): void {
		this.endpoint.writing.add(this);
	}

	onSettings(): void {
		this.#pool.onLimit(this, this.protocol.streams.maxStreams);
		for (let next = this.#ungreeted.shift(); next !== undefined; next = this.#ungreeted.shift()) next.onGreeted();
	}

	onGoaway(): void {
		this.#leave();
	}

	onPong(): void {
		this.#liveness.onPong();
	}

	onLent(): void {
		this.endpoint.reads.lends(this.#share);
	}

	onStreamEnd(): void {
		this.#countsNoMore();
		try {
			this.#hasFewer();
		} catch (error) {
			// The request of this stream has yet to be told of its end.
			endOwner(this, error);
		}
	}

	#hasFewer(): void {
		const { isGoingAway, resets } = this.protocol.streams;
		const isLost = this.#isDoubted && this.size === 0;
		// Servers end connections with many resets (CVE-2023-44487), which would end the requests of all tenants.
		if (isGoingAway || isLost || resets >= MAX_RESETS || this.#pool.isOwed()) this.#leave();
		if (this.size === 0 && !this.#isGone) this.#becomeIdle();
	}

	#countsNoMore(): void {
		this.endpoint.stats.streams(-1);
	}

	#becomeIdle(): void {
		this.#liveness.cancelDeadline();
		if (this.#isIdle) return;
		this.#isIdle = true;
		if (!this.#pool.whenIdle(this) || this.#hasLeft) this.#closeLater();
	}

	/** Takes no more requests, and ends after the last one. */
	#leave(): void {
		if (this.#hasLeft) return;
		this.#hasLeft = true;
		this.protocol.streams.isGoingAway = true;
		this.#pool.leave(this);
		if (this.size === 0 && !this.#isGone) this.#closeLater();
	}

	/** For the pool: the connection takes no more requests. */
	retire(): void {
		this.#leave();
	}

	/** Deferred: the connection may become busy again in this turn. */
	#closeLater(): void {
		setImmediate(guarded(this, () => this.closeIfIdle()));
	}

	closeIfIdle(): void {
		// Its last request may ask for this twice. A second end would cut the close_notify of the first one off.
		if (!this.#isGone && this.size === 0 && (this.#hasLeft || this.#isIdle)) this.close();
	}

	// --- Reading and writing. ---

	/** Bytes count as heard when they arrive: they may wait for tokens. @returns whether the socket may read on. */
	#onRead(length: number): boolean {
		this.reads++;
		this.heardAt = this.endpoint.deadlines.ticks;
		this.#isDoubted = false;
		this.protocol.onRead(this.#reads.isHolding);
		return this.#reads.callback(length);
	}

	/** For `PacedReads`. */
	onData(bytes: Buffer): number {
		if (this.#isGone) return bytes.length;
		try {
			return this.protocol.receive(bytes, this.endpoint.deadlines.now);
		} catch (error) {
			if (error instanceof ConnectionError) this.#onProtocolError(error, bytes);
			else this.onFault(error);
			return bytes.length;
		}
	}

	/** For `PacedReads`. */
	onDelayed(): void {
		this.endpoint.reportDelay();
	}

	/** The upstream has broken the protocol, which ends the connection. */
	#onProtocolError({ code, message }: ConnectionError, bytes: Buffer): void {
		const isHttp1 = !this.protocol.isGreeted && bytes.toString('latin1', 0, 7) === 'HTTP/1.';
		const cause = isHttp1 ? SPEAKS_HTTP1 : `HTTP/2: ${message}`;
		this.#end(code, () => ({ kind: 'malformed', cause }));
	}

	/** Writes the output of this turn of the loop. */
	flush(): void {
		const { output } = this.protocol;
		const socket = this.#socket;
		if (this.#isGone || socket.destroyed || output.bytes === 0) return;
		this.protocol.sends(this.endpoint.deadlines.now);
		this.writes++;
		const taken = output.take();
		const mayGoOn =
			typeof taken === 'string'
				? socket.write(taken, 'latin1')
				: socket.write(taken.bytes, (error) => {
						if (!error) SLABS.release(taken.slab);
					});
		if (mayGoOn) {
			this.protocol.acknowledged = 0;
			return output.pump();
		}
		output.isBlocked = true;
		// Bodies wait for `drain`, and so do requests beyond a bound. Acknowledgements are caused by the upstream.
		const { acknowledged, streams } = this.protocol;
		if (acknowledged > MAX_UNREAD && !streams.isOver) this.#end(CODE.ENHANCE_YOUR_CALM, () => UNREAD);
	}

	#onDrain(): void {
		const { protocol } = this;
		protocol.acknowledged = 0;
		protocol.output.isBlocked = false;
		protocol.output.pump();
		// Requests may have waited for this.
		this.#pool.freed();
	}

	// --- It ends. ---

	/** The connection has been idle for too long. */
	override onDeadline(): void {
		if (this.size === 0) this.close();
	}

	/** No byte has come for a long time, though a ping was sent. */
	onSilence(): void {
		const cause = 'no answer to a PING';
		this.#end(CODE.NO_ERROR, (request) => ({ kind: request.hasHead ? 'broken' : 'unanswered', cause }));
	}

	/** Ends it; nothing is under way. */
	close(): void {
		this.#end(CODE.NO_ERROR, () => UNCONNECTED);
	}

	/** Our code has thrown in a callback of the socket. */
	override onFault(error: unknown): void {
		this.endpoint.log.error('proxy::exchange', 'internal error', { error });
		for (const request of this.#goes(CODE.INTERNAL_ERROR)) request.fault(error);
	}

	/** The socket has ended. What it brought before that is read first: it may have responses, or say what was not processed. */
	#ends(failureOf: (request: Http2UpstreamRequest) => UpstreamFailure): void {
		if (this.#reads.isHolding) {
			// A request that the upstream refuses there is sent again at once, and must not come back here.
			this.#leave();
			this.#reads.giveHeld();
		}
		this.#end(CODE.NO_ERROR, failureOf);
	}

	#end(code: number, failureOf: (request: Http2UpstreamRequest) => UpstreamFailure): void {
		if (this.#isGone) return void this.#socket.destroy();
		const open = this.#endProtocol(code);
		const failures = open.map(failureOf);
		// Before another request can take the connection's place: a breaker that this failure opens must be open by then.
		for (const [i, request] of open.entries()) request.failing(failures[i]!);
		this.#goes(code);
		for (const [i, request] of open.entries()) {
			this.#countsNoMore();
			request.failed(failures[i]!);
		}
	}

	/** @returns requests that have not been told. */
	#endProtocol(code: number): Http2UpstreamRequest[] {
		return [...(this.protocol.streams.end(code) as Http2UpstreamRequest[]), ...this.#ungreeted.splice(0)];
	}

	/** @returns requests that have not been told. */
	#goes(code: number): Http2UpstreamRequest[] {
		const open = this.#endProtocol(code);
		for (const _ of open) this.#countsNoMore();
		this.flush();
		this.#isGone = true;
		this.cancelDeadline();
		this.#liveness.cancelDeadline();
		this.protocol.output.clear();
		this.#reads.pause();
		this.#share.leave();
		this.#pool.forget(this);
		// Over TLS, Node reports the end of this turn's writes in the next one.
		this.transport.close(this.#socket, true);
		return open;
	}

	/** For the pool: whether the connection is idle. */
	get isIdle(): boolean {
		return this.#isIdle;
	}

	#closedFailure(request: Http2UpstreamRequest): UpstreamFailure {
		if (this.#isStale(request)) return STALE;
		return { kind: request.hasHead ? 'broken' : 'unanswered', cause: `closed ${request.place}` };
	}

	#failureOf(error: NodeJS.ErrnoException, request: Http2UpstreamRequest): UpstreamFailure {
		const cause = connectionCause(error);
		// In TLS 1.3 the upstream refuses our certificate only after our half of the handshake, instead of reading the request.
		if (!this.protocol.isGreeted && refusesOurCertificate(error)) return { kind: 'unreachable', cause };
		if (this.#isStale(request)) return STALE;
		if (!request.hasHead) return { kind: 'unanswered', cause };
		return { kind: 'broken', cause: `${cause} ${request.place}` };
	}

	/** Whether the connection had ended before the request came, as with HTTP/1.1: that shows within a round trip. */
	#isStale({ hasHead, readsBefore, sentAtTick, turns }: Http2UpstreamRequest): boolean {
		// The kernel may have had the response.
		if (this.#reads.isWaiting) return false;
		if (readsBefore === 0 || this.requests === 1 || hasHead || this.reads !== readsBefore || turns > 2) return false;
		return this.endpoint.deadlines.ticks - sentAtTick <= 1 + (2 * this.#connectMs) / TICK_MS;
	}
}

/**
 * As many streams as most servers take, and windows large enough for the rate of a local network: clients that do not read can make a
 * connection hold at most 8 MiB. Heads may be as long as over HTTP/1.1.
 */
const LIMITS = { maxStreams: 128, window: 65_535, maxHeaderBytes: 65_536 };
/** Share of its streams in use from which a second connection is made. */
const COMFORT = 0.75;
/** Some servers allow a thousand resets at once and 33 more per second. */
const MAX_RESETS = 400;
/** A second. */
const PROVEN_TICKS = 20;
/** Half a second: a request that gives up earlier has not waited long enough to prove anything. */
const SILENT_TICKS = 10;
/** Bytes waiting for the connection, or for an upstream that does not read, from which no request is added. */
const MAX_UNSENT = 262_144;
/** The same limit for acknowledgements to an upstream that causes them and does not read. */
const MAX_UNREAD = 262_144;

const NO_STREAM: UpstreamFailure = { kind: 'refused', cause: 'not sent: the upstream accepts no more streams' };
const SPEAKS_HTTP1 = 'it speaks HTTP/1.1 on this port: remove protocol = "h2", or h2c://';
const UNREAD: UpstreamFailure = {
	kind: 'malformed',
	cause: 'HTTP/2: it does not read the acknowledgements of its frames',
};

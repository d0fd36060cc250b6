import type { TLSSocket } from 'node:tls';
import { BAD_REQUEST } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { ConnectionError, streamErrorReason } from '../../http2/errors.ts';
import { CODE } from '../../http2/frame-format.ts';
import { COSTS } from '../../http2/peer-budget.ts';
import type { Http2StreamErrorReason } from '../../memory/worker-stats.ts';
import { SLABS } from '../../shared/slabs.ts';
import { ClientConnection } from '../client/client-connection.ts';
import type { Admitted, LiveConnection } from '../listener/connection-ends.ts';
import { type DeadlineQueue, Timed } from '../loop/deadlines.ts';
import { afterDrainGrace } from '../loop/drain-grace.ts';
import { guarded } from '../loop/faults.ts';
import { PacedReads, type ReadSink } from '../loop/paced-reads.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import type { DataPlane } from '../plane/plane.ts';
import { reportDelay } from '../records/delay-report.ts';
import type { TunnelClose } from '../tunnel/tunnel.ts';
import { Protocol, type ProtocolEvents } from './protocol.ts';
import { Http2Request, type RequestOwner } from './request.ts';
import type { RequestFacts } from './request-fields.ts';
import type { Stream } from './stream.ts';

/** The front, as its connections see it. */
export interface ConnectionOwner {
	readonly plane: DataPlane;
	readonly log: RateLimitedLog;
	/** Has `exchange.start` called at the end of the loop's turn. */
	whenTurnEnds(request: Http2Request): void;
	/** Has `flush` called at the end of the loop's turn. */
	flushLater(connection: Http2Connection): void;
}

/**
 * One HTTP/2 connection: the socket below its `Protocol`, and its time limits. All output of a turn of the loop
 * goes out in one write at its end.
 */
export class Http2Connection extends Timed implements LiveConnection, ProtocolEvents, RequestOwner, ReadSink {
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	endsAt = Number.POSITIVE_INFINITY;
	admitted: Admitted | undefined;
	readonly #owner: ConnectionOwner;
	readonly socket: TLSSocket;
	readonly #peer: string;
	readonly #share: ConnectionShare;
	readonly #reads: PacedReads;
	readonly #protocol: Protocol;
	/** Requests whose responses end in the next write. */
	#responded: Http2Request[] = [];
	/** Requests with pieces of a body from the current read. */
	#withPieces: Http2Request[] = [];
	#pinging = false;
	#served = false;
	/** `announced`: the client has the first GOAWAY. */
	#drain: 'none' | 'due' | 'announced' = 'none';
	/** `closing`: our side is closed after what is still to be written. From then on bytes are read and dropped. */
	#output: 'open' | 'closing' | 'closed' = 'open';
	#dropped = 0;
	/** Watches uploads that go on after their responses. */
	#looks: Looks | undefined;

	constructor(owner: ConnectionOwner, socket: TLSSocket, peer: string, share: ConnectionShare) {
		super();
		this.#owner = owner;
		this.plane = owner.plane;
		this.socket = socket;
		this.#peer = peer;
		this.client = new ClientConnection(socket, peer, 'h2', share);
		this.#share = share;
		const { limits, identifiers, takesWebSockets: extendsConnect } = owner.plane;
		const { h2MaxConcurrentStreams: maxConcurrentStreams, maxHeaderBytes } = limits;
		this.#protocol = new Protocol(this, { maxConcurrentStreams, maxHeaderBytes, identifiers, extendsConnect }, share);
		owner.plane.deadlines.firstRequest.add(this);
		this.#reads = new PacedReads(socket, share, owner.plane.reads, this);
		this.#reads.begin();
		socket.on(
			'drain',
			guarded(this, () => this.#onDrain()),
		);
		socket.on('end', () => socket.destroy());
		this.#protocol.begin();
	}

	onData(bytes: Buffer): number {
		if (this.#isOver) return this.#drop(bytes.length);
		const taken = this.#protocol.receive(bytes, this.plane.deadlines.now);
		this.#endRead();
		return taken;
	}

	onDelayed(): void {
		reportDelay(this.plane, this.client);
	}

	#endRead(): void {
		if (this.#withPieces.length === 0) return;
		const requests = this.#withPieces;
		this.#withPieces = [];
		for (const request of requests) request.onReadEnd();
	}

	/** An error of the client, which ends its connection; or one of ours, which must not affect other connections. */
	override onFault(error: unknown): void {
		const failure = error instanceof ConnectionError ? error : OWN_FAULT;
		const { plane } = this;
		if (failure === OWN_FAULT) plane.log.error('proxy::http2', 'internal error', { error });
		plane.stats.count('http2Errors', failure.reason);
		const { reason, message } = failure;
		this.#owner.log.write('warn', 'proxy::http2', 'connection ended with an error', reason, () => ({
			reason,
			what: message,
			peer: this.#peer,
		}));
		// The client is gone, so nothing is sent.
		if (reason === 'client-error') return void this.socket.destroy();
		this.#protocol.streams.end(failure.code);
		this.#close();
		plane.deadlines.linger.add(this);
	}

	// --- Events of the protocol. ---

	onRequest(id: number, facts: RequestFacts, endStream: boolean, sendWindow: number): Stream {
		if (!this.#served) {
			this.#served = true;
			this.plane.deadlines.ping.add(this);
			if (this.#drain !== 'none') this.#announceEnd();
		}
		const request = new Http2Request(this.#protocol.streams, this, id, facts, endStream, sendWindow);
		this.#owner.whenTurnEnds(request);
		return request;
	}

	/** There is no response that reports it, so the log does. */
	onMalformed(what: string, code: number): void {
		this.onStreamError(code === CODE.PROTOCOL_ERROR ? 'malformed' : streamErrorReason(code), what);
		const { clock, requestLog } = this.plane;
		const record = requestLog?.beginUnread({ connection: this.client, method: '', target: '' }, clock.now());
		record?.breaksOff(BAD_REQUEST.because(what));
		if (record !== undefined) requestLog!.end(record);
	}

	onOutput(): void {
		this.#owner.flushLater(this);
	}

	onPong(opaque: string): void {
		if (opaque === LAST_PING && this.#drain === 'announced') return this.#protocol.streams.finish();
		if (opaque !== PING || !this.#pinging || this.#isOver) return;
		this.#pinging = false;
		this.plane.deadlines.ping.add(this);
	}

	onGoodbye(): void {
		this.#protocol.streams.finish();
	}

	onFinished(): void {
		this.#close();
	}

	onUnwanted(): void {
		this.#looks ??= new Looks(() => this.#protocol.streams.cutOverdue(), this.plane.deadlines.linger);
		this.#looks.begin();
	}

	onCut(dropped: number): void {
		this.#owner.log.write('info', 'proxy::http2', UPLOAD_CUT, 'upload', () => ({ dropped, peer: this.#peer }));
	}

	// --- What requests ask for. ---

	onStreamError(reason: Http2StreamErrorReason, what: string): void {
		this.plane.stats.count('http2StreamErrors', reason);
		const fields = () => ({ what, peer: this.#peer });
		this.#owner.log.write('info', 'proxy::http2', 'stream ended with an error', what, fields);
	}

	whenWritten(request: Http2Request): void {
		this.#responded.push(request);
	}

	giveBackTokens(price: number): void {
		this.#share.release(price);
		this.#protocol.earn();
	}

	whenRead(request: Http2Request): void {
		this.#withPieces.push(request);
	}

	// --- Writing. ---

	flush(): void {
		const { output } = this.#protocol;
		const socket = this.socket;
		if (this.#output === 'closed' || socket.destroyed || output.bytes === 0) return;
		const taken = output.take();
		const slab = typeof taken === 'string' ? undefined : taken.slab;
		const written = this.#responded.length === 0 && slab === undefined ? undefined : this.#whenWritten(slab);
		const mayGoOn =
			typeof taken === 'string' ? socket.write(taken, 'latin1', written) : socket.write(taken.bytes, written);
		if (this.#isOver) return this.#end();
		if (mayGoOn) return output.pump();
		output.isBlocked = true;
		// A client that does not read its responses is not read either.
		if (socket.writableLength > MAX_UNSENT) this.#reads.pause();
	}

	#whenWritten(slab: Buffer | undefined): (error?: Error | null) => void {
		const requests = this.#responded;
		this.#responded = [];
		return (error) => {
			if (!error && slab !== undefined) SLABS.release(slab);
			for (const request of requests) {
				if (error) request.exchange.onClientGone();
				else request.onWritten();
			}
		};
	}

	#onDrain(): void {
		if (this.#reads.isPaused) this.#reads.resume();
		this.#protocol.output.isBlocked = false;
		this.#protocol.output.pump();
	}

	// --- Time limits, drain, and the end. ---

	/** No first request, time for a ping, an unanswered ping, or a client that has not closed after the end. */
	override onDeadline(): void {
		if (!this.#served || this.#pinging || this.#isOver) return void this.socket.destroy();
		this.#pinging = true;
		this.plane.deadlines.pong.add(this);
		this.#protocol.ping(PING);
	}

	drain(why: TunnelClose): void {
		this.client.endTunnels(why);
		if (this.#drain === 'none') this.#drain = 'due';
		// A client that has only just connected is told with its first stream: told before, it could send nothing at all.
		if (this.#served) this.#announceEnd();
		afterDrainGrace(this, () => {
			if (!this.#isOver) this.#protocol.streams.finish();
		});
	}

	/** The drain has reached its limit. */
	cut(): void {
		this.#protocol.streams.outOfTime();
	}

	/**
	 * RFC 9113 section 6.8, in two steps. The first GOAWAY excludes no stream, so that none on its way is refused. All
	 * streams on their way have arrived when the following ping is answered, or at the end of the grace; then the second
	 * GOAWAY names the last stream.
	 */
	#announceEnd(): void {
		if (this.#drain === 'announced' || this.#isOver) return;
		this.#drain = 'announced';
		this.#protocol.streams.announceEnd();
		this.#protocol.ping(LAST_PING);
	}

	/**
	 * Closes our side after all pending writes, and reads on for a while. Closing both at once would make the kernel
	 * answer further bytes with a reset, which may overtake our last bytes.
	 */
	#close(): void {
		if (this.#isOver) return;
		this.#output = 'closing';
		this.#protocol.streams.isOver = true;
		// The last responses are still on their way: the client gets the usual time to take them.
		this.plane.deadlines.response.add(this);
		if (this.#protocol.output.bytes === 0) this.#end();
		if (this.#reads.isPaused) this.#reads.resume();
	}

	#end(): void {
		this.#output = 'closed';
		this.socket.end(() => {
			if (!this.socket.destroyed) this.plane.deadlines.linger.add(this);
		});
	}

	get #isOver(): boolean {
		return this.#output !== 'open';
	}

	/** Drops bytes without decoding them. @returns their number: all. */
	#drop(bytes: number): number {
		this.#dropped += bytes;
		this.#share.spend(bytes / COSTS.vainBytes);
		if (this.#dropped > MAX_DROPPED) this.socket.destroy();
		return bytes;
	}

	onClose(): void {
		this.#output = 'closed';
		this.cancelDeadline();
		this.#looks?.cancelDeadline();
		this.#protocol.output.clear();
		this.#protocol.streams.closeAll();
		const responded = this.#responded;
		this.#responded = [];
		for (const request of responded) request.exchange.onClientGone();
	}
}

/** Repeats a check at intervals for as long as it asks for that. */
class Looks extends Timed {
	readonly #look: () => boolean;
	readonly #interval: DeadlineQueue;
	#goesOn = false;

	constructor(look: () => boolean, interval: DeadlineQueue) {
		super();
		this.#look = look;
		this.#interval = interval;
	}

	begin(): void {
		if (this.#goesOn) return;
		this.#goesOn = true;
		this.#interval.add(this);
	}

	override onDeadline(): void {
		this.#goesOn = this.#look();
		if (this.#goesOn) this.#interval.add(this);
	}
}

const UPLOAD_CUT = 'upload cut after its response';
const OWN_FAULT = new ConnectionError(CODE.INTERNAL_ERROR, 'internal', 'internal error');
/** Contents of our pings: the keep-alive, and the one after the first GOAWAY. */
const PING = 'keepaliv';
const LAST_PING = 'lastping';
/** Unsent bytes from which on the client is no longer read. */
const MAX_UNSENT = 262_144;
/** Bytes that are read and dropped after the end; an honest client has no more on its way. */
const MAX_DROPPED = 8_388_608;

import type { TLSSocket } from 'node:tls';
import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import * as rejection from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { originForm } from '../../gates/target.ts';
import { ClientConnection } from '../client/client-connection.ts';
import { refusalResponse } from '../client/responses.ts';
import { UnwantedBody } from '../client/unwanted-body.ts';
import type { Admitted, LiveConnection } from '../listener/connection-ends.ts';
import { Timed } from '../loop/deadlines.ts';
import { afterDrainGrace } from '../loop/drain-grace.ts';
import { guarded } from '../loop/faults.ts';
import { PacedReads, type ReadSink } from '../loop/paced-reads.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import type { FlushQueue } from '../loop/turn-end.ts';
import type { DataPlane } from '../plane/plane.ts';
import { reportDelay } from '../records/delay-report.ts';
import { reportRefusal } from '../records/refusal-report.ts';
import type { TunnelClose } from '../tunnel/tunnel.ts';
import { RequestHeadReader } from './head-reader.ts';
import { Http1Request } from './request.ts';
import { Http1Response } from './response.ts';
import { UnreadBytes } from './unread-bytes.ts';

/**
 * One connection: its bytes, the current request, and its time limits.
 *
 * It serves one request at a time. Pipelined requests stay bytes until their turn, and are judged only then. So one read
 * cannot create many requests, and pipelined bytes cost bounded memory and no time.
 */
export class Http1Connection extends Timed implements LiveConnection, ReadSink {
	readonly socket: TLSSocket;
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	endsAt = Number.POSITIVE_INFINITY;
	admitted: Admitted | undefined;
	readonly response: Http1Response;
	readonly #share: ConnectionShare;
	readonly #reads: PacedReads;
	/** `undefined`: the connection is a tunnel, and no request follows. */
	#reader: RequestHeadReader | undefined;
	#current: Http1Request | undefined;
	/** Bytes that have been read but not taken: the rest of a head, a body not wanted yet, waiting requests. */
	readonly #unread = new UnreadBytes();
	/** `ended`: the client has closed its side. `closed`: no more requests are taken, and further bytes are dropped. */
	#input: 'open' | 'ended' | 'closed' = 'open';
	/** `grace`: requests that the client sent before it could know of the drain are served. `over`: the next response is the last one. */
	#drain: 'none' | 'grace' | 'over' = 'none';
	/** Bytes that still arrive after the last response. */
	readonly #unwanted = new UnwantedBody();

	constructor(socket: TLSSocket, peer: string, share: ConnectionShare, plane: DataPlane, flushes: FlushQueue) {
		super();
		this.socket = socket;
		this.plane = plane;
		this.client = new ClientConnection(socket, peer, 'http/1.1', share);
		this.response = new Http1Response(socket, flushes, guarded(this, this.#onOut));
		this.#reader = new RequestHeadReader(plane.limits.maxHeaderBytes, plane.identifiers);
		plane.deadlines.firstRequest.add(this);
		this.#share = share;
		this.#reads = new PacedReads(socket, share, plane.reads, this);
		this.#reads.begin();
		socket.on(
			'drain',
			guarded(this, () => this.#current?.onDrain()),
		);
		socket.on(
			'end',
			guarded(this, () => this.#onEnd()),
		);
	}

	override onFault(error: unknown): void {
		this.plane.log.error('proxy::exchange', 'internal error', { error });
		// They may be those of a read whose memory is used again.
		this.#unread.clear();
		this.socket.destroy();
	}

	#isClosed(): boolean {
		return this.#input === 'closed';
	}

	get isLast(): boolean {
		return this.#drain === 'over' || (this.#drain === 'grace' && this.#unread.bytes === undefined);
	}

	get hasUnread(): boolean {
		return this.#unread.bytes !== undefined;
	}

	get isAhead(): boolean {
		return this.hasUnread || this.#input !== 'open';
	}

	openTunnel(): void {
		// Otherwise Node would end our side with the client's.
		this.socket.allowHalfOpen = true;
		this.#reader = undefined;
	}

	closeTunnel(): void {
		this.#current = undefined;
		this.close();
	}

	/** For `PacedReads`. A read is taken whole; its requests are served one at a time. */
	onData(bytes: Buffer): number {
		if (this.#isClosed()) {
			if (!this.#unwanted.drop(bytes.length)) this.socket.destroy();
		} else {
			this.#unread.add(bytes);
			this.readOn();
			this.#unread.keep();
		}
		return bytes.length;
	}

	/** For `PacedReads`. Writes immediate responses before our side ends with that of a client that closes right after its request. */
	onLast(): void {
		this.response.flush();
	}

	/** For `PacedReads`. */
	onTokens(): void {
		this.readOn();
		if (this.#input === 'ended' && this.#current === undefined) this.#onEnd();
	}

	/** For `PacedReads`. */
	onDelayed(): void {
		reportDelay(this.plane, this.client);
	}

	readonly #onOut = (): void => this.#current?.onOut();

	/** Processes unread bytes, as far as they are taken. */
	readOn(): void {
		// The taker of the bytes may ask for more, or give a response that leaves them unread.
		while (
			this.#unread.bytes !== undefined &&
			!this.#isClosed() &&
			(this.#current === undefined ? this.#reads.mayGoOn() && this.#readHead() : this.#readBody())
		);
		this.#pace();
	}

	#readHead(): boolean {
		const reader = this.#reader!;
		const bytes = this.#unread.bytes!;
		const end = reader.read(bytes, 0);
		if (reader.refusal !== undefined) this.#refuseRaw(reader.refusal);
		if (end === -1) return false;
		this.#unread.leave(bytes, end);
		this.cancelDeadline();
		const price = HEAD_PRICE + end / HEAD_BYTES_PER_TOKEN + Math.max(0, reader.fields - FREE_FIELDS) * FIELD_PRICE;
		this.#share.spend(price);
		const request = new Http1Request(this, reader, price);
		this.#current = request;
		request.exchange.start();
		return true;
	}

	#readBody(): boolean {
		const request = this.#current!;
		const before = this.#unread.bytes!;
		// Removed meanwhile, because the taker may call `readOn`.
		this.#unread.bytes = undefined;
		const taken = request.take(before);
		if (!this.#isClosed()) this.#unread.leave(before, taken);
		if (request.isOver) {
			this.#current = undefined;
			// As in `onResponseOut`: the rest of the body has come after the response.
			if (this.#drain !== 'none') this.#closeAfterGrace();
		}
		return taken > 0;
	}

	/** Limits how many bytes are read ahead of the current request. */
	#pace(): void {
		this.#current?.tellHeld(this.#unread.bytes?.length ?? 0);
		const reads = this.#reads;
		const current = this.#current;
		// A wanted body leaves at most one line or its trailers unread, which have their own limits.
		const isWaiting = current !== undefined && !current.takesBody;
		const isFull = isWaiting && (this.#unread.bytes?.length ?? 0) >= MAX_UNREAD;
		if (this.#isClosed() || isFull === reads.isPaused) return;
		if (isFull) reads.pause();
		else reads.resume();
	}

	/** The current response has been sent. The rest of its request is dropped, and the next one may come. */
	onResponseOut(): void {
		if (this.#isClosed()) {
			this.#current = undefined;
			return;
		}
		this.plane.deadlines.idleClient.add(this);
		if (this.#current!.isOver) this.#current = undefined;
		this.readOn();
		if (this.#isClosed() || (this.#current !== undefined && !this.#current.isOver)) return;
		if (this.#input === 'ended' && !this.#reads.isWaiting) return this.close();
		// The response had begun before the drain and did not say that it was the last: the next request may be on its way.
		if (this.#drain !== 'none') this.#closeAfterGrace();
	}

	/** The client sends no more. Complete requests are still answered, as far as the socket allows. */
	#onEnd(): void {
		if (this.#isClosed()) return;
		this.#input = 'ended';
		if (this.#current !== undefined) this.#current.onClientEnd();
		else if (this.#unread.bytes === undefined) this.close();
		else if (!this.#reads.isWaiting) this.#refuseRaw(CUT_SHORT);
	}

	/** Gives a response without a request object. It is the connection's last. */
	#refuseRaw(refusal: Rejection): void {
		const { clock, stats, requestLog } = this.plane;
		const { status } = refusal;
		stats.responded(status);
		// The part of the request line that has been read.
		const { method, target } = this.#reader!;
		const asked = { connection: this.client, method, target: originForm(target) };
		reportRefusal(this.plane, refusal, { client: asked });
		const record = requestLog?.beginUnread(asked, clock.now());
		record?.responds(status, refusal);
		// RFC 9110 section 9.3.2: a HEAD gets no content here either, if the request line could be read that far.
		const body = method === 'HEAD' ? '' : refusal.body;
		record?.gave(body.length);
		if (record !== undefined) requestLog!.end(record);
		const { response } = this;
		response.expect(true, false);
		// An unreadable request does not count as a gRPC call.
		response.begin(status, refusalResponse(refusal, false).fields, true, true, clock.wallSeconds());
		stats.unrouted.gave(this.client.protocol, body.length);
		response.end(body);
		response.flush();
		this.close();
	}

	/** The first request, the next one, or the end of a lingering close has not come in time. */
	override onDeadline(): void {
		// A drain does not wait for an unwanted upload.
		const mayLinger = this.#isClosed() && this.#drain === 'none';
		if (mayLinger && !this.#unwanted.isOverdue()) return this.plane.deadlines.linger.add(this);
		this.socket.destroy();
	}

	release(price: number): void {
		this.#share.release(price);
	}

	/**
	 * For a request whose response cannot be completed. The parts given in this turn still go out; no close_notify follows, so it
	 * cannot look complete.
	 */
	breakOff(): void {
		const { socket } = this;
		// A client that does not read would keep us waiting.
		if (this.#isClosed() || !socket.writable || socket.writableNeedDrain) return void socket.destroy();
		this.#input = 'closed';
		this.response.flush();
		socket.write('', () => socket.destroy());
		this.plane.deadlines.linger.add(this);
	}

	/** Each response is the last one from now on. A client that pipelines all the time gets its last response after the grace. */
	drain(why: TunnelClose): void {
		this.client.endTunnels(why);
		if (this.#drain !== 'none') return;
		this.#drain = 'grace';
		if (this.#current === undefined) return this.#closeAfterGrace();
		// A response that is under way may have said that the connection stays: `onResponseOut` gives its client another grace.
		afterDrainGrace(this, () => {
			this.#drain = 'over';
		});
	}

	/** The drain has reached its limit. */
	cut(): void {
		this.#current?.exchange.outOfTime();
	}

	#closeAfterGrace(): void {
		afterDrainGrace(this, () => {
			this.#drain = 'over';
			if (this.#current !== undefined || this.#isClosed()) return;
			if (this.#unread.bytes === undefined) return this.close();
			// Part of a head has arrived: the rest has as much time as a lingering close.
			this.plane.deadlines.linger.add(this);
		});
	}

	/**
	 * Closes our side and reads on for a while. Closing both at once would make the kernel answer what the client is
	 * still sending with a reset, which may reach the client before it has read our response (RFC 9112 section 9.6).
	 */
	close(): void {
		this.#input = 'closed';
		this.#unread.clear();
		this.socket.end();
		// Bytes that still arrive are not requests.
		if (this.#reads.isPaused) this.#reads.resume();
		this.plane.deadlines.linger.add(this);
	}

	onClose(): void {
		const { bytes } = this.#unread;
		this.#input = 'closed';
		this.#unread.clear();
		this.#current?.onConnectionClosed(this.socket.writableFinished ? bytes : undefined);
		this.cancelDeadline();
		this.#current = undefined;
	}
}

const CUT_SHORT = rejection.BAD_REQUEST.because('the connection ended within a request head');

/** The most bytes read ahead of the current request. */
const MAX_UNREAD = 65_536;

/**
 * Tokens for a head with a few fields and its processing, for each further field, and bytes of it per token. A field takes up to 2 µs if
 * its name is new. A request that is charged to its tenant gives all of them back.
 */
const HEAD_PRICE = 45;
const FREE_FIELDS = 16;
const FIELD_PRICE = 2;
const HEAD_BYTES_PER_TOKEN = 128;

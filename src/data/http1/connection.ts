import type { TLSSocket } from 'node:tls';
import type { Rejection } from '../../gates/rejection.ts';
import * as rejection from '../../gates/rejection.ts';
import { originForm } from '../../gates/target.ts';
import { refusalFields } from '../answers.ts';
import { ClientConnection } from '../client-connection.ts';
import type { LiveConnection } from '../connection-ends.ts';
import { Timed } from '../deadlines.ts';
import { readDirectly } from '../direct-reads.ts';
import { afterDrainGrace } from '../drain-grace.ts';
import type { DataPlane } from '../plane.ts';
import type { FlushQueue } from '../turn-end.ts';
import { Http1Answer } from './answer.ts';
import { RequestHeadReader } from './head-reader.ts';
import { Http1Request } from './request.ts';
import { UnreadBytes } from './unread-bytes.ts';

/**
 * One connection: its bytes, which request is being served, and what it may not take too long for.
 *
 * One request at a time: what is pipelined behind it stays bytes until its turn comes, and is judged only then. So a client
 * cannot make many requests of one read, and what it sends meanwhile costs memory up to a bound, and no time.
 */
export class Http1Connection extends Timed implements LiveConnection {
	readonly socket: TLSSocket;
	readonly plane: DataPlane;
	readonly client: ClientConnection;
	endsAt = Number.POSITIVE_INFINITY;
	readonly answer: Http1Answer;
	readonly #reader: RequestHeadReader;
	#current: Http1Request | undefined;
	/** What has been read and not been taken: the rest of a head, a body that nobody wants yet, requests that wait. */
	readonly #unread = new UnreadBytes();
	/** No request is taken any more. */
	#closing = false;
	#draining = false;
	/** The client has closed its side. */
	#ended = false;

	constructor(socket: TLSSocket, peer: string, plane: DataPlane, flushes: FlushQueue) {
		super();
		this.socket = socket;
		this.plane = plane;
		this.client = new ClientConnection(socket, peer, 'http/1.1');
		this.answer = new Http1Answer(socket, flushes, () => this.#current?.onOut());
		this.#reader = new RequestHeadReader(plane.limits.maxHeaderBytes, plane.identifiers);
		plane.deadlines.firstRequest.add(this);
		// What has been answered at once is not kept from a client that ends its side right behind its request.
		const onLast = () => this.answer.flush();
		readDirectly(socket, (bytes) => this.#onData(bytes), onLast);
		socket.on('drain', () => this.#current?.onDrain());
		socket.on('end', () => this.#onEnd());
	}

	/** Whether the answer being given is the last one. */
	get isLast(): boolean {
		return this.#draining && this.#unread.bytes === undefined;
	}

	#onData(bytes: Buffer): void {
		if (this.#closing) return;
		this.#unread.add(bytes);
		try {
			this.readOn();
		} catch (error) {
			// A fault of ours costs nobody else anything.
			this.plane.log.error('proxy::exchange', 'internal error', { error });
			this.socket.destroy();
		}
	}

	/** Goes on with what is unread, as far as somebody takes it. */
	readOn(): void {
		// Whoever takes the bytes may ask for more of them, or give an answer that leaves them behind.
		while (
			this.#unread.bytes !== undefined &&
			!this.#closing &&
			(this.#current === undefined ? this.#readHead() : this.#readBody())
		);
		this.#pace();
	}

	/** @returns whether it is worth going on. */
	#readHead(): boolean {
		const reader = this.#reader;
		const bytes = this.#unread.bytes!;
		const end = reader.read(bytes, 0);
		if (reader.refusal !== undefined) this.#refuseRaw(reader.refusal);
		if (end === -1) return false;
		this.#unread.leave(bytes, end);
		this.cancelDeadline();
		const request = new Http1Request(this, reader);
		this.#current = request;
		request.exchange.start();
		return true;
	}

	#readBody(): boolean {
		const request = this.#current!;
		const before = this.#unread.bytes!;
		// Taken away meanwhile: what takes them may call `readOn`.
		this.#unread.bytes = undefined;
		const taken = request.take(before);
		if (!this.#closing) this.#unread.leave(before, taken);
		if (request.isOver) {
			this.#current = undefined;
			// As in `onAnswered`: the rest of the body has come behind the answer.
			if (this.#draining) this.#closeAfterGrace();
		}
		return taken > 0;
	}

	/** What nobody takes is not read without end. */
	#pace(): void {
		const { socket } = this;
		const current = this.#current;
		// Of a body that is wanted no more is left than one line or its trailers, which have limits of their own.
		const isWaiting = current !== undefined && !current.takesBody;
		const isFull = isWaiting && (this.#unread.bytes?.length ?? 0) >= MAX_UNREAD;
		if (this.#closing || isFull === socket.isPaused()) return;
		if (isFull) socket.pause();
		else socket.resume();
	}

	/** The current answer is out. What is left of its request is dropped, and the next one may come. */
	onAnswered(): void {
		if (this.#closing) {
			this.#current = undefined;
			return;
		}
		this.plane.deadlines.idleClient.add(this);
		if (this.#current!.isOver) this.#current = undefined;
		this.readOn();
		if (this.#closing || (this.#current !== undefined && !this.#current.isOver)) return;
		if (this.#ended) return this.close();
		// The answer had begun before the drain and did not say that it was the last: the next request may be on its way.
		if (this.#draining) this.#closeAfterGrace();
	}

	/** The client sends no more. What it has sent whole is still answered, as far as the socket can. */
	#onEnd(): void {
		this.#ended = true;
		if (this.#closing) return;
		if (this.#current !== undefined) this.#current.onClientEnd();
		else if (this.#unread.bytes !== undefined) this.#refuseRaw(CUT_SHORT);
		else this.close();
	}

	/** An answer for which there is no request object. It is the connection's last. */
	#refuseRaw(answer: Rejection): void {
		const { clock, stats, requestLog } = this.plane;
		const { status } = answer;
		stats.answered(status);
		// What has been read of the request line.
		const { method, target } = this.#reader;
		const asked = { connection: this.client, method, target: originForm(target) };
		const record = requestLog?.beginUnread(asked, clock.now());
		record?.answers(status, answer);
		if (record !== undefined) requestLog!.end(record);
		const refusal = this.answer;
		refusal.expect(true, false);
		refusal.begin(status, refusalFields(answer), true, true, clock.wallSeconds());
		// RFC 9110 section 9.3.2: as far as the request line could be read, a HEAD gets no content here either.
		const body = method === 'HEAD' ? '' : answer.body;
		stats.unrouted.gave(this.client.protocol, body.length);
		refusal.end(body);
		refusal.flush();
		this.close();
	}

	/** The first request, the next one, or the end of a lingering close has not come in time. */
	override onDeadline(): void {
		this.socket.destroy();
	}

	/** For a request. */
	destroy(): void {
		this.socket.destroy();
	}

	/** From now on each answer is the last one. */
	drain(): void {
		this.#draining = true;
		if (this.#current === undefined) this.#closeAfterGrace();
	}

	#closeAfterGrace(): void {
		afterDrainGrace(() => {
			if (this.#current !== undefined || this.#closing) return;
			// Part of a head has come: that request is served, or ended by the limit of the drain.
			if (this.#unread.bytes === undefined) this.close();
		});
	}

	/**
	 * Closes our side and reads on for a while. Closing both at once would make the kernel answer what the client is
	 * still sending with a reset, which may reach the client before it has read our answer (RFC 9112 section 9.6).
	 */
	close(): void {
		this.#closing = true;
		this.#unread.clear();
		this.socket.end();
		// What still comes is nobody's request.
		if (this.socket.isPaused()) this.socket.resume();
		this.plane.deadlines.linger.add(this);
	}

	onClose(): void {
		this.#closing = true;
		this.#unread.clear();
		this.cancelDeadline();
		this.#current?.onConnectionClosed();
		this.#current = undefined;
	}
}

const CUT_SHORT = rejection.BAD_REQUEST.because('the connection ended within a request head');

/** More than this is not read ahead of a request that is being served, bytes. */
const MAX_UNREAD = 65_536;

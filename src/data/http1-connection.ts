import type { TLSSocket } from 'node:tls';
import { bodyRefusal } from '../gates/parse-errors.ts';
import type { Rejection } from '../gates/rejection.ts';
import { forwardedLines, refusalFields } from './answers.ts';
import { ClientConnection } from './client-connection.ts';
import { Timed } from './deadlines.ts';
import { afterDrainGrace } from './drain-grace.ts';
import { Http1Answer } from './http1-answer.ts';
import type { Http1Incoming } from './http1-incoming.ts';
import { type ParseError, refusalOf } from './http1-parse-error.ts';
import { Http1Request } from './http1-request.ts';
import type { DataPlane } from './plane.ts';

/** Pipelined requests that wait before we stop reading; what a single read brings may be more. */
const MAX_WAITING = 8;

/** One connection: which request is being served, which wait, and what it may not take too long for. */
export class Http1Connection extends Timed {
	readonly socket: TLSSocket;
	readonly plane: DataPlane;
	readonly forwardedLines: string;
	readonly client: ClientConnection;
	readonly #waiting: Http1Request[] = [];
	#current: Http1Request | undefined;
	/** The request to which the next bytes belong if it is not complete yet. */
	#latest: Http1Request | undefined;
	/** No request is taken any more. */
	#closing = false;
	#draining = false;
	/** Bytes read up to the one that ended the last request; what has come since is part of the next one's head. */
	#consumed = 0;
	/** The bytes behind the last request are no HTTP; told when it has been answered. */
	#garbage: Rejection | undefined;
	/** The latest request is the last one: where it ends, or what follows it, cannot be known. */
	#sealed = false;

	constructor(socket: TLSSocket, peer: string, plane: DataPlane) {
		super();
		this.socket = socket;
		this.plane = plane;
		this.forwardedLines = forwardedLines(peer);
		this.client = new ClientConnection(socket, peer, 'http/1.1');
		plane.deadlines.firstRequest.add(this);
	}

	/** Whether the answer being given is the last one. */
	get isLast(): boolean {
		return (this.#draining || this.#sealed) && this.#waiting.length === 0;
	}

	/** One request at a time: what is pipelined behind it waits its turn, and the gates see it in order. */
	onRequest(req: Http1Incoming, mayStay: boolean): void {
		// No upgrade is granted, but llhttp has stopped behind such a request all the same: Node drops the rest of the read and
		// goes on with the next one, wherever in the stream that begins.
		const endsParsing = req.upgrade;
		req.upgrade = false;
		// The rest of the read in which the last request was.
		if (this.#closing || this.#sealed) return;
		if (endsParsing) this.#sealed = true;
		const request = new Http1Request(this, req, mayStay);
		this.#latest = request;
		this.#consumed = this.socket.bytesRead;
		if (this.#current === undefined) return this.#serve(request);
		this.#waiting.push(request);
		if (this.#waiting.length === MAX_WAITING) this.socket.pause();
	}

	/** The whole of a request with a body has come. */
	onBodyEnd(): void {
		this.#consumed = this.socket.bytesRead;
	}

	onResume(): void {
		if (this.#waiting.length >= MAX_WAITING && !this.#closing) this.socket.pause();
	}

	#serve(request: Http1Request): void {
		this.cancelDeadline();
		this.#current = request;
		request.exchange.start();
	}

	onDrain(): void {
		this.#current?.onDrain();
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
	onParseError(error: ParseError): void {
		if (this.#closing) return;
		const { socket } = this;
		if (!error.code?.startsWith('HPE_') || !socket.writable) return void socket.destroy();
		if (this.#latest?.isComplete === false) {
			this.#sealed = true;
			this.#latest.onBodyBroken(bodyRefusal(error.code));
			if (this.#current === undefined) this.close();
		} else if (this.#sealed) {
			return;
		} else if (this.#current === undefined) {
			this.#refuseRaw(refusalOf(error));
		} else {
			this.#garbage = refusalOf(error);
		}
	}

	/** An answer for which there is no request object. It is the connection's last. */
	#refuseRaw(answer: Rejection): void {
		const { clock, stats, requestLog } = this.plane;
		const { status } = answer;
		stats.answered(status);
		const record = requestLog?.begin({ connection: this.client, method: '', target: '' }, clock.now());
		record?.answers(status, answer);
		if (record !== undefined) requestLog!.end(record);
		const refusal = new Http1Answer(this.socket, true, false, () => {});
		refusal.begin(status, refusalFields(answer), true, true, clock.wallSeconds());
		refusal.end(answer.body);
		this.close();
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
		afterDrainGrace(() => {
			if (this.#current !== undefined || this.#closing) return;
			// Part of a head has come: that request is served, or ended by the limit of the drain.
			if (this.socket.bytesRead === this.#consumed) this.close();
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

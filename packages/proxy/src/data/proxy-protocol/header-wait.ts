import type { Socket } from 'node:net';
import { type HandshakeRefusal, refusalOfClose } from '../../identity/handshake-refusals.ts';
import { Timed } from '../loop/deadlines.ts';
import { type FaultOwner, guarded } from '../loop/faults.ts';
import { type ProxyHeader, readProxyHeader } from './read-header.ts';

/** The result of the wait: one of the two is called, once. */
export interface HeaderEvents extends FaultOwner {
	/** The socket is paused, and its buffer has the bytes after the header. */
	onHeader(wait: HeaderWait, header: ProxyHeader): void;
	onNoHeader(wait: HeaderWait, reason: HandshakeRefusal): void;
}

/** A connection of a load balancer whose PROXY header has not arrived yet. */
export class HeaderWait extends Timed {
	readonly socket: Socket;
	/** The balancer's IP. */
	readonly balancer: string;
	readonly #events: HeaderEvents;
	/** The beginning of a header. */
	#received: Buffer | undefined;

	constructor(socket: Socket, balancer: string, events: HeaderEvents) {
		super();
		this.socket = socket;
		this.balancer = balancer;
		this.#events = events;
		socket.on('data', this.#onData).once('close', this.#onClose);
	}

	/** Bytes that the balancer has sent. */
	get bytesRead(): number {
		return this.socket.bytesRead;
	}

	override onDeadline(): void {
		this.#refuse('PROXY header timeout');
	}

	override onFault(error: unknown): void {
		this.socket.destroy();
		this.#events.onFault(error);
	}

	readonly #onData = guarded(this, (chunk: Buffer): void => {
		const bytes = this.#received === undefined ? chunk : Buffer.concat([this.#received, chunk]);
		const header = readProxyHeader(bytes);
		if (header === undefined) {
			this.#received = bytes;
			return;
		}
		if (typeof header === 'string') return this.#refuse(header);
		this.#received = undefined;
		this.socket.off('data', this.#onData);
		// Paused: the bytes in the socket's buffer are for TLS.
		this.socket.pause();
		if (bytes.length > header.length) this.socket.unshift(bytes.subarray(header.length));
		this.#events.onHeader(this, header);
		// Not before: if that throws, the wait ends as any other without a header.
		this.socket.off('close', this.#onClose);
	});

	readonly #onClose = guarded(this, (): void => this.#refuse(refusalOfClose(this.bytesRead)));

	#refuse(reason: HandshakeRefusal): void {
		this.#release();
		this.socket.destroy();
		this.#events.onNoHeader(this, reason);
	}

	#release(): void {
		this.#received = undefined;
		this.socket.off('data', this.#onData).off('close', this.#onClose);
	}
}

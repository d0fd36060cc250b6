import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { chainFault, judgeBy, letIn } from '@mtls-edge-proxy/gate/tls/node-internals.ts';
import { type ListenerContexts, listenerOptions } from '@mtls-edge-proxy/gate/tls/tls-options.ts';
import {
	type HandshakeRefusal,
	refusalOfCertificate,
	refusalOfClose,
	refusalOfError,
} from '../../identity/handshake-refusals.ts';
import { Timed } from '../loop/deadlines.ts';
import { type FaultOwner, listen } from '../loop/faults.ts';

/** The source of a connection. */
export interface Origin {
	/** The client's IP. */
	readonly peer: string;
	/** IP of the load balancer that sent a PROXY header with the client's IP. */
	readonly balancer?: string | undefined;
	/** Length of the PROXY header before TLS, bytes; 0 for none. */
	readonly headerBytes: number;
}

/** The result of a handshake: either `onSecure` or `onRefused` is called, once. */
export interface HandshakeEvents extends FaultOwner {
	onSecure(handshake: Handshake, certificate: X509Certificate): void;
	/** Judges a client whose chain OpenSSL accepts. */
	judge(handshake: Handshake, certificate: X509Certificate): HandshakeRefusal | undefined;
	/**
	 * Called while the client's certificate can still be read from the socket, unless the connection is gone.
	 *
	 * @param error code from OpenSSL or the kernel, if there is one.
	 */
	onRefused(handshake: Handshake, reason: HandshakeRefusal, error: string | undefined): void;
}

/**
 * One connection's TLS handshake. It replaces `tls.Server`, which destroys the socket of a refused certificate before the
 * certificate can be read, reports some failures twice, and others never.
 */
export class Handshake extends Timed {
	readonly socket: TLSSocket;
	readonly startedAt: number;
	readonly origin: Origin;
	readonly contexts: ListenerContexts;
	readonly #tcp: Socket;
	readonly #events: HandshakeEvents;
	#over = false;

	constructor(tcp: Socket, origin: Origin, contexts: ListenerContexts, startedAt: number, events: HandshakeEvents) {
		super();
		this.#tcp = tcp;
		this.origin = origin;
		this.contexts = contexts;
		this.startedAt = startedAt;
		this.#events = events;
		this.socket = serverSocket(tcp, contexts);
		listen(this.socket, this, {
			secure: () => this.#judge(),
			error: (error: NodeJS.ErrnoException) => this.#onError(error),
		});
		listen(tcp, this, { close: () => this.#refuse(refusalOfClose(this.bytesRead)) });
	}

	/** By now OpenSSL has sent its alert, if it sends one. */
	#onError({ code }: NodeJS.ErrnoException): void {
		this.#refuse(refusalOfError(code, this.bytesRead), code);
		this.socket.destroy();
	}

	/** Bytes that the client has sent. */
	get bytesRead(): number {
		return this.#tcp.bytesRead - this.origin.headerBytes;
	}

	override onDeadline(): void {
		this.#refuse('timeout');
		this.#tcp.destroy();
	}

	override onFault(error: unknown): void {
		this.#tcp.destroy();
		this.#events.onFault(error);
	}

	/**
	 * Node lets OpenSSL finish the handshake whatever the certificate, so its verdict is read here. Only clients without a
	 * certificate have been refused earlier.
	 */
	#judge(): void {
		const { socket } = this;
		const certificate = socket.getPeerX509Certificate();
		const fault = chainFault(socket);
		if (fault !== undefined || certificate === undefined) {
			this.#refuse(refusalOfCertificate(fault), fault);
			return void socket.destroy();
		}
		// A refused renegotiation emits the event again.
		if (this.#over) return;
		try {
			const refusal = this.#events.judge(this, certificate);
			if (refusal !== undefined) {
				this.#refuse(refusal);
				return void socket.destroy();
			}
		} catch (error) {
			// An error for this certificate must not affect other connections.
			this.#refuse('bad certificate', (error as NodeJS.ErrnoException).code ?? (error as Error).message);
			return void socket.destroy();
		}
		letIn(socket);
		this.#over = true;
		this.#events.onSecure(this, certificate);
	}

	#refuse(reason: HandshakeRefusal, error?: string): void {
		if (this.#over) return;
		this.#over = true;
		this.#events.onRefused(this, reason, error);
	}
}

/** The server's side of a connection, before its handshake. */
export function serverSocket(tcp: Duplex, contexts: ListenerContexts): TLSSocket {
	const options = { ...listenerOptions, isServer: true, secureContext: contexts.identity };
	const socket = new TLSSocket(tcp as Socket, options);
	judgeBy(socket, contexts.trust);
	return socket;
}

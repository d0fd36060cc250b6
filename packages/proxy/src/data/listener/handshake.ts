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
import { type FaultOwner, guarded } from '../loop/faults.ts';

/** Where a connection comes from. */
export interface Origin {
	/** The client's IP. */
	readonly peer: string;
	/** IP of the load balancer whose PROXY header names the client. */
	readonly balancer?: string | undefined;
	/** Length of a PROXY header ahead of TLS, bytes. */
	readonly headerBytes: number;
}

/** How a handshake ends: `onSecure` or `onRefused` is called, once. */
export interface HandshakeEvents extends FaultOwner {
	onSecure(handshake: Handshake, certificate: X509Certificate): void;
	/** Judges a client whose chain OpenSSL accepts. */
	judge(handshake: Handshake, certificate: X509Certificate): HandshakeRefusal | undefined;
	/**
	 * Called while the socket can still be asked for the client's certificate, unless the connection is gone.
	 *
	 * @param error the code behind the reason, from OpenSSL or the kernel, where there is one.
	 */
	onRefused(handshake: Handshake, reason: HandshakeRefusal, error: string | undefined): void;
}

/**
 * One connection's TLS handshake. It does what a `tls.Server` does with each connection, because that one destroys the
 * socket of a refused certificate before anybody can ask whose it is, reports some failures twice, and others never.
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
		this.socket.on(
			'secure',
			guarded(this, () => this.#judge()),
		);
		this.socket.on(
			'error',
			guarded(this, (error) => this.#onError(error)),
		);
		tcp.once(
			'close',
			guarded(this, () => this.#refuse(refusalOfClose(this.bytesRead))),
		);
	}

	/** If OpenSSL sends an alert, it is on its way by now. */
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
	 * Node lets OpenSSL finish the handshake whatever it thinks of the certificate; what it thinks is asked for here. Only the
	 * client without any certificate has been refused before.
	 */
	#judge(): void {
		const { socket } = this;
		const certificate = socket.getPeerX509Certificate();
		const fault = chainFault(socket);
		if (fault !== undefined || certificate === undefined) {
			this.#refuse(refusalOfCertificate(fault), fault);
			return void socket.destroy();
		}
		// A client that asks for a renegotiation, and is refused it, brings us here once more.
		if (this.#over) return;
		try {
			const refusal = this.#events.judge(this, certificate);
			if (refusal !== undefined) {
				this.#refuse(refusal);
				return void socket.destroy();
			}
		} catch (error) {
			// The client's certificate cannot be judged, which must not affect others.
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

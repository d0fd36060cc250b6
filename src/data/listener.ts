import type { X509Certificate } from 'node:crypto';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { Budget } from '../shared/budget.ts';
import type { HandshakeRefusal } from '../shared/handshake-refusals.ts';
import type { LogFields } from '../shared/log.ts';
import type { WorkerSeed } from '../shared/messages.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import { descriptorsExhausted, keepSpareDescriptor } from '../shared/spare-descriptor.ts';
import type { ConnectionRefusal } from '../shared/stats.ts';
import { createListenerContexts, type ListenerContexts } from '../shared/tls-options.ts';
import { afterDrainGrace } from './drain-grace.ts';
import { Handshake, type HandshakeEvents } from './handshake.ts';
import { Http1Front } from './http1/front.ts';
import { Http2Front } from './http2/front.ts';
import type { DataPlane } from './plane.ts';

/**
 * The way in: TCP, then mutual TLS, then by ALPN to the HTTP/1.1 or the HTTP/2 front. The handshakes of both are done
 * here, so that limits, counters and reload have one place.
 */
export class Listener implements HandshakeEvents {
	readonly #plane: DataPlane;
	readonly #connections: Budget;
	readonly #tcp: Server;
	readonly #http1: Http1Front;
	readonly #http2: Http2Front;
	/** Of the certificate files as they were last loaded. */
	#tls: ListenerContexts;
	/** Under way. */
	readonly #handshakes = new Set<Handshake>();
	/** All connections. */
	readonly #sockets = new Set<Socket>();
	readonly #refusals: RateLimitedLog;
	#open = 0;
	/** Connections that ever came. */
	#accepted = 0;
	#onDrained: (() => void) | undefined;

	constructor(plane: DataPlane, seed: WorkerSeed) {
		this.#plane = plane;
		this.#connections = new Budget(seed.connections, seed.index);
		this.#http1 = new Http1Front(plane);
		this.#http2 = new Http2Front(plane);
		this.#tls = createListenerContexts(seed.tls);
		this.#refusals = new RateLimitedLog(plane.log, plane.clock);
		this.#tcp = createTcpServer({ noDelay: true }, (socket) => this.#onConnection(socket));
	}

	/** @returns the port. @throws the error of `listen`. */
	listen(bind: WorkerSeed['bind'], reusePort: boolean): Promise<number> {
		return new Promise((resolve, reject) => {
			this.#tcp.once('error', reject);
			this.#tcp.listen({ ...bind, reusePort, backlog: 4096 }, () => {
				this.#tcp.removeListener('error', reject);
				keepSpareDescriptor();
				this.#tcp.on('error', (error: NodeJS.ErrnoException) => {
					this.#refusals.write('error', LISTENER, 'accept failed', `accept ${error.code}`, () => ({ error }));
				});
				resolve((this.#tcp.address() as { port: number }).port);
			});
		});
	}

	/** New connections get the new identity and CAs; live ones keep what they shook hands with (specification 5). */
	useTls(contexts: ListenerContexts): void {
		this.#tls = contexts;
	}

	/**
	 * Closes the listener. That would reset the connections which the kernel has accepted for us, so they are taken first:
	 * one a turn of the loop, for libuv does no more.
	 *
	 * @param onClosed called once; from then on connecting is refused.
	 */
	stopAccepting(onClosed: () => void): void {
		const until = this.#plane.clock.now() + LAST_ACCEPTS_MS;
		let before = -1;
		const turn = () => {
			if (this.#accepted > before && this.#plane.clock.now() < until) {
				before = this.#accepted;
				return void setImmediate(turn);
			}
			this.#tcp.close(() => this.#checkDrained());
			onClosed();
		};
		setImmediate(turn);
	}

	/**
	 * Lets what is in flight finish, and tells the clients.
	 *
	 * @param onDrained called once, when the last connection has ended.
	 */
	drain(onDrained: () => void): void {
		this.#onDrained = onDrained;
		this.#http1.drain();
		this.#http2.drain();
		afterDrainGrace(() => this.#dropSilent());
		this.#checkDrained();
	}

	/** Handshakes under way have their own limit; who has not even begun one is not waited for. */
	#dropSilent(): void {
		for (const { bytesRead, socket } of this.#handshakes) if (bytesRead === 0) socket.destroy();
	}

	/** Takes and reads nothing more: this thread is about to end. */
	abandon(): void {
		this.#tcp.close();
		for (const socket of this.#sockets) socket.destroy();
	}

	#checkDrained(): void {
		if (this.#open > 0 || this.#tcp.listening || this.#onDrained === undefined) return;
		this.#onDrained();
		this.#onDrained = undefined;
	}

	#onConnection(socket: Socket): void {
		this.#accepted++;
		const { remoteAddress } = socket;
		// Without an address the client has left already.
		if (remoteAddress === undefined) return void socket.destroy();
		const peer = plainAddress(remoteAddress);
		if (descriptorsExhausted()) return this.#refuse(socket, 'descriptors', peer);
		if (!this.#connections.tryTake(1)) return this.#refuse(socket, 'max_connections', peer);
		const { clock, deadlines, stats } = this.#plane;
		this.#open++;
		this.#sockets.add(socket);
		socket.on('error', () => socket.destroy());
		const handshake = new Handshake(socket, peer, this.#tls, clock.now(), this);
		stats.connections('handshake', 1);
		this.#handshakes.add(handshake);
		deadlines.handshake.add(handshake);
	}

	#refuse(socket: Socket, reason: ConnectionRefusal, peer: string): void {
		socket.destroy();
		this.#plane.stats.connectionRefused(reason);
		this.#refusals.write('warn', LISTENER, REFUSED[reason], reason, () => ({ reason, peer }));
	}

	#endHandshake(handshake: Handshake): void {
		this.#handshakes.delete(handshake);
		handshake.cancelDeadline();
		this.#plane.stats.connections('handshake', -1);
	}

	/** For `Handshake`. */
	onRefused(handshake: Handshake, reason: HandshakeRefusal, error: string | undefined): void {
		this.#endHandshake(handshake);
		this.#plane.stats.handshakeFailed(reason);
		// Load balancers look whether the port is open all the time; that is no news.
		const level = reason === 'nothing sent' ? 'debug' : 'info';
		this.#refusals.write(level, 'proxy::tls', 'handshake failed', reason, () => {
			const certificate = handshake.socket.getPeerX509Certificate();
			return { reason, peer: handshake.peer, error, ...(certificate && namesOf(certificate)) };
		});
	}

	/** For `Handshake`. */
	onClosed({ tcp }: Handshake): void {
		this.#open--;
		this.#sockets.delete(tcp);
		this.#connections.giveBack(1);
		this.#checkDrained();
	}

	/** For `Handshake`. */
	onSecure(handshake: Handshake): void {
		this.#endHandshake(handshake);
		const { socket, peer, startedAt } = handshake;
		const now = this.#plane.clock.now();
		this.#plane.stats.handshakes.record(now - startedAt, now);
		const front = socket.alpnProtocol === 'h2' ? this.#http2 : this.#http1;
		front.accept(socket, peer);
	}
}

const LISTENER = 'proxy::listener';

const REFUSED: Readonly<Record<ConnectionRefusal, string>> = {
	max_connections: 'connection refused: limits.max_connections are open',
	descriptors: 'connection refused: no file descriptor is left; raise the limit (ulimit -n, LimitNOFILE)',
};

/** For how long connections are still accepted if they keep coming, ms. */
const LAST_ACCEPTS_MS = 500;

/** IPv4 as IPv4, also where a dual-stack listener sees it mapped into IPv6 (RFC 4291 section 2.5.5.2). */
function plainAddress(address: string): string {
	return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** Whose certificate it is, as it says itself: the client may have written anything into it, and as much as it liked. */
function namesOf({ subject, issuer, serialNumber }: X509Certificate): LogFields {
	return { subject: oneLine(subject), serial: oneLine(serialNumber), issuer: oneLine(issuer) };
}

/** Node puts each attribute of a name on a line of its own. */
function oneLine(text: string | undefined): string | undefined {
	if (text === undefined) return undefined;
	const shown = text.slice(0, MAX_NAME).replaceAll('\n', ', ');
	return text.length > MAX_NAME ? `${shown}…` : shown;
}

/** Characters of a certificate's name in the log. */
const MAX_NAME = 256;

import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from 'node:tls';
import { Budget } from '../shared/budget.ts';
import type { TlsMaterial, WorkerSeed } from '../shared/messages.ts';
import { descriptorsExhausted, keepSpareDescriptor } from '../shared/spare-descriptor.ts';
import { listenerOptions, secureContextOptions, useSecureContext } from '../shared/tls-options.ts';
import { Timed } from './deadlines.ts';
import { afterDrainGrace } from './drain-grace.ts';
import { Http1Front } from './http1/front.ts';
import { Http2Front } from './http2.ts';
import type { DataPlane } from './plane.ts';

/**
 * The way in: TCP, then mutual TLS, then by ALPN to the HTTP/1.1 or the HTTP/2 front. One `tls.Server` does the
 * handshakes of both, so that limits, counters and reload have one place.
 */
export class Listener {
	readonly #plane: DataPlane;
	readonly #connections: Budget;
	readonly #tcp: Server;
	readonly #tls: TlsServer;
	readonly #http1: Http1Front;
	readonly #http2: Http2Front;
	/** By both addresses, which no two live connections share. */
	readonly #handshakes = new Map<string, Handshake>();
	/** All connections. */
	readonly #sockets = new Set<Socket>();
	#open = 0;
	/** Connections that ever came. */
	#accepted = 0;
	#onDrained: (() => void) | undefined;

	constructor(plane: DataPlane, seed: WorkerSeed) {
		this.#plane = plane;
		this.#connections = new Budget(seed.connections, seed.index);
		this.#http1 = new Http1Front(plane);
		this.#http2 = new Http2Front(plane);
		this.#tls = createTlsServer({
			...listenerOptions,
			...secureContextOptions(seed.tls),
			// Ours counts from accept and cannot be put off by sending a byte now and then.
			handshakeTimeout: 2 ** 31 - 1,
		});
		useSecureContext(this.#tls, seed.tls);
		this.#tls.on('secureConnection', (socket) => this.#onSecure(socket));
		// Counted when the connection closes; Node reports some failures twice and others not at all.
		this.#tls.on('tlsClientError', (_error, socket) => socket.destroy());
		this.#tcp = createTcpServer({ noDelay: true }, (socket) => this.#onConnection(socket));
	}

	/** @returns the port. @throws the error of `listen`. */
	listen(bind: WorkerSeed['bind'], reusePort: boolean): Promise<number> {
		return new Promise((resolve, reject) => {
			this.#tcp.once('error', reject);
			this.#tcp.listen({ ...bind, reusePort, backlog: 4096 }, () => {
				this.#tcp.removeListener('error', reject);
				keepSpareDescriptor();
				this.#tcp.on('error', (error) => this.#plane.log.error('proxy::listener', 'accept failed', { error }));
				resolve((this.#tcp.address() as { port: number }).port);
			});
		});
	}

	/** New connections get the new identity and CAs; live ones keep what they shook hands with (specification 5). */
	useTls(material: TlsMaterial): void {
		useSecureContext(this.#tls, material);
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
		for (const { socket } of this.#handshakes.values()) if (socket.bytesRead === 0) socket.destroy();
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
		const address = addressOf(socket);
		// Without an address the client has left already.
		if (address === undefined || descriptorsExhausted() || !this.#connections.tryTake(1)) return void socket.destroy();
		const { clock, deadlines, stats } = this.#plane;
		// The kernel has given both addresses anew: what had them before is dead, and Node has yet to say so.
		const dead = this.#handshakes.get(address);
		if (dead !== undefined) this.#failHandshake(address, dead);
		const handshake = new Handshake(socket, clock.now());
		this.#open++;
		this.#sockets.add(socket);
		stats.connections('handshake', 1);
		this.#handshakes.set(address, handshake);
		deadlines.handshake.add(handshake);
		socket.on('error', () => socket.destroy());
		socket.once('close', () => {
			this.#open--;
			this.#sockets.delete(socket);
			this.#connections.giveBack(1);
			if (this.#handshakes.get(address) === handshake) this.#failHandshake(address, handshake);
			this.#checkDrained();
		});
		this.#tls.emit('connection', socket);
	}

	#endHandshake(address: string, handshake: Handshake): void {
		this.#handshakes.delete(address);
		handshake.cancelDeadline();
		this.#plane.stats.connections('handshake', -1);
	}

	#failHandshake(address: string, handshake: Handshake): void {
		this.#endHandshake(address, handshake);
		this.#plane.stats.handshakeFailed();
	}

	#onSecure(socket: TLSSocket): void {
		const address = addressOf(socket);
		const handshake = address === undefined ? undefined : this.#handshakes.get(address);
		if (handshake === undefined) return void socket.destroy();
		this.#endHandshake(address!, handshake);
		const now = this.#plane.clock.now();
		this.#plane.stats.handshakes.record(now - handshake.startedAt, now);
		socket.on('error', () => socket.destroy());
		const peer = plainAddress(socket.remoteAddress!);
		const front = socket.alpnProtocol === 'h2' ? this.#http2 : this.#http1;
		front.accept(socket, peer);
	}
}

/** For how long connections are still accepted if they keep coming, ms. */
const LAST_ACCEPTS_MS = 500;

/** A connection until it is secure. */
class Handshake extends Timed {
	readonly socket: Socket;
	readonly startedAt: number;

	constructor(socket: Socket, startedAt: number) {
		super();
		this.socket = socket;
		this.startedAt = startedAt;
	}

	override onDeadline(): void {
		this.socket.destroy();
	}
}

/** Ours belongs to it: where there are several, a client may use one port of its own for each. */
function addressOf(socket: Socket): string | undefined {
	const { remoteAddress, remotePort, localAddress } = socket;
	if (remoteAddress === undefined || remotePort === undefined || localAddress === undefined) return undefined;
	return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/** IPv4 as IPv4, also where a dual-stack listener sees it mapped into IPv6 (RFC 4291 section 2.5.5.2). */
function plainAddress(address: string): string {
	return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

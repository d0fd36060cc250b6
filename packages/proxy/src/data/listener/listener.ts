import type { X509Certificate } from 'node:crypto';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { createListenerContexts, type ListenerContexts } from '@mtls-edge-proxy/gate/tls/tls-options.ts';
import type { HandshakeRefusal } from '../../identity/handshake-refusals.ts';
import { Budget } from '../../memory/budget.ts';
import { type ConnectionRefusal, TLS_VERSIONS, type TlsVersionName } from '../../memory/worker-stats.ts';
import { AddressRanges, plainAddress } from '../../shared/address-ranges.ts';
import type { WorkerSeed } from '../../shared/messages.ts';
import { descriptorsExhausted, keepSpareDescriptor } from '../../shared/spare-descriptor.ts';
import { ClientPolicy } from '../../tls/client-policy.ts';
import { Http1Front } from '../http1/front.ts';
import { Http2Front } from '../http2/front.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import { afterDrainGrace } from '../loop/drain-grace.ts';
import { CertificateShares, ConnectionShare } from '../loop/read-share.ts';
import type { DataPlane } from '../plane/plane.ts';
import { type HeaderEvents, HeaderWait } from '../proxy-protocol/header-wait.ts';
import type { ProxyHeader } from '../proxy-protocol/read-header.ts';
import { namesOf } from './certificate-names.ts';
import { ConnectionEnds, withJitter } from './connection-ends.ts';
import { Handshake, type HandshakeEvents, type Origin } from './handshake.ts';
import { groupOf } from './tls-group.ts';

/**
 * Accepts connections: TCP, a PROXY header from load balancers, mutual TLS, then the HTTP/1.1 or the HTTP/2 front by ALPN. One
 * listener for both protocols, so that limits, counters and reload have one place.
 */
export class Listener implements HandshakeEvents, HeaderEvents {
	readonly #plane: DataPlane;
	readonly #connections: Budget;
	readonly #tcp: Server;
	readonly #http1: Http1Front;
	readonly #http2: Http2Front;
	/** From the certificate files of the last reload. */
	#tls: ListenerContexts;
	#policy: ClientPolicy;
	readonly #ends: ConnectionEnds;
	readonly #shares = new CertificateShares();
	/** Load balancers that begin each connection with a PROXY header; `undefined`: none. */
	readonly #balancers: Balancers | undefined;
	/** Handshakes in progress, and waits for PROXY headers. */
	readonly #handshakes = new Set<Handshake | HeaderWait>();
	/** All connections. */
	readonly #sockets = new Set<Socket>();
	readonly #refusals: RateLimitedLog;
	#open = 0;
	/** Connections accepted so far. */
	#accepted = 0;
	#onDrained: (() => void) | undefined;

	constructor(plane: DataPlane, seed: WorkerSeed) {
		this.#plane = plane;
		this.#connections = new Budget(seed.connections, seed.index);
		this.#http1 = new Http1Front(plane);
		this.#http2 = new Http2Front(plane);
		this.#tls = createListenerContexts(seed.tls);
		this.#policy = new ClientPolicy(seed.tls);
		this.#ends = this.#createEnds();
		this.#balancers = seed.proxyProtocol && {
			ranges: new AddressRanges(seed.proxyProtocol.from),
			deadlines: plane.deadlines.proxyHeader(seed.proxyProtocol.timeoutMs),
		};
		this.#refusals = new RateLimitedLog(plane.log, plane.clock);
		this.#tcp = createTcpServer({ noDelay: true }, (socket) => {
			try {
				this.#onConnection(socket);
			} catch (error) {
				socket.destroy();
				this.onFault(error);
			}
		});
	}

	/** @returns the port. @throws the error of `listen`. */
	listen(bind: WorkerSeed['bind'], reusePort: boolean): Promise<number> {
		return new Promise((resolve, reject) => {
			this.#tcp.once('error', reject);
			this.#tcp.listen({ ...bind, reusePort, backlog: 4096 }, () => {
				this.#tcp.removeListener('error', reject);
				keepSpareDescriptor(() =>
					this.#refusals.write('warn', LISTENER, EXHAUSTED, EXHAUSTED, () => ({ reason: 'descriptors' })),
				);
				this.#tcp.on('error', (error: NodeJS.ErrnoException) => {
					this.#refusals.write('error', LISTENER, 'accept failed', `accept ${error.code}`, () => ({ error }));
				});
				resolve((this.#tcp.address() as { port: number }).port);
			});
		});
	}

	/**
	 * New connections get the new identity and CAs. Live ones keep those of their handshake, unless they are revoked now, or may not
	 * outlive their CA.
	 */
	useTls(contexts: ListenerContexts, policy: ClientPolicy): void {
		const { endAtExpiry } = this.#policy;
		this.#tls = contexts;
		this.#policy = policy;
		if (!policy.asksLiveConnections && policy.endAtExpiry === endAtExpiry) return;
		const { clock } = this.#plane;
		this.#ends.sweep((certificate, admission) =>
			policy.ends(certificate, admission, contexts.bundle, clock.wallSeconds()),
		);
	}

	/** The current identity and CAs. */
	get tls(): ListenerContexts {
		return this.#tls;
	}

	#createEnds(): ConnectionEnds {
		const { clock, stats, log, deadlines } = this.#plane;
		const [http1, http2] = [this.#http1, this.#http2];
		return new ConnectionEnds({
			clock,
			stats,
			log,
			deadlines,
			live: function* () {
				yield* http1.connections;
				yield* http2.connections;
			},
			endOf: (certificate) => this.#policy.endOf(certificate),
			soon: setImmediate,
		});
	}

	/**
	 * Closes the listener. Closing resets the connections that the kernel has already accepted, so these are accepted first: one in
	 * each turn of the event loop, as libuv does.
	 *
	 * @param onClosed called once; from then on new connections are refused.
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
	 * Tells the clients, and lets requests in flight finish.
	 *
	 * @param onDrained called once, when the last connection has ended.
	 */
	drain(onDrained: () => void): void {
		this.#onDrained = onDrained;
		this.#http1.drain();
		this.#http2.drain();
		afterDrainGrace(this, () => this.#dropSilent());
		this.#checkDrained();
	}

	/** Drops connections that have sent nothing. Other handshakes have their own limit. */
	#dropSilent(): void {
		for (const { bytesRead, socket } of this.#handshakes) if (bytesRead === 0) socket.destroy();
	}

	/** The drain has reached its limit: requests in flight end as failed, and connections close once their clients have been told. */
	cut(): void {
		for (const { connections } of [this.#http1, this.#http2]) for (const connection of connections) connection.cut();
		setTimeout(() => {
			for (const socket of this.#sockets) socket.destroy();
		}, CUT_GRACE_MS);
	}

	/** Stops accepting and reading: this thread is about to end. */
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
		// It was reset before it was accepted, so it has no address.
		if (remoteAddress === undefined) {
			socket.destroy();
			return this.#reportFailure('nothing sent', () => ({ reason: 'nothing sent' }));
		}
		const peer = plainAddress(remoteAddress);
		if (descriptorsExhausted()) return this.#refuse(socket, 'descriptors', peer);
		if (!this.#connections.tryClaim(1)) return this.#refuse(socket, 'max_connections', peer);
		this.#open++;
		this.#sockets.add(socket);
		socket.on('error', () => socket.destroy());
		this.#plane.stats.connections('handshake', 1);
		socket.once('close', () => {
			this.#open--;
			this.#sockets.delete(socket);
			this.#connections.release(1);
			this.#checkDrained();
		});
		if (this.#balancers?.ranges.has(peer)) this.#awaitHeader(socket, peer, this.#balancers);
		else this.#shakeHands(socket, { peer, headerBytes: 0 });
	}

	/** An internal error on a connection without a request. The socket is already destroyed. */
	onFault(error: unknown): void {
		this.#plane.log.error(LISTENER, 'internal error', { error });
	}

	#refuse(socket: Socket, reason: ConnectionRefusal, peer: string): void {
		socket.destroy();
		this.#plane.stats.count('connectionRefusals', reason);
		this.#refusals.write('warn', LISTENER, REFUSED[reason], reason, () => ({ reason, peer }));
	}

	#awaitHeader(socket: Socket, balancer: string, { deadlines }: Balancers): void {
		const wait = new HeaderWait(socket, balancer, this);
		this.#handshakes.add(wait);
		deadlines.add(wait);
	}

	/** For `HeaderWait`. */
	onHeader(wait: HeaderWait, { client, length }: ProxyHeader): void {
		const { socket, balancer } = wait;
		this.#handshakes.delete(wait);
		wait.cancelDeadline();
		// A balancer that connects on its own behalf is the client itself.
		const origin = client === undefined ? { peer: balancer } : { peer: client, balancer };
		this.#shakeHands(socket, { ...origin, headerBytes: length });
	}

	/** For `HeaderWait`. */
	onNoHeader(wait: HeaderWait, reason: HandshakeRefusal): void {
		this.#endHandshake(wait);
		this.#reportFailure(reason, () => ({ reason, peer: wait.balancer }));
	}

	#shakeHands(socket: Socket, origin: Origin): void {
		const { clock, deadlines } = this.#plane;
		const handshake = new Handshake(socket, origin, this.#tls, clock.now(), this);
		this.#handshakes.add(handshake);
		deadlines.handshake.add(handshake);
	}

	#endHandshake(handshake: Handshake | HeaderWait): void {
		this.#handshakes.delete(handshake);
		handshake.cancelDeadline();
		this.#plane.stats.connections('handshake', -1);
	}

	#reportFailure(reason: HandshakeRefusal, fields: () => Record<string, unknown>): void {
		this.#plane.stats.count('handshakeRefusals', reason);
		// Load balancers check the port all the time, which is not worth a log line.
		const level = reason === 'nothing sent' ? 'debug' : 'info';
		this.#refusals.write(level, 'proxy::tls', 'handshake failed', reason, fields);
	}

	/** For `Handshake`. */
	onRefused(handshake: Handshake, reason: HandshakeRefusal, error: string | undefined): void {
		this.#endHandshake(handshake);
		this.#reportFailure(reason, () => {
			const { peer, balancer } = handshake.origin;
			const certificate = handshake.socket.getPeerX509Certificate();
			return { reason, peer, balancer, error, ...(certificate && namesOf(certificate)) };
		});
	}

	/** For `Handshake`. */
	judge({ contexts }: Handshake, certificate: X509Certificate): HandshakeRefusal | undefined {
		const seconds = this.#plane.clock.wallSeconds();
		const admission = { bundle: contexts.bundle, seconds };
		const refusal = this.#policy.refuse(certificate, admission, seconds);
		if (refusal !== undefined) return refusal;
		// The CAs may have changed during the handshake.
		return this.#policy.isRemoved(certificate, admission, this.#tls.bundle) ? 'unknown CA' : undefined;
	}

	/** For `Handshake`. */
	onSecure(handshake: Handshake, certificate: X509Certificate): void {
		this.#endHandshake(handshake);
		const { socket, origin, startedAt } = handshake;
		const { clock, stats, histograms, limits } = this.#plane;
		const now = clock.now();
		stats.handshakes.record(now - startedAt, now);
		histograms.handshakes.record(now - startedAt);
		const version = socket.getProtocol();
		if (isTlsVersion(version)) stats.count(version, groupOf(socket.getSession()));
		const front = socket.alpnProtocol === 'h2' ? this.#http2 : this.#http1;
		const connection = front.accept(socket, origin.peer, this.#shareOf(socket, certificate));
		const age = withJitter(limits.maxConnectionAgeMs / 1000, Math.random());
		const seconds = clock.wallSeconds();
		const oldAt = age === 0 ? Number.POSITIVE_INFINITY : seconds + age;
		this.#ends.expect(connection, certificate, { bundle: handshake.contexts.bundle, seconds, oldAt });
	}

	/** The connection's share of this worker; a part of it is common to all connections with the same certificate. */
	#shareOf(socket: TLSSocket, { fingerprint256 }: X509Certificate): ConnectionShare {
		const share = new ConnectionShare(this.#shares.enter(fingerprint256));
		socket.once('close', () => {
			share.leave();
			this.#shares.leave(fingerprint256, this.#plane.clock.now());
		});
		return share;
	}
}

/** Load balancers that send a PROXY header, and its time limit. */
interface Balancers {
	readonly ranges: AddressRanges;
	readonly deadlines: DeadlineQueue;
}

function isTlsVersion(version: string | null): version is TlsVersionName {
	return (TLS_VERSIONS as readonly (string | null)[]).includes(version);
}

const LISTENER = 'proxy::listener';

const REFUSED: Readonly<Record<ConnectionRefusal, string>> = {
	max_connections: 'connection refused: limits.max_connections are open',
	descriptors: 'connection refused: no file descriptor is left; raise the limit (ulimit -n, LimitNOFILE)',
};
const EXHAUSTED =
	'no file descriptor is left: new connections may be refused without a further line; raise the limit (ulimit -n, LimitNOFILE)';

/** How long connections are still accepted if more keep coming, ms. */
const LAST_ACCEPTS_MS = 2_000;
/** Time for the last responses, ms. */
const CUT_GRACE_MS = 200;

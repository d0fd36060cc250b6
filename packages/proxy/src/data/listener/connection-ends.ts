import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { Admission } from '../../identity/client-chain.ts';
import type { ConnectionEnd, WorkerStats } from '../../memory/worker-stats.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import { type DeadlineQueue, Timed } from '../loop/deadlines.ts';
import { namesOf } from './certificate-names.ts';

/** A connection after its handshake, in its front. */
export interface LiveConnection {
	readonly client: ClientConnection;
	readonly socket: Socket;
	/** Wall-clock seconds at which it must end; infinite for most. */
	endsAt: number;
	/** Set by `expect`. */
	admitted: Admitted | undefined;
	/** Stops taking new requests, ends tunnels, lets other requests in flight finish, and closes. A second call has no effect. */
	drain(why: ConnectionEnd | 'drain'): void;
}

/** How a connection was admitted, and for how long. */
export interface Admitted extends Admission {
	/** Wall-clock seconds at which it reaches its maximum age; infinite: never. */
	oldAt: number;
}

export interface EndsParts {
	readonly clock: Clock;
	readonly stats: Pick<WorkerStats, 'count'>;
	readonly log: Logger;
	readonly deadlines: {
		/** Its length is the interval between two checks. */
		readonly patrol: DeadlineQueue;
		/** Its length is the time that an ending connection gets to finish. */
		readonly ending: DeadlineQueue;
	};
	/** All open connections. */
	readonly live: () => Iterable<LiveConnection>;
	/** When a certificate ends its connections, wall-clock seconds. */
	readonly endOf: (certificate: X509Certificate) => number;
	/** Runs a callback in a later turn of the event loop. */
	readonly soon: (run: () => void) => void;
}

/**
 * Ends connections when their certificate expires, when they are too old, or when a reload revokes their client. A connection costs
 * only a number here: all are checked when the earliest one is due.
 */
export class ConnectionEnds extends Timed {
	readonly #parts: EndsParts;
	/** Wall-clock seconds before which no connection is due. May be that of a closed connection. */
	#earliest = Number.POSITIVE_INFINITY;
	/** Connections that are closed soon, even with requests in flight. */
	readonly #doomed = new WeakSet<LiveConnection>();
	/** The current sweep; a new one replaces it. */
	#sweep = 0;

	constructor(parts: EndsParts) {
		super();
		this.#parts = parts;
		parts.deadlines.patrol.add(this);
	}

	/** Adds a connection after its handshake. */
	expect(connection: LiveConnection, certificate: X509Certificate, admitted: Admitted): void {
		connection.admitted = admitted;
		this.#schedule(connection, this.#parts.endOf(certificate));
	}

	#schedule(connection: LiveConnection, expiry: number): void {
		connection.endsAt = Math.min(expiry, connection.admitted!.oldAt);
		if (connection.endsAt < this.#earliest) this.#earliest = connection.endsAt;
	}

	override onDeadline(): void {
		this.#parts.deadlines.patrol.add(this);
		const now = this.#parts.clock.wallSeconds();
		if (now < this.#earliest) return;
		this.#earliest = Number.POSITIVE_INFINITY;
		const due: LiveConnection[] = [];
		for (const connection of this.#parts.live()) {
			if (connection.endsAt <= now) {
				// It must not be due again before its turn.
				connection.endsAt = Number.POSITIVE_INFINITY;
				due.push(connection);
			} else if (connection.endsAt < this.#earliest) this.#earliest = connection.endsAt;
		}
		// Many may be due at once: certificates that were issued together, clients that reconnected after a restart.
		this.#inTurns(due, (connection) => this.#endByTime(connection, now), ALWAYS);
	}

	#endByTime(connection: LiveConnection, now: number): void {
		if (this.#doomed.has(connection) || connection.socket.destroyed) return;
		const certificate = connection.client.readCertificate();
		const expiry = certificate === undefined ? Number.POSITIVE_INFINITY : this.#parts.endOf(certificate);
		if (expiry <= now) return this.#end(connection, 'expired', certificate);
		// A reload may have postponed its expiry. And requests on an old connection may outlast its certificate.
		const admitted = connection.admitted!;
		const isOld = admitted.oldAt <= now;
		if (isOld) admitted.oldAt = Number.POSITIVE_INFINITY;
		this.#schedule(connection, expiry);
		if (isOld) this.#end(connection, 'age', certificate);
	}

	/**
	 * Judges all live connections again, a few in each turn of the event loop: reading a certificate takes about 100 µs.
	 */
	sweep(judge: (certificate: X509Certificate, admission: Admission) => ConnectionEnd | undefined): void {
		const sweep = ++this.#sweep;
		let faults = 0;
		const look = (connection: LiveConnection) => {
			if (this.#doomed.has(connection)) return;
			let certificate: X509Certificate | undefined;
			let reason: ConnectionEnd | undefined;
			try {
				// A connection that has closed in the meantime has no certificate.
				certificate = connection.client.readCertificate();
				if (certificate === undefined) return;
				reason = judge(certificate, connection.admitted!);
				if (reason === undefined) this.#schedule(connection, this.#parts.endOf(certificate));
			} catch (error) {
				// The reload goes on. A client that cannot be judged would not be admitted either.
				if (faults++ === 0) this.#reportFault(error as Error);
				certificate = undefined;
				reason = 'revoked';
			}
			if (reason !== undefined) this.#end(connection, reason, certificate);
		};
		this.#inTurns([...this.#parts.live()], look, () => sweep === this.#sweep);
	}

	/** Runs for each connection, a few in each turn of the event loop, while `wanted` returns true. */
	#inTurns(waiting: LiveConnection[], run: (connection: LiveConnection) => void, wanted: () => boolean): void {
		if (!wanted()) return;
		for (const connection of waiting.splice(-A_FEW)) {
			try {
				run(connection);
			} catch (error) {
				// The others must not stay open for it.
				connection.socket.destroy();
				this.onFault(error);
			}
		}
		if (waiting.length > 0) this.#parts.soon(() => this.#inTurns(waiting, run, wanted));
	}

	/** The next check is already scheduled. */
	override onFault(error: unknown): void {
		this.#parts.log.error('proxy::tls', 'internal error', { error });
	}

	#reportFault({ message }: Error): void {
		this.#parts.log.error('proxy::tls', 'a connection could not be checked after a reload; ending it', {
			error: message,
		});
	}

	#end(connection: LiveConnection, reason: ConnectionEnd, certificate: X509Certificate | undefined): void {
		const { stats, log, deadlines } = this.#parts;
		stats.count('connectionEnds', reason);
		log.info('proxy::tls', 'connection is being ended', {
			reason,
			peer: connection.client.ip,
			...(certificate && namesOf(certificate)),
		});
		connection.drain(reason);
		// Age is not the client's fault: requests under way have their own limits.
		if (reason === 'age') return;
		this.#doomed.add(connection);
		deadlines.ending.add(new LastMoment(connection.socket));
	}
}

const ALWAYS = () => true;

/** Connections for each turn of the event loop. */
const A_FEW = 32;

/** Destroys a connection that is still open at its deadline. */
class LastMoment extends Timed {
	readonly #socket: Socket;

	constructor(socket: Socket) {
		super();
		this.#socket = socket;
		socket.once('close', () => this.cancelDeadline());
	}

	override onDeadline(): void {
		this.#socket.destroy();
	}
}

/** @param random from 0 to 1. @returns up to a tenth more or less, so that simultaneous connections do not all end at once. */
export function withJitter(seconds: number, random: number): number {
	return seconds * (0.9 + 0.2 * random);
}

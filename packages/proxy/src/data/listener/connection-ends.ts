import type { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { Admission } from '../../identity/client-chain.ts';
import type { ConnectionEnd, WorkerStats } from '../../memory/stats.ts';
import type { ClientConnection } from '../client/client-connection.ts';
import { type DeadlineQueue, Timed } from '../loop/deadlines.ts';
import { namesOf } from './certificate-names.ts';

/** A connection whose handshake is done, as its front has it. */
export interface LiveConnection {
	readonly client: ClientConnection;
	readonly socket: Socket;
	/** Wall-clock seconds at which it must end; infinite for most. */
	endsAt: number;
	/** Set by `expect`. */
	admitted: Admitted | undefined;
	/** Takes no new requests, lets those under way finish but for tunnels, which end, and closes. Where it is doing so already, nothing happens. */
	drain(why: ConnectionEnd | 'drain'): void;
}

/** By what, and for how long, a connection has been let in. */
export interface Admitted extends Admission {
	/** Wall-clock seconds at which it is too old; infinite: never. */
	oldAt: number;
}

export interface EndsParts {
	readonly clock: Clock;
	readonly stats: Pick<WorkerStats, 'count'>;
	readonly log: Logger;
	readonly deadlines: {
		/** Its length is the interval between two looks. */
		readonly patrol: DeadlineQueue;
		/** Its length is the time that a connection gets to finish. */
		readonly ending: DeadlineQueue;
	};
	/** All open connections. */
	readonly live: () => Iterable<LiveConnection>;
	/** When a certificate ends its connections, wall-clock seconds. */
	readonly endOf: (certificate: X509Certificate) => number;
	/** Runs later, when the loop has done other things. */
	readonly soon: (run: () => void) => void;
}

/**
 * Ends connections before their clients do: at their certificate's end, at their age, or because a reload has revoked their
 * client. A connection costs only a number here: all are checked when the earliest one is due.
 */
export class ConnectionEnds extends Timed {
	readonly #parts: EndsParts;
	/** Wall-clock seconds before which no connection is due. May stem from a closed connection. */
	#earliest = Number.POSITIVE_INFINITY;
	/** Those that are closed soon whatever is under way on them. */
	readonly #doomed = new WeakSet<LiveConnection>();
	/** The current sweep; a new one replaces it. */
	#sweep = 0;

	constructor(parts: EndsParts) {
		super();
		this.#parts = parts;
		parts.deadlines.patrol.add(this);
	}

	/** A connection is up. */
	expect(connection: LiveConnection, certificate: X509Certificate, admitted: Admitted): void {
		connection.admitted = admitted;
		this.#schedule(connection, this.#parts.endOf(certificate));
	}

	#schedule(connection: LiveConnection, expiry: number): void {
		connection.endsAt = Math.min(expiry, connection.admitted!.oldAt);
		if (connection.endsAt < this.#earliest) this.#earliest = connection.endsAt;
	}

	/** It is time to look. */
	override onDeadline(): void {
		this.#parts.deadlines.patrol.add(this);
		const now = this.#parts.clock.wallSeconds();
		if (now < this.#earliest) return;
		this.#earliest = Number.POSITIVE_INFINITY;
		const due: LiveConnection[] = [];
		for (const connection of this.#parts.live()) {
			if (connection.endsAt <= now) {
				// Until its turn has come it is not due a second time.
				connection.endsAt = Number.POSITIVE_INFINITY;
				due.push(connection);
			} else if (connection.endsAt < this.#earliest) this.#earliest = connection.endsAt;
		}
		// Those of one moment may be many: certificates that were issued together, clients that have all come back after a restart.
		this.#inTurns(due, (connection) => this.#endByTime(connection, now), ALWAYS);
	}

	#endByTime(connection: LiveConnection, now: number): void {
		if (this.#doomed.has(connection) || connection.socket.destroyed) return;
		const certificate = connection.client.readCertificate();
		const expiry = certificate === undefined ? Number.POSITIVE_INFINITY : this.#parts.endOf(certificate);
		if (expiry <= now) return this.#end(connection, 'expired', certificate);
		// A reload may have put off what it was due for. And what is under way on an old one may outlast the certificate.
		const admitted = connection.admitted!;
		const isOld = admitted.oldAt <= now;
		if (isOld) admitted.oldAt = Number.POSITIVE_INFINITY;
		this.#schedule(connection, expiry);
		if (isOld) this.#end(connection, 'age', certificate);
	}

	/**
	 * Asks of all connections that are up whether they have to end, now or later, a few in a turn of the loop: reading a certificate
	 * takes some 100 µs.
	 */
	sweep(judge: (certificate: X509Certificate, admission: Admission) => ConnectionEnd | undefined): void {
		const sweep = ++this.#sweep;
		let faults = 0;
		const look = (connection: LiveConnection) => {
			if (this.#doomed.has(connection)) return;
			let certificate: X509Certificate | undefined;
			let reason: ConnectionEnd | undefined;
			try {
				// A connection that has closed meanwhile has no certificate.
				certificate = connection.client.readCertificate();
				if (certificate === undefined) return;
				reason = judge(certificate, connection.admitted!);
				if (reason === undefined) this.#schedule(connection, this.#parts.endOf(certificate));
			} catch (error) {
				// The reload goes on. A client that cannot be judged anew would not be let in, either.
				if (faults++ === 0) this.#reportFault(error as Error);
				certificate = undefined;
				reason = 'revoked';
			}
			if (reason !== undefined) this.#end(connection, reason, certificate);
		};
		this.#inTurns([...this.#parts.live()], look, () => sweep === this.#sweep);
	}

	/** Does it for all of them, a few in a turn of the loop, as long as it is `wanted`. */
	#inTurns(waiting: LiveConnection[], run: (connection: LiveConnection) => void, wanted: () => boolean): void {
		if (!wanted()) return;
		for (const connection of waiting.splice(-A_FEW)) run(connection);
		if (waiting.length > 0) this.#parts.soon(() => this.#inTurns(waiting, run, wanted));
	}

	/** The next look has its deadline already. */
	override onFault(error: unknown): void {
		this.#parts.log.error('proxy::tls', 'internal error', { error });
	}

	#reportFault({ message }: Error): void {
		this.#parts.log.error('proxy::tls', 'a connection could not be judged after a reload; ending it', {
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

/** Connections looked at in one turn of the loop. */
const A_FEW = 32;

/** Closes what is still open then. */
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

/** @param random from 0 to 1. @returns a tenth more or less, so that connections of one moment do not all end in one. */
export function withJitter(seconds: number, random: number): number {
	return seconds * (0.9 + 0.2 * random);
}

import type { ClientProtocol } from '../../../http2/client/client-protocol.ts';
import { Timed } from '../../loop/deadlines.ts';
import type { PlaneDeadlines } from '../../plane/plane-deadlines.ts';
import type { Http2UpstreamConnection } from './connection.ts';

/** The part of a connection that is watched. */
interface Watched extends Pick<Http2UpstreamConnection, 'reads' | 'onSilence' | 'onFault'> {
	readonly protocol: Pick<ClientProtocol, 'ping'>;
}

/**
 * Watches a connection with requests under way. A lost connection (a NAT, a machine without power) is silent: after
 * a while without a byte a PING is sent, and if no byte follows, the connection has ended (RFC 9113 section 6.7).
 */
export class Liveness extends Timed {
	readonly #connection: Watched;
	readonly #deadlines: Pick<PlaneDeadlines, 'ping' | 'pong' | 'now'>;
	#readsBefore = -1;
	#isAsked = false;
	/** Time of the last PING, monotonic milliseconds. */
	#askedAt = Number.NEGATIVE_INFINITY;

	constructor(connection: Watched, deadlines: Pick<PlaneDeadlines, 'ping' | 'pong' | 'now'>) {
		super();
		this.#connection = connection;
		this.#deadlines = deadlines;
	}

	/** A request is under way. */
	watch(): void {
		if (this.deadline.queue !== undefined) return;
		this.#look(false);
	}

	onPong(): void {
		if (this.#isAsked && this.deadline.queue !== undefined) this.#look(false);
	}

	override onDeadline(): void {
		const { reads, protocol } = this.#connection;
		if (reads !== this.#readsBefore) return this.#look(false);
		if (this.#isAsked) return this.#connection.onSilence();
		const { now } = this.#deadlines;
		if (now - this.#askedAt < BETWEEN_PINGS_MS) return this.#look(false);
		this.#askedAt = now;
		protocol.ping(OPAQUE);
		this.#look(true);
	}

	#look(isAsked: boolean): void {
		this.#isAsked = isAsked;
		this.#readsBefore = this.#connection.reads;
		const { ping, pong } = this.#deadlines;
		(isAsked ? pong : ping).add(this);
	}

	override onFault(error: unknown): void {
		this.#connection.onFault(error);
	}
}

/**
 * Servers of gRPC allow a PING in five minutes while no response goes out. After the third early one they end the connection
 * (`too_many_pings`), and every stream on it.
 */
const BETWEEN_PINGS_MS = 310_000;
const OPAQUE = 'upstream';

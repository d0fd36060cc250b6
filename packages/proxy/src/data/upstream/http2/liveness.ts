import { Timed } from '../../loop/deadlines.ts';
import type { ConnectionOwner, Http2UpstreamConnection } from './connection.ts';

/**
 * Watches a connection with requests under way. A connection that was lost on its way (a NAT, a machine without power) says nothing at all:
 * after a while without a byte a PING is sent, and if that changes nothing, the connection has ended (RFC 9113 section 6.7).
 */
export class Liveness extends Timed {
	readonly #connection: Http2UpstreamConnection;
	readonly #owner: ConnectionOwner;
	#readsBefore = -1;
	#isAsked = false;

	constructor(connection: Http2UpstreamConnection, owner: ConnectionOwner) {
		super();
		this.#connection = connection;
		this.#owner = owner;
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
		protocol.ping(OPAQUE);
		this.#look(true);
	}

	#look(isAsked: boolean): void {
		this.#isAsked = isAsked;
		this.#readsBefore = this.#connection.reads;
		this.#owner.lookLater(this, isAsked);
	}

	override onFault(error: unknown): void {
		this.#connection.onFault(error);
	}
}

const OPAQUE = 'upstream';

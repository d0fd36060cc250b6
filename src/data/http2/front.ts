import type { TLSSocket } from 'node:tls';
import type { RateLimitedLog } from '../../shared/rate-limited-log.ts';
import type { DataPlane } from '../plane.ts';
import { type ConnectionOwner, Http2Connection } from './connection.ts';
import type { Http2Request } from './request.ts';

/**
 * The HTTP/2 front. It takes over connections whose handshake is done, and does at the end of each turn of the loop what
 * all of them have to do then.
 */
export class Http2Front implements ConnectionOwner {
	readonly plane: DataPlane;
	readonly log: RateLimitedLog;
	readonly #connections = new Set<Http2Connection>();
	#draining = false;
	/** Requests that have come in this turn of the loop, and connections that have something to write. */
	#opened: Http2Request[] = [];
	#writing: Http2Connection[] = [];
	#turnEndsSoon = false;

	constructor(plane: DataPlane) {
		this.plane = plane;
		this.log = plane.strangers;
	}

	/** @param peer the client's IP. */
	accept(socket: TLSSocket, peer: string): void {
		const connection = new Http2Connection(this, socket, peer);
		this.#connections.add(connection);
		this.plane.stats.connections('h2', 1);
		socket.on('close', () => {
			this.#connections.delete(connection);
			this.plane.stats.connections('h2', -1);
			connection.onClose();
		});
		if (this.#draining) connection.drain();
	}

	/** Tells all clients to open no more streams here; those under way are served. */
	drain(): void {
		this.#draining = true;
		for (const connection of this.#connections) connection.drain();
	}

	whenTurnEnds(request: Http2Request): void {
		this.#opened.push(request);
		this.#schedule();
	}

	flushLater(connection: Http2Connection): void {
		this.#writing.push(connection);
		this.#schedule();
	}

	#schedule(): void {
		if (this.#turnEndsSoon) return;
		this.#turnEndsSoon = true;
		setImmediate(this.#endTurn);
	}

	/**
	 * Requests begin at the end of the turn that has brought them: whoever opens streams and resets them at once (rapid reset,
	 * CVE-2023-44487) has done both by then, and nobody has gone to an upstream in vain. What is refused at once goes out
	 * with the answers that have come in the same turn.
	 */
	readonly #endTurn = (): void => {
		const opened = this.#opened;
		this.#opened = [];
		for (const request of opened) if (!request.isClosed) request.exchange.start();
		this.#turnEndsSoon = false;
		const writing = this.#writing;
		this.#writing = [];
		for (const connection of writing) connection.flush();
	};
}

import type { TLSSocket } from 'node:tls';
import type { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { guarded } from '../loop/faults.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import { FlushQueue, STEP } from '../loop/turn-end.ts';
import type { DataPlane } from '../plane/plane.ts';
import { type ConnectionOwner, Http2Connection } from './connection.ts';
import type { Http2Request } from './request.ts';

/**
 * The HTTP/2 front. It takes over connections whose handshake is done, and does their common work
 * at the end of each turn of the loop.
 */
export class Http2Front implements ConnectionOwner {
	readonly plane: DataPlane;
	readonly log: RateLimitedLog;
	readonly connections = new Set<Http2Connection>();
	#draining = false;
	#opened: Http2Request[] = [];
	readonly #writing: FlushQueue;

	constructor(plane: DataPlane) {
		this.plane = plane;
		this.log = plane.strangers;
		this.#writing = new FlushQueue(plane.turnEnd);
	}

	accept(socket: TLSSocket, peer: string, share: ConnectionShare): Http2Connection {
		const connection = new Http2Connection(this, socket, peer, share);
		this.connections.add(connection);
		this.plane.stats.connections('h2', 1);
		const onClose = () => {
			this.connections.delete(connection);
			this.plane.stats.connections('h2', -1);
			connection.onClose();
		};
		socket.once('close', guarded(connection, onClose));
		if (this.#draining) connection.drain('drain');
		return connection;
	}

	/** Tells all clients to open no more streams here; those under way are served. */
	drain(): void {
		this.#draining = true;
		for (const connection of this.connections) connection.drain('drain');
	}

	whenTurnEnds(request: Http2Request): void {
		if (this.#opened.length === 0) this.plane.turnEnd.add(STEP.begin, this.#startAll);
		this.#opened.push(request);
	}

	flushLater(connection: Http2Connection): void {
		this.#writing.add(connection);
	}

	/**
	 * Requests begin at the end of their turn. A client that opens streams and resets them at once (rapid reset,
	 * CVE-2023-44487) has done both by then, and no request has gone to an upstream in vain. Immediate refusals go out
	 * with the responses of the same turn.
	 */
	readonly #startAll = (): void => {
		const opened = this.#opened;
		this.#opened = [];
		for (const { isClosed, exchange } of opened) if (!isClosed) exchange.start();
	};
}

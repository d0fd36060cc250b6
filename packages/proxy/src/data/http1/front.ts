import type { TLSSocket } from 'node:tls';
import { guarded } from '../loop/faults.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import { FlushQueue } from '../loop/turn-end.ts';
import type { DataPlane } from '../plane/plane.ts';
import { Http1Connection } from './connection.ts';

/**
 * The HTTP/1.1 front (RFC 9112). Each connection reads its own bytes: `head-reader.ts` and `request-body.ts` know the grammar,
 * `connection.ts` the order of requests and the time limits, `request.ts` presents each request to the pipeline as a
 * `ClientRequest`, `response.ts` writes. `node:http` takes no part in a request.
 */
export class Http1Front {
	readonly #plane: DataPlane;
	readonly connections = new Set<Http1Connection>();
	readonly #flushes: FlushQueue;
	#draining = false;

	constructor(plane: DataPlane) {
		this.#plane = plane;
		this.#flushes = new FlushQueue(plane.turnEnd);
	}

	/** Takes over a connection whose handshake is done. @param peer the client's IP. */
	accept(socket: TLSSocket, peer: string, share: ConnectionShare): Http1Connection {
		const connection = new Http1Connection(socket, peer, share, this.#plane, this.#flushes);
		this.connections.add(connection);
		this.#plane.stats.connections('http/1.1', 1);
		const onClose = () => {
			this.connections.delete(connection);
			this.#plane.stats.connections('http/1.1', -1);
			connection.onClose();
		};
		socket.once('close', guarded(connection, onClose));
		if (this.#draining) connection.drain('drain');
		return connection;
	}

	/** Makes each response the last one of its connection from now on. */
	drain(): void {
		this.#draining = true;
		for (const connection of this.connections) connection.drain('drain');
	}
}

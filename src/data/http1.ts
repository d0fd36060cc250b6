import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { Http1Connection } from './http1-connection.ts';
import { Http1Incoming } from './http1-incoming.ts';
import type { DataPlane } from './plane.ts';

/**
 * The HTTP/1.1 front. Node's parser (llhttp) faces the client; this file adds what Node leaves open (time limits, one
 * request of a connection at a time, lingering close) and presents each request to the pipeline as a `ClientRequest`.
 */
export class Http1Front {
	readonly #plane: DataPlane;
	readonly #server: Server;
	readonly #connections = new Map<Duplex, Http1Connection>();
	#draining = false;

	constructor(plane: DataPlane) {
		this.#plane = plane;
		this.#server = createServer({
			IncomingMessage: Http1Incoming as unknown as typeof IncomingMessage,
			maxHeaderSize: plane.limits.maxHeaderBytes,
			insecureHTTPParser: false,
			// All time limits are ours: Node checks its own every 30 s, and never on a server that does not listen.
			keepAliveTimeout: 0,
			requestTimeout: 0,
			headersTimeout: 0,
			connectionsCheckingInterval: 2 ** 30,
		});
		this.#server.timeout = 0;
		// Beyond 2000 fields Node would drop the rest without a word; the head's size is what limits them.
		this.#server.maxHeadersCount = 0;
		this.#server.on('clientError', (error, socket) => this.#connectionOf(socket)?.onParseError(error));
	}

	/** Takes over a connection whose handshake is done. @param peer the client's IP. */
	accept(socket: TLSSocket, peer: string): void {
		const connection = new Http1Connection(socket, peer, this.#plane);
		this.#connections.set(socket, connection);
		this.#plane.stats.connections('http/1.1', 1);
		socket.once('close', () => {
			this.#connections.delete(socket);
			this.#plane.stats.connections('http/1.1', -1);
			connection.onClose();
		});
		if (this.#draining) connection.drain();
		this.#server.emit('connection', socket);
		// In place of what makes a `ServerResponse`, keeps answers in their order, and decides on `Expect` and upgrades.
		(socket as ParsedSocket).parser.onIncoming = (req, mayStay) => {
			connection.onRequest(req, mayStay);
			return READ_BODY;
		};
		// Behind Node's own listener, which begins to read again after each request.
		socket.on('resume', () => connection.onResume());
		socket.on('drain', () => connection.onDrain());
	}

	/** From now on each answer is the last one of its connection. */
	drain(): void {
		this.#draining = true;
		for (const connection of this.#connections.values()) connection.drain();
	}

	get size(): number {
		return this.#connections.size;
	}

	#connectionOf(socket: Duplex): Http1Connection | undefined {
		return this.#connections.get(socket);
	}
}

/** What Node's HTTP server has put on the socket. */
interface ParsedSocket extends TLSSocket {
	/** Reads the socket, and calls this with each head. */
	readonly parser: { onIncoming: (req: Http1Incoming, shouldKeepAlive: boolean) => number };
}

/** What llhttp is told when a head is complete: go on as the framing says. */
const READ_BODY = 0;

import type { ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';

export interface Drainable {
	/** Stops accepting and resolves when the last connection is gone; every call gets the same promise. */
	drain(): Promise<void>;
	/** Node's `close`, which frameworks call. Requests that have not finished after `drainMs` are cut. */
	close(callback?: (error?: Error) => void): Server;
	/** Cuts every connection of both protocols, also during the handshake. */
	closeAllConnections(): void;
}

/**
 * Makes a server drainable. `server.close` by itself waits without a limit: for HTTP/1.1 connections that have just become idle,
 * for handshakes, and for peers that never close.
 *
 * @param drainMs the time in ms that requests in flight have to finish.
 */
export function drainable(server: Server, drainMs: number): Drainable {
	const connections = new Set<Socket>();
	const responses = new Set<ServerResponse>();
	const closeServer = server.close.bind(server);
	let cut: NodeJS.Timeout | undefined;
	let drained: Promise<void> | undefined;

	server.on('connection', (socket: Socket) => {
		connections.add(socket);
		socket.once('close', () => connections.delete(socket));
	});
	// HTTP/2 needs no help: `close` sends its GOAWAY and waits for the streams.
	server.prependListener('request', (req, res) => {
		if (req.httpVersionMajor !== 1) return;
		responses.add(res);
		res.once('close', () => responses.delete(res));
		if (cut) endConnectionAfter(res);
	});

	const closeAllConnections = () => {
		for (const socket of connections) socket.destroy();
	};
	const close = (callback?: (error?: Error) => void) => {
		if (cut === undefined) {
			cut = setTimeout(closeAllConnections, drainMs);
			for (const res of responses) endConnectionAfter(res);
			server.once('close', () => {
				clearTimeout(cut);
				cut = undefined;
			});
		}
		return closeServer(callback);
	};
	const drain = () => {
		// A server that never listened calls back with an error. Then there is nothing to wait for.
		drained ??= new Promise((resolve) => close(() => resolve()));
		return drained;
	};
	return { drain, close, closeAllConnections };
}

function endConnectionAfter(res: ServerResponse): void {
	const { socket } = res;
	if (res.headersSent) res.once('finish', () => socket?.end());
	else res.setHeader('connection', 'close');
}

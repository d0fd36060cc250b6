/**
 * A sample upstream: answers `/health`, accepts WebSockets, echoes everything else as JSON, and fails or dies on request. The echo is
 * the request as the proxy sent it, so that the demo can show the header contract.
 */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { http } from '../../shared/node-http.ts';
import { serveWebSocket } from './web-socket.ts';

export interface SampleUpstream {
	readonly name: string;
	/** `127.0.0.1:<port>`, as in metric labels. */
	readonly authority: string;
	/** From now on, all requests including `/health` get 503. */
	fail(): void;
	heal(): void;
	/** Makes the upstream die during its next request. Resolves when it has died. */
	die(): Promise<void>;
	/** Listens again on the same port. Rejects if another process holds the port for 10 s. */
	revive(): Promise<void>;
	close(): Promise<void>;
}

/** Listens on a free loopback port. Rejects with the listen error. */
export async function startSampleUpstream(name: string): Promise<SampleUpstream> {
	let failing = false;
	let onDeath: (() => void) | undefined;
	const stop = () => {
		server.close();
		server.closeAllConnections();
	};
	const server = http.createServer((request, response) => {
		if (onDeath !== undefined && request.url !== '/health') {
			stop();
			onDeath();
			onDeath = undefined;
			return;
		}
		// Only direct callers reach these switches: no route of the demo leads to them.
		const target = `${request.method} ${request.url}`;
		if (target === 'POST /_demo/fail' || target === 'POST /_demo/heal') {
			failing = target === 'POST /_demo/fail';
			respond(response, 200, { upstream: name, failing });
		} else if (failing) respond(response, 503, { upstream: name, failing });
		else if (request.url === '/health') respond(response, 200, { upstream: name, failing });
		else respond(response, 200, echo(name, request));
	});
	server.on('upgrade', (request, socket, first) => serveWebSocket(name, request, socket, first));
	const port = await listen(server, 0);
	return {
		name,
		authority: `127.0.0.1:${port}`,
		fail: () => {
			failing = true;
		},
		heal: () => {
			failing = false;
		},
		die: () =>
			new Promise((resolve) => {
				onDeath = resolve;
			}),
		revive: () => listenSoon(server, port),
		close: async () => {
			if (!server.listening) return;
			const closed = once(server, 'close');
			stop();
			await closed;
		},
	};
}

const SOON_MS = 10_000;
const POLL_MS = 100;

/** Retries: an outgoing connection may have taken the port for a short time. */
async function listenSoon(server: Server, port: number): Promise<void> {
	const deadline = performance.now() + SOON_MS;
	for (;;) {
		try {
			await listen(server, port);
			return;
		} catch (error) {
			if (performance.now() > deadline) throw error;
			await sleep(POLL_MS);
		}
	}
}

/** @returns the port. */
async function listen(server: Server, port: number): Promise<number> {
	server.listen(port, '127.0.0.1');
	await once(server, 'listening');
	return (server.address() as AddressInfo).port;
}

function echo(upstream: string, request: IncomingMessage): object {
	const { headers } = request;
	return {
		upstream,
		method: request.method,
		path: request.url,
		tenant: headers['x-proxy-tenant'] ?? null,
		'x-forwarded-for': headers['x-forwarded-for'] ?? null,
		'x-forwarded-proto': headers['x-forwarded-proto'] ?? null,
	};
}

function respond(response: ServerResponse, status: number, body: object): void {
	const text = `${JSON.stringify(body)}\n`;
	// The request body is not read: without this, Node would keep the connection stuck behind it.
	response.req.resume();
	response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
	response.end(text);
}

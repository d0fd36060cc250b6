/**
 * A sample upstream: answers `/health`, echoes everything else as JSON, and fails when told to. What it echoes is what
 * the proxy sent it (specification 2.6), so that the demo can show the header contract.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SampleUpstream {
	readonly name: string;
	/** `127.0.0.1:<port>`, as in metric labels. */
	readonly authority: string;
	/** From now on everything, `/health` included, is answered 503. */
	fail(): void;
	heal(): void;
	close(): Promise<void>;
}

/** Listens on a free loopback port. Rejects with the listen error. */
export async function startSampleUpstream(name: string): Promise<SampleUpstream> {
	let failing = false;
	const server = createServer((request, response) => {
		// The switches are for a direct caller: no route of the demo leads to them, its prefixes are others.
		const target = `${request.method} ${request.url}`;
		if (target === 'POST /_demo/fail' || target === 'POST /_demo/heal') {
			failing = target === 'POST /_demo/fail';
			answer(response, 200, { upstream: name, failing });
		} else if (failing) answer(response, 503, { upstream: name, failing });
		else if (request.url === '/health') answer(response, 200, { upstream: name, failing });
		else answer(response, 200, echo(name, request));
	});
	const authority = await new Promise<string>((resolve, reject) => {
		server.once('error', reject);
		server.listen(0, '127.0.0.1', () => resolve(`127.0.0.1:${(server.address() as AddressInfo).port}`));
	});
	return {
		name,
		authority,
		fail: () => {
			failing = true;
		},
		heal: () => {
			failing = false;
		},
		close: () =>
			new Promise((resolve) => {
				server.close(() => resolve());
				server.closeAllConnections();
			}),
	};
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

function answer(response: ServerResponse, status: number, body: object): void {
	const text = `${JSON.stringify(body)}\n`;
	// The request body is not read: without this, Node would keep the connection stuck behind it.
	response.req.resume();
	response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
	response.end(text);
}

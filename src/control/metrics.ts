import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from '../shared/log.ts';
import { descriptorsExhausted, keepSpareDescriptor } from '../shared/spare-descriptor.ts';
import { EXPOSITION_TYPE, Exposition } from './exposition.ts';
import { type MetricSources, writeProxyFamilies } from './families.ts';
import { type ListenAddress, listenProblem } from './listen.ts';
import { readProcess, writeProcessFamilies } from './process-families.ts';
import { StartError } from './start-error.ts';

export interface MetricsListener {
	readonly port: number;
	/** Ends all connections. */
	close(): void;
}

const TARGET = 'proxy::metrics';

/**
 * The plain listener of specification 4.3: `GET /metrics`, and nothing else. It runs on the main thread, so it answers
 * also while the data plane is saturated, and until the very end of a drain.
 *
 * @throws StartError when the address cannot be had.
 */
export async function startMetrics(
	address: ListenAddress,
	sources: MetricSources,
	log: Logger,
): Promise<MetricsListener> {
	// Scrapers send small requests and read at once; whoever does not is not one, and holds a connection for seconds.
	const server = createServer({
		headersTimeout: 5_000,
		requestTimeout: 5_000,
		keepAliveTimeout: 75_000,
		connectionsCheckingInterval: 1_000,
		maxHeaderSize: 8 * 1024,
	});
	server.maxConnections = 128;
	server.on('connection', (socket) => descriptorsExhausted() && socket.destroy());
	server.on('request', (request, response) => void answer(request, response, sources, log));
	await listen(server, address);
	keepSpareDescriptor();
	server.on('error', (error) => log.error(TARGET, 'accept failed', { cause: error }));
	return {
		port: (server.address() as AddressInfo).port,
		close: () => {
			server.close();
			server.closeAllConnections();
		},
	};
}

function listen(server: Server, address: ListenAddress): Promise<void> {
	return new Promise((resolve, reject) => {
		server.once('error', (error) => reject(new StartError(listenProblem(address, '--metrics-bind', error))));
		server.listen(address, resolve);
	});
}

async function answer(
	request: IncomingMessage,
	response: ServerResponse,
	sources: MetricSources,
	log: Logger,
): Promise<void> {
	const [path] = request.url!.split('?', 1);
	if (path !== '/metrics') return end(response, 404, 'not found');
	if (request.method !== 'GET' && request.method !== 'HEAD') {
		response.setHeader('allow', 'GET, HEAD');
		return end(response, 405, 'method not allowed');
	}
	try {
		const page = new Exposition();
		writeProxyFamilies(page, sources);
		writeProcessFamilies(page, await readProcess());
		end(response, 200, page.text, EXPOSITION_TYPE);
	} catch (error) {
		log.error(TARGET, 'scrape failed', { cause: error });
		end(response, 500, 'internal error');
	}
}

function end(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8'): void {
	response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
	// Node leaves the body of an answer to HEAD out.
	response.end(body);
}

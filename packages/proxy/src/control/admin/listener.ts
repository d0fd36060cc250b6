import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { http } from '../../shared/node-http.ts';
import { descriptorsExhausted, keepSpareDescriptor } from '../../shared/spare-descriptor.ts';
import { type ListenAddress, listenProblem } from '../listen.ts';
import type { MetricSources } from '../metrics/families.ts';
import { StartError } from '../start-error.ts';
import { mayAsk } from './host-names.ts';
import { end, type Page, type PageResponse, type Pages } from './page.ts';
import { processFacts } from './process-facts.ts';
import type { Readiness } from './readiness.ts';
import { metricsPage } from './scrape.ts';

export interface AdminListener {
	readonly port: number;
	/** Ends all connections. */
	close(): void;
}

/** What `/readyz` reads. */
type ReadinessFacts = Pick<Readiness, 'phase' | 'obstacle'> & Partial<Pick<Readiness, 'remark'>>;

interface AdminParts {
	readonly sources: MetricSources;
	readonly readiness: ReadinessFacts;
	readonly log: Logger;
	/** The status page, by path. */
	readonly status?: Pages;
	/** Allowed `Host` names, in addition to those that only its own network can resolve. */
	readonly hosts?: readonly string[];
	/** How long a client may read nothing of its response, ms. */
	readonly stalledMs?: number;
}

const TARGET = 'proxy::metrics';
/** How long a client may read nothing of its response, ms; a stream sends something each second. */
const STALLED_MS = 10_000;

/**
 * The plain listener: `/metrics`, `/livez` and `/readyz` for orchestrators, `/process` for `proxy reload` and `proxy drain`, and the status
 * page for people. It runs on the main thread, so it answers even while the data plane is saturated, and until the very end of a drain.
 *
 * @throws StartError if the address cannot be bound.
 */
export async function startAdmin(
	address: ListenAddress,
	{ sources, readiness, log, status = new Map(), hosts = [], stalledMs = STALLED_MS }: AdminParts,
): Promise<AdminListener> {
	const allowed: ReadonlySet<string> = new Set(hosts.map((name) => name.toLowerCase()));
	const pages = new Map<string, Page>([
		// Load balancers request these under any name, and the responses reveal nothing.
		['/livez', () => ({ status: 200, body: 'alive' })],
		['/readyz', () => ready(readiness)],
		...[...pagesOf(sources, readiness, log), ...status].map(([path, page]): [string, Page] => {
			return [path, (request) => refuseName(request, allowed) ?? page(request)];
		}),
	]);
	// Scrapers send small requests and read at once. Any other client gets its connection for a few seconds only.
	const server = http.createServer({
		headersTimeout: 5_000,
		requestTimeout: 5_000,
		keepAliveTimeout: 75_000,
		connectionsCheckingInterval: 1_000,
		maxHeaderSize: 8 * 1024,
	});
	server.maxConnections = 128;
	// With thousands of upstreams, each stalled client holds megabytes.
	server.timeout = stalledMs;
	server.on('connection', (socket) => descriptorsExhausted() && socket.destroy());
	server.on('request', (request, response) => void respond(request, response, pages, log));
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

function pagesOf(sources: MetricSources, readiness: ReadinessFacts, log: Logger): Pages {
	const process = (): PageResponse => {
		const facts = processFacts(sources.inForce, readiness.phase);
		return { status: 200, body: JSON.stringify(facts), type: 'application/json' };
	};
	return new Map<string, Page>([
		['/metrics', metricsPage(sources, log)],
		['/process', process],
	]);
}

function refuseName({ headers }: IncomingMessage, allowed: ReadonlySet<string>): PageResponse | undefined {
	if (mayAsk(headers.host, allowed)) return undefined;
	return {
		status: 421,
		body: 'this host name is not allowed: use the IP address, or add the name to hosts in [status]',
	};
}

function ready({ obstacle, remark }: ReadinessFacts): PageResponse {
	const besides = remark === undefined ? '' : `; ${remark}`;
	if (obstacle === undefined) return { status: 200, body: `ready${besides}` };
	return { status: 503, body: `not ready: ${obstacle}${besides}` };
}

async function respond(request: IncomingMessage, response: ServerResponse, pages: Pages, log: Logger): Promise<void> {
	const [path] = request.url!.split('?', 1);
	const page = pages.get(path!);
	if (page === undefined) return end(response, { status: 404, body: 'not found' });
	if (request.method !== 'GET' && request.method !== 'HEAD') {
		response.setHeader('allow', 'GET, HEAD');
		return end(response, { status: 405, body: 'method not allowed' });
	}
	try {
		end(response, await page(request));
	} catch (error) {
		log.error(TARGET, 'page failed', { path, cause: error });
		if (response.headersSent) response.destroy();
		else end(response, { status: 500, body: 'internal error' });
	}
}

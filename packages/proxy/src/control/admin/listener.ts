import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { http } from '../../shared/node-http.ts';
import { descriptorsExhausted, keepSpareDescriptor } from '../../shared/spare-descriptor.ts';
import { type ListenAddress, listenProblem } from '../listen.ts';
import type { MetricSources } from '../metrics/families.ts';
import { StartError } from '../start-error.ts';
import { processFacts } from './process-facts.ts';
import type { Readiness } from './readiness.ts';
import { metricsPage } from './scrape.ts';

export interface PageResponse {
	readonly status: number;
	readonly body: string | Buffer;
	/** Default: plain text. */
	readonly type?: string;
	readonly headers?: Readonly<Record<string, string>>;
}

export type Page = (request: IncomingMessage) => PageResponse | Promise<PageResponse>;

/** By path. */
export type Pages = ReadonlyMap<string, Page>;

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
	]);
	const process = () => {
		return {
			status: 200,
			body: JSON.stringify(processFacts(sources.state.inForce, readiness.phase)),
			type: 'application/json',
		};
	};
	const guarded: Pages = new Map<string, Page>([
		['/metrics', metricsPage(sources, log)],
		['/process', process],
		...status,
	]);
	for (const [path, page] of guarded) {
		pages.set(path, (request) => (mayAsk(request.headers.host, allowed) ? page(request) : NAME_REFUSED));
	}
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

const NAME_REFUSED: PageResponse = {
	status: 421,
	body: 'this host name is not allowed: use the IP address, or add the name to hosts in [status]',
};

/**
 * Whether the metrics listener, which has no password, answers requests with this `Host`. A foreign page in an insider's browser
 * must not read it: with DNS rebinding, such a page points its own name to our address, and then has the same origin. A name that
 * nobody outside can own cannot be rebound. Other names must be configured (`[status] hosts`).
 *
 * @param host the field as sent; `undefined`: the client is not a browser.
 * @param allowed names in lower case, without a port.
 */
export function mayAsk(host: string | undefined, allowed: ReadonlySet<string>): boolean {
	if (host === undefined) return true;
	const name = nameOf(host);
	if (name === undefined) return false;
	// A name of one label is in no public domain, and the others end in a reserved one (RFC 6761, RFC 6762, RFC 8375, and
	// `.internal` by ICANN) or is a cluster's own.
	return isIP(name) !== 0 || !name.includes('.') || PRIVATE_ENDS.some((end) => name.endsWith(end)) || allowed.has(name);
}

const PRIVATE_ENDS = ['.localhost', '.local', '.internal', '.home.arpa', '.test', '.svc'];

/** The name without port, brackets and final dot. */
function nameOf(host: string): string | undefined {
	const [, bracketed, name] = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
	return (bracketed ?? name)?.toLowerCase().replace(/\.$/, '');
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

function end(
	response: ServerResponse,
	{ status, body, type = 'text/plain; charset=utf-8', headers }: PageResponse,
): void {
	response.writeHead(status, {
		...headers,
		'content-type': type,
		'content-length': Buffer.byteLength(body),
		// An old response must not decide where connections go.
		'cache-control': 'no-store',
		vary: 'accept',
	});
	// Node omits the body of a response to HEAD.
	response.end(body);
}

import { IncomingMessage, type RequestListener } from 'node:http';
import { createSecureServer, type ServerHttp2Session } from 'node:http2';
import { createServer, type Server } from 'node:https';
import { BAD_REQUEST } from '../gates/rejection.ts';
import type { PemMaterial } from '../shared/pem-material.ts';
import { validateTlsMaterial } from '../tls/tls-material.ts';
import { listenerOptions, secureContextOptions, useSecureContext } from '../tls/tls-options.ts';
import { endWith, textAnswer } from './answer.ts';
import { contained, type FaultReport } from './contained.ts';
import { drainable } from './drain.ts';
import { GateError } from './error.ts';
import { faultReport, safeHook } from './fault-report.ts';
import { Http2Request } from './http2-members.ts';
import {
	ANY,
	BOOLEAN,
	checkHandler,
	checkOptions,
	FUNCTION,
	type Kinds,
	kind,
	milliseconds,
	required,
} from './options.ts';
import { nameOf, readSmallFile } from './read-file.ts';
import { onReloadSignal } from './reload-signal.ts';

export type { FaultReport } from './contained.ts';
export { GateError, type GateErrorCode } from './error.ts';

export interface MtlsServerOptions {
	/** The server's certificate chain, PEM, the leaf first. Read now and at every reload, like the other two. */
	readonly certPath: string | URL;
	/** The leaf's private key, PEM (PKCS#8, PKCS#1 or SEC1), not encrypted. */
	readonly keyPath: string | URL;
	/** The CAs of the clients, PEM. A client without a certificate that chains to one of them is not let in. */
	readonly clientCaPath: string | URL;
	/**
	 * Whether to offer `h2` beside `http/1.1`; the default is `false`, since a handler has to be made for it. Fastify, Hono,
	 * Koa, fetch handlers and plain listeners are; Express is not.
	 */
	readonly http2?: boolean;
	/** Clients that cannot do this version are refused; the default is `TLSv1.2`. */
	readonly minVersion?: 'TLSv1.2' | 'TLSv1.3';
	/**
	 * Whether SIGUSR1 reloads the three files; the default is `false`: the signal belongs to the program, as in any of Node's. Worker threads
	 * get no signals: call `reload`.
	 */
	readonly reloadOnSignal?: boolean;
	/** Told of every reload by signal; needs `reloadOnSignal` beside it. Without it a failure becomes a warning of the process. */
	readonly onReload?: (reload: Reload) => void;
	/**
	 * Told of every fault of the handler: what it has thrown, a promise of its that has rejected, an error of its request or
	 * response that nobody listens for. The request has its answer by then or gets 500 `internal error`, and the process goes
	 * on. Without this, faults become warnings of the process, a few at a time.
	 */
	readonly onError?: FaultReport;
	/** How long `drain` and `close` let requests finish, in ms; the default is 25,000. */
	readonly drainMs?: number;
	/** Aborting it drains the server. */
	readonly signal?: AbortSignal;
}

/** What came of a reload. After a failure the server goes on with what it had. */
export type Reload =
	| { readonly ok: true; readonly generation: number }
	| { readonly ok: false; readonly error: GateError };

/**
 * A server of `node:https`, or of `node:http2` with HTTP/1.1 beside it; both have the members of the former. To hand it
 * to a framework, see the examples of docs/reference/embed.md.
 */
export interface MtlsServer extends Server {
	/**
	 * Reads the three files again and uses them for new connections; open ones keep what they have.
	 *
	 * @returns the generation: 1 at the start, one more after each reload.
	 * @throws {GateError} `ERR_TLS_MATERIAL`; the server then goes on with what it had.
	 */
	reload(): number;
	/** Stops accepting, lets requests in flight finish for `drainMs`, then cuts what is left. So does `close`. Idempotent; never rejects. */
	drain(): Promise<void>;
	/** The same as `drain`. */
	[Symbol.asyncDispose](): Promise<void>;
}

/** The proxy's own defaults. */
const HANDSHAKE_MS = 10_000;
const FIRST_REQUEST_MS = 10_000;
const MAX_CONCURRENT_STREAMS = 64;
const DRAIN_MS = 25_000;

/**
 * Creates a listener with the proxy's own TLS settings: TLS 1.2 and 1.3, a client certificate on
 * every connection, no resumption, no renegotiation; 10 s for the handshake, 10 s for the first request after it.
 *
 * @param handler gets the requests. None of its faults ends the process (see `onError`). Those of HTTP/2 come through Node's compatibility layer, which has
 *   the same members; mind that its `setHeader` returns nothing to chain on.
 * @throws {GateError} `ERR_TLS_MATERIAL` where a file cannot be used, `ERR_TLS_HTTP2_HANDLER` for an Express
 *   application with `http2: true`, `ERR_TLS_MIN_VERSION` for another version than the two, `ERR_TLS_OPTIONS` for an option that is
 *   unknown, missing or of another type.
 */
export function createMtlsServer(options: MtlsServerOptions, handler: RequestListener): MtlsServer {
	checkOptions('ERR_TLS_OPTIONS', '', options, KINDS);
	checkHandler('ERR_TLS_OPTIONS', handler);
	if (options.onReload !== undefined && options.reloadOnSignal === undefined) {
		throw new GateError('ERR_TLS_OPTIONS', 'onReload is told of reloads by signal; set reloadOnSignal: true beside it');
	}
	const { http2 = false, reloadOnSignal = false, drainMs = DRAIN_MS, signal } = options;
	const onReload = safeHook('onReload', options.onReload ?? warnOfFailure);
	signal?.throwIfAborted();
	if (http2) refuseExpress(handler);
	refuseOtherVersions(options.minVersion);
	const material = readMaterial(options);
	const listener = {
		...secureContextOptions(material),
		...listenerOptions,
		ALPNProtocols: http2 ? listenerOptions.ALPNProtocols : ['http/1.1'],
		handshakeTimeout: HANDSHAKE_MS,
		headersTimeout: FIRST_REQUEST_MS,
		// Node looks for requests that are overdue every 30 s unless it is told otherwise.
		connectionsCheckingInterval: 1000,
		// Finds peers that have gone without a word.
		keepAlive: true,
		keepAliveInitialDelay: 30_000,
	};
	const safe = contained(handler, faultReport(options.onError));
	const server = http2 ? createHttp2Server(listener, safe) : createServer(listener, safe);
	useSecureContext(server, material);

	let generation = 1;
	const reload = (): number => {
		useSecureContext(server, readMaterial(options));
		return ++generation;
	};
	if (reloadOnSignal) {
		const forget = onReloadSignal(() => onReload(attempt(reload)));
		server.once('close', forget);
	}
	const draining = drainable(server, drainMs);
	const { drain } = draining;
	if (signal) {
		signal.addEventListener('abort', drain, { once: true });
		server.once('close', () => signal.removeEventListener('abort', drain));
	}
	return Object.assign(server, draining, { reload, [Symbol.asyncDispose]: drain });
}

const PATH = kind(
	'must be a path: a text or a file: URL',
	(value) => (typeof value === 'string' && value !== '') || value instanceof URL,
);
const KINDS: Kinds<MtlsServerOptions> = {
	certPath: required(PATH),
	keyPath: required(PATH),
	clientCaPath: required(PATH),
	http2: BOOLEAN,
	minVersion: ANY,
	reloadOnSignal: BOOLEAN,
	onReload: FUNCTION,
	onError: FUNCTION,
	drainMs: milliseconds(0),
	signal: kind('must be an AbortSignal', (value) => value instanceof AbortSignal),
};

function createHttp2Server(options: object, handler: RequestListener): Server {
	const settings = { maxConcurrentStreams: MAX_CONCURRENT_STREAMS };
	const http2 = {
		...options,
		allowHTTP1: true,
		settings,
		Http2ServerRequest: Http2Request,
		// Node's own validation takes such a field away without a word: a handler would not see what another reader has seen.
		strictFieldWhitespaceValidation: false,
	};
	// Node types its compatibility layer apart from what it is compatible with.
	const server = createSecureServer(http2, refusingWhitespace(handler) as never) as unknown as Server;
	return server.on('session', expectRequest);
}

/** As the proxy does: a field value that begins or ends with white space makes a request malformed (RFC 9113 section 8.2.1). */
function refusingWhitespace(handler: RequestListener): RequestListener {
	return (req, res) => {
		if (req.httpVersionMajor === 2 && hasWhitespaceAround(req.rawHeaders))
			endWith(res, textAnswer(BAD_REQUEST), () => false);
		else handler(req, res);
	};
}

function hasWhitespaceAround(rawHeaders: readonly string[]): boolean {
	for (let i = 1; i < rawHeaders.length; i += 2) {
		const value = rawHeaders[i]!;
		if (isWhitespace(value.charCodeAt(0)) || isWhitespace(value.charCodeAt(value.length - 1))) return true;
	}
	return false;
}

/** SP and HTAB. */
function isWhitespace(code: number): boolean {
	return code === 0x20 || code === 0x09;
}

/** `headersTimeout` is for HTTP/1.1 only. */
function expectRequest(session: ServerHttp2Session): void {
	const timer = setTimeout(() => session.destroy(), FIRST_REQUEST_MS).unref();
	session.once('stream', () => clearTimeout(timer));
	session.once('close', () => clearTimeout(timer));
}

/**
 * Express gives each request the prototype of an HTTP/1.1 one. `http2-members.ts` keeps that from doing harm, for an application
 * within a function of its own cannot be told from other handlers; but what Express reads of the request, as its host, is wrong.
 */
function refuseExpress(handler: RequestListener & { request?: unknown }): void {
	if (handler.request instanceof IncomingMessage) {
		throw new GateError('ERR_TLS_HTTP2_HANDLER', 'Express cannot serve HTTP/2: create the server without http2: true');
	}
}

/** A slip in the spelling must not mean the older version. */
function refuseOtherVersions(minVersion: string | undefined): void {
	if (minVersion === undefined || minVersion === 'TLSv1.2' || minVersion === 'TLSv1.3') return;
	throw new GateError('ERR_TLS_MIN_VERSION', "minVersion must be 'TLSv1.2' or 'TLSv1.3'");
}

function readMaterial({ certPath, keyPath, clientCaPath, minVersion }: MtlsServerOptions): PemMaterial {
	try {
		const material: PemMaterial = {
			cert: readSmallFile(certPath),
			key: readSmallFile(keyPath),
			ca: readSmallFile(clientCaPath),
			minVersion: minVersion === 'TLSv1.3' ? '1.3' : '1.2',
		};
		validateTlsMaterial(material, { cert: nameOf(certPath), key: nameOf(keyPath), ca: nameOf(clientCaPath) });
		return material;
	} catch (error) {
		throw new GateError('ERR_TLS_MATERIAL', (error as Error).message);
	}
}

function attempt(reload: () => number): Reload {
	try {
		return { ok: true, generation: reload() };
	} catch (error) {
		return { ok: false, error: error as GateError };
	}
}

function warnOfFailure(reload: Reload): void {
	if (!reload.ok) process.emitWarning(`mTLS reload failed; keeping old: ${reload.error.message}`);
}

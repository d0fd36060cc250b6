import { IncomingMessage, type RequestListener } from 'node:http';
import { createSecureServer, type ServerHttp2Session } from 'node:http2';
import { createServer, type Server } from 'node:https';
import { BAD_REQUEST } from '../gates/rejection.ts';
import type { PemMaterial } from '../shared/pem-material.ts';
import { validateTlsMaterial } from '../tls/tls-material.ts';
import { listenerOptions, secureContextOptions, useSecureContext } from '../tls/tls-options.ts';
import { rememberCas } from './client-chain.ts';
import { contained, type FaultReport } from './contained.ts';
import { drainable } from './drain.ts';
import { GateError } from './error.ts';
import { faultReport, safeHook } from './fault-report.ts';
import { Http2Request } from './http2-members.ts';
import {
	BOOLEAN,
	checkHandler,
	checkOptions,
	FUNCTION,
	type Kinds,
	kind,
	milliseconds,
	NARROWING,
	required,
} from './options.ts';
import { endWith, textResponse } from './plain-response.ts';
import { nameOf, readSmallFile } from './read-file.ts';

export type { FaultReport } from './contained.ts';
export { GateError, type GateErrorCode } from './error.ts';

export interface MtlsServerOptions {
	/** The server's certificate chain, PEM, the leaf first. Read now and at every reload, like the other two. */
	readonly certPath: string | URL;
	/** The leaf's private key, PEM (PKCS#8, PKCS#1 or SEC1), not encrypted. */
	readonly keyPath: string | URL;
	/** The CAs of the clients, PEM. A client needs a certificate that chains to one of them. */
	readonly clientCaPath: string | URL;
	/**
	 * Whether to offer `h2` as well as `http/1.1`. Default `false`, because not every handler supports it: Fastify, Hono, Koa, fetch
	 * handlers and plain listeners do; Express does not.
	 */
	readonly http2?: boolean;
	/** The lowest version that is accepted. Default `TLSv1.2`. */
	readonly minVersion?: 'TLSv1.2' | 'TLSv1.3';
	/**
	 * Whether SIGUSR1 reloads the three files. Default `false`: the signal belongs to the program. Worker threads get no signals; call
	 * `reload` there.
	 */
	readonly reloadOnSignal?: boolean;
	/** Called after every reload by signal. Needs `reloadOnSignal`. Without it, a failure becomes a warning of the process. */
	readonly onReload?: (reload: Reload) => void;
	/**
	 * Called for every fault of the handler: a throw, a rejected promise, or an unhandled `error` event of its request or response. If
	 * the request has no response by then, it gets 500 `internal error`. The process goes on. Without this hook, faults become warnings of
	 * the process, at a limited rate.
	 */
	readonly onError?: FaultReport;
	/** The time in ms that `drain` and `close` give requests in flight to finish. Default 25,000. */
	readonly drainMs?: number;
	/** Aborting it drains the server. */
	readonly signal?: AbortSignal;
}

/** The result of a reload. After a failure the server keeps its old files. */
export type Reload =
	| { readonly ok: true; readonly generation: number }
	| { readonly ok: false; readonly error: GateError };

/**
 * A server of `node:https`, or of `node:http2` with HTTP/1.1 allowed; both have the members of the former. The page
 * docs/reference/embed.md has examples for frameworks.
 */
export interface MtlsServer extends Server {
	/**
	 * Reads the three files again and uses them for new connections; open ones keep what they have.
	 *
	 * @returns the generation: 1 at the start, one more after each reload.
	 * @throws {GateError} `ERR_TLS_MATERIAL`; the server then goes on with what it had.
	 */
	reload(): number;
	/** Stops accepting, gives requests in flight `drainMs` to finish, then cuts the rest. So does `close`. Idempotent; never rejects. */
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
 * @param handler gets the requests. None of its faults ends the process (see `onError`). HTTP/2 requests come through Node's
 *   compatibility layer, which has the same members; but its `setHeader` returns nothing to chain on.
 * @throws {GateError} `ERR_TLS_MATERIAL` for an unusable file, `ERR_TLS_HTTP2_HANDLER` for an Express application with `http2: true`,
 *   `ERR_TLS_MIN_VERSION` for any other version than the two, `ERR_TLS_OPTIONS` for an option that is unknown, missing or of the wrong
 *   type.
 */
export function createMtlsServer(given: MtlsServerOptions, handler: RequestListener): MtlsServer {
	const options = checkOptions<MtlsServerOptions>('ERR_TLS_OPTIONS', '', given, KINDS);
	checkHandler('ERR_TLS_OPTIONS', handler);
	if (options.onReload !== undefined && options.reloadOnSignal === undefined) {
		throw new GateError(
			'ERR_TLS_OPTIONS',
			'onReload is called only after a reload by signal; set reloadOnSignal: true, too',
		);
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
		// Node's default checks for overdue requests every 30 s only.
		connectionsCheckingInterval: 1000,
		// Finds peers that have vanished.
		keepAlive: true,
		keepAliveInitialDelay: 30_000,
	};
	const safe = contained(handler, faultReport(options.onError));
	const server = http2 ? createHttp2Server(listener, safe) : createServer(listener, safe);
	const use = (files: typeof material) => {
		useSecureContext(server, files);
		rememberCas(server);
	};
	use(material);

	let generation = 1;
	const reload = (): number => {
		use(readMaterial(options));
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
	'must be a path: a string or a file: URL',
	(value) => (typeof value === 'string' && value !== '') || value instanceof URL,
);
const KINDS: Kinds<MtlsServerOptions> = {
	certPath: required(PATH),
	keyPath: required(PATH),
	clientCaPath: required(PATH),
	http2: BOOLEAN,
	minVersion: NARROWING,
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
		// Node's own validation drops such a field in silence, and the handler would not see what another reader has seen.
		strictFieldWhitespaceValidation: false,
	};
	// Node's types do not say that the compatibility layer is compatible.
	const server = createSecureServer(http2, refusingWhitespace(handler) as never) as unknown as Server;
	return server.on('session', expectRequest);
}

/** Refuses malformed requests, as the proxy does: a field value may not begin or end with white space (RFC 9113 section 8.2.1). */
function refusingWhitespace(handler: RequestListener): RequestListener {
	return (req, res) => {
		if (req.httpVersionMajor === 2 && hasWhitespaceAround(req.rawHeaders))
			endWith(res, textResponse(BAD_REQUEST), () => false);
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

/** Limits the time to the first request; `headersTimeout` covers HTTP/1.1 only. */
function expectRequest(session: ServerHttp2Session): void {
	const timer = setTimeout(() => session.destroy(), FIRST_REQUEST_MS).unref();
	session.once('stream', () => clearTimeout(timer));
	session.once('close', () => clearTimeout(timer));
}

/**
 * Express gives each request the prototype of an HTTP/1.1 request, and then reads members such as its host wrongly. An application that
 * is wrapped in a function cannot be detected here; `http2-members.ts` keeps that harmless.
 */
function refuseExpress(handler: RequestListener & { request?: unknown }): void {
	if (handler.request instanceof IncomingMessage) {
		throw new GateError('ERR_TLS_HTTP2_HANDLER', 'Express cannot serve HTTP/2: create the server without http2: true');
	}
}

/** A misspelt version must not mean the older one. */
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

/** The reloads that SIGUSR1 runs: one for each open mTLS server of this process. */
const reloads = new Set<() => void>();
let installed = false;

/**
 * Runs `reload` at every SIGUSR1 from now on.
 *
 * @returns a function that ends this. The signal handler stays even when nothing is left to reload: without one, a late signal (during
 *   a drain, for example) would kill the process.
 */
function onReloadSignal(reload: () => void): () => void {
	if (!installed) {
		installed = true;
		process.on('SIGUSR1', () => {
			for (const one of [...reloads]) one();
		});
	}
	reloads.add(reload);
	return () => reloads.delete(reload);
}

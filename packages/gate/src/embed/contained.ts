import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import { INTERNAL_ERROR } from '../gates/rejection.ts';
import { GateError } from './error.ts';
import { callForeign } from './foreign.ts';
import { repairPrototypes } from './http2-members.ts';
import { endWith, textResponse } from './plain-response.ts';

/** Called with every fault of a handler, and the request in which it happened. */
export type FaultReport = (error: unknown, request: IncomingMessage) => void;

/**
 * Wraps a handler and contains its faults: a throw, a rejected promise, and unhandled `error` events of its request and response.
 * Each of these would end the process, and with it all connections. The client gets 500 `internal error`. If the response has begun,
 * it is reset, so that the client cannot take it for complete.
 */
export function contained(handler: RequestListener, report: FaultReport): RequestListener {
	const tell = once(report);
	return (req, res: ServerResponse & { readonly stream?: ServerHttp2Stream }) => {
		// Read now: a handler that changes the prototype changes what `res.stream` returns.
		const { stream } = res;
		const fail = (error: unknown) => {
			report(error, req);
			respondToFault(req, res, stream);
		};
		listenForErrors(req, fail);
		listenForErrors(res, fail);
		// The type says that listeners return nothing, but many are async functions.
		callForeign(() => handler(req, res), fail);
		if (stream && repairPrototypes(req, res)) tell(req);
	};
}

/** The prototype changes at each request; one report is enough. */
function once(report: FaultReport): (req: IncomingMessage) => void {
	let told = false;
	return (req) => {
		if (told) return;
		told = true;
		const message =
			'the handler replaces the prototype of HTTP/2 requests with that of HTTP/1.1, as Express does: leave http2 off';
		report(new GateError('ERR_TLS_HTTP2_HANDLER', message), req);
	};
}

/** Ignores clients that disconnect, and errors for which the handler has a listener of its own. */
function listenForErrors(emitter: IncomingMessage | ServerResponse, fail: (error: unknown) => void): void {
	emitter.on('error', (error: NodeJS.ErrnoException) => {
		if (emitter.listenerCount('error') > 1 || error.code === 'ECONNRESET' || error.code === 'EPIPE') return;
		fail(error);
	});
}

/** @param stream the HTTP/2 stream, if there is one. */
function respondToFault(req: IncomingMessage, res: ServerResponse, stream: ServerHttp2Stream | undefined): void {
	if (stream) repairPrototypes(req, res);
	// Headers of the failed response go. `connection` belongs to the connection: a drain sets it.
	endWith(res, FAULT, (name) => name !== 'connection', stream);
}

const FAULT = textResponse(INTERNAL_ERROR);

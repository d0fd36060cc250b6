import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import { INTERNAL_ERROR } from '../gates/rejection.ts';
import { endWith, textAnswer } from './answer.ts';
import { GateError } from './error.ts';
import { callForeign } from './foreign.ts';
import { repairPrototypes } from './http2-members.ts';

/** Told of every fault of a handler, with the request that met it. */
export type FaultReport = (error: unknown, request: IncomingMessage) => void;

/**
 * The handler with its faults contained: what it throws, a promise that it returns and that rejects, and errors of its request
 * and response that nobody listens for. Each of these would end the process, and with it everybody's connections. The request
 * is answered with 500 `internal error`; where its answer has begun it is broken off, so that nobody takes it for a whole one.
 */
export function contained(handler: RequestListener, report: FaultReport): RequestListener {
	const tell = once(report);
	return (req, res: ServerResponse & { readonly stream?: ServerHttp2Stream }) => {
		// Now, since an exchange of prototypes changes the answer.
		const { stream } = res;
		const fail = (error: unknown) => {
			report(error, req);
			answerFault(req, res, stream);
		};
		listenForErrors(req, fail);
		listenForErrors(res, fail);
		// Listeners are typed to return nothing, and often are async functions.
		callForeign(() => handler(req, res), fail);
		if (stream && repairPrototypes(req, res)) tell(req);
	};
}

/** An exchange is the same for each request: it is told of once. */
function once(report: FaultReport): (req: IncomingMessage) => void {
	let told = false;
	return (req) => {
		if (told) return;
		told = true;
		const message =
			'the handler gives HTTP/2 requests the prototype of HTTP/1.1 ones, as Express does: leave http2 off';
		report(new GateError('ERR_TLS_HTTP2_HANDLER', message), req);
	};
}

/** A client that goes away is no fault; an error that the handler listens for is its own affair. */
function listenForErrors(emitter: IncomingMessage | ServerResponse, fail: (error: unknown) => void): void {
	emitter.on('error', (error: NodeJS.ErrnoException) => {
		if (emitter.listenerCount('error') > 1 || error.code === 'ECONNRESET' || error.code === 'EPIPE') return;
		fail(error);
	});
}

/** @param stream of HTTP/2. */
function answerFault(req: IncomingMessage, res: ServerResponse, stream: ServerHttp2Stream | undefined): void {
	if (stream) repairPrototypes(req, res);
	// All that described another answer; `connection` is of the connection, and a drain sets it.
	endWith(res, FAULT, (name) => name !== 'connection', stream);
}

const FAULT = textAnswer(INTERNAL_ERROR);

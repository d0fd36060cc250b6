import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { checkGuard, questionTo } from './admission.ts';
import { authorizationIn, type Caller, certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import { warnOfHook } from './fault-report.ts';
import { callForeign } from './foreign.ts';
import type { Claims, Gate } from './gate.ts';
import { FUNCTION, type Kinds, SCOPES } from './options.ts';
import { endWith } from './plain-response.ts';
import { type Refusal, RefusedError, signalHeaders } from './refusal.ts';
import { releaseAfterResponse } from './slot.ts';
import { refuseUpgrade } from './upgrade.ts';

export { guardUpgrade, type UpgradeHandler, type UpgradeOptions } from './upgrade.ts';

declare module 'node:http' {
	interface IncomingMessage {
		/** Set by `guard` of `mtls-edge-gate/node`; see also `claimsOf`. */
		claims?: Claims;
	}
}
declare module 'node:http2' {
	interface Http2ServerRequest {
		/** Set by `guard` of `mtls-edge-gate/node`; see also `claimsOf`. */
		claims?: Claims;
	}
}

type Request = IncomingMessage | Http2ServerRequest;
type Response = ServerResponse | Http2ServerResponse;

export interface GuardOptions<Req = Request, Res = Response> extends Pick<Caller, 'scopes'> {
	/**
	 * Answers a refused request in place of the gate's plain text. The status and `www-authenticate` or `retry-after` are already set;
	 * the hook writes the body. An `Error` that it throws synchronously, such as a `RefusedError`, goes to the error handler of Express
	 * or Connect. After any other fault, or without these frameworks, the gate itself answers. The request never reaches the handlers
	 * behind the gate.
	 */
	readonly onRefused?: (refusal: Refusal, req: Req, res: Res) => void;
}

/**
 * Middleware for Express 4 and later, Connect and plain `node:http` and `node:http2` listeners: refuses the request (401
 * `unauthorized`, 403 `insufficient scope`, 429 `rate limited`) or sets `req.claims` and calls `next`.
 */
export function guard<Req extends Request = Request, Res extends Response = Response>(
	gate: Gate,
	...given: [options?: GuardOptions<Req, Res>]
): (req: Req, res: Res, next: () => void) => void {
	const { onRefused, scopes = [] } = checkGuard<GuardOptions<Req, Res>>(gate, given, KINDS);
	const ask = questionTo(gate);
	return (req, res, next) => {
		const verdict = ask(req, authorizationIn(req.rawHeaders), { certificate: () => certificateOf(req), scopes });
		if (verdict.ok) {
			req.claims = verdict.claims;
			// First, because the next line throws if the headers have been sent.
			if (verdict.slot !== undefined) releaseAfterResponse(verdict.slot, req, res);
			if (verdict.headers !== undefined) setHeaders(res, verdict.headers);
			next();
			return;
		}
		if (onRefused) leaveTo(onRefused, verdict.refusal, req, res);
		else respond(req, res, verdict.refusal);
	};
}

const KINDS: Kinds<GuardOptions> = { scopes: SCOPES, onRefused: FUNCTION };

/**
 * The claims of a request that `guard` or `guardUpgrade` has let through.
 *
 * @throws {GateError} `ERR_GATE_NO_CLAIMS` if none has: a handler that is not behind the gate fails instead of serving an unknown
 *   caller.
 */
export function claimsOf(req: Request): Claims {
	if (req.claims) return req.claims;
	throw new GateError(
		'ERR_GATE_NO_CLAIMS',
		'this request did not pass a gate: put guard(gate) in front of the handler',
	);
}

function leaveTo<Req extends Request, Res extends Response>(
	onRefused: NonNullable<GuardOptions<Req, Res>['onRefused']>,
	refusal: Refusal,
	req: Req,
	res: Res,
): void {
	let isAsync = false;
	let forFramework: unknown;
	const failed = (error: unknown) => {
		if (!isAsync && hasErrorHandler(req) && error instanceof Error) {
			forFramework = error;
			return;
		}
		if (!(error instanceof RefusedError)) warnOfHook('onRefused', error);
		endWith(res as ServerResponse, refusal, isOfBody);
	};
	callForeign(() => {
		res.statusCode = refusal.status;
		setHeaders(res, signalHeaders(refusal));
		return onRefused(refusal, req, res);
	}, failed);
	isAsync = true;
	if (forFramework !== undefined) throw forFramework;
}

/**
 * Express and Connect set `originalUrl`, and pass what a middleware throws to their error handler. But they treat `undefined`, `null`,
 * `''`, `0` and `'route'` as no error and call the next handler, so only an `Error` is thrown to them.
 */
function hasErrorHandler(req: Request): boolean {
	return typeof (req as { readonly originalUrl?: unknown }).originalUrl === 'string';
}

/** Headers of a body that the hook did not send. Other headers, such as those of CORS, stay. */
function isOfBody(name: string): boolean {
	return /^(?:content-|transfer-encoding$|trailer$|etag$|last-modified$)/.test(name);
}

function setHeaders(res: Response, headers: Readonly<Record<string, string>>): void {
	for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

function respond(req: Request, res: Response, refusal: Refusal): void {
	const { status, headers, body } = refusal;
	// For an upgrade, Socket.IO passes middleware an object without headers.
	if (typeof res.getHeaderNames !== 'function') {
		refuseUpgrade(req.socket, refusal);
		return;
	}
	// Both response types have these members, but no common call signature.
	(res as ServerResponse).writeHead(status, headers).end(body);
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { authorizationIn } from './authorization.ts';
import { certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import type { Claims, Gate } from './gate.ts';
import { type Refusal, signalHeaders } from './refusal.ts';
import { releaseAfterResponse } from './slot.ts';

export { guardUpgrade, type UpgradeHandler, type UpgradeOptions } from './upgrade.ts';

declare module 'node:http' {
	interface IncomingMessage {
		/** Set by `guard` of `mtls-edge-proxy/embed/node`; see also `claimsOf`. */
		claims?: Claims;
	}
}
declare module 'node:http2' {
	interface Http2ServerRequest {
		/** Set by `guard` of `mtls-edge-proxy/embed/node`; see also `claimsOf`. */
		claims?: Claims;
	}
}

type Request = IncomingMessage | Http2ServerRequest;
type Response = ServerResponse | Http2ServerResponse;

export interface GuardOptions<Req = Request, Res = Response> {
	/** What the token must be good for here; see `Caller.scopes`. */
	readonly scopes?: readonly string[];
	/**
	 * Answers a refused request in place of the gate's plain text. Status and `www-authenticate` or `retry-after` are set
	 * already; the body is the hook's. What it throws, as a `RefusedError`, goes to the error handler of Express or Connect.
	 * There is no way on from here to the handlers behind the gate.
	 */
	readonly onRefused?: (refusal: Refusal, req: Req, res: Res) => void;
}

/**
 * Middleware for Express 5, Connect and plain `node:http` and `node:http2` listeners: refuses the request (401
 * `unauthorized`, 403 `insufficient scope`, 429 `rate limited`; specification 4.4) or sets `req.claims` and calls `next`.
 */
export function guard<Req extends Request = Request, Res extends Response = Response>(
	gate: Gate,
	{ onRefused, scopes }: GuardOptions<Req, Res> = {},
): (req: Req, res: Res, next: () => void) => void {
	return (req, res, next) => {
		const verdict = gate.check(authorizationIn(req.rawHeaders), { certificate: () => certificateOf(req), scopes });
		if (verdict.ok) {
			req.claims = verdict.claims;
			// First, for headers that have been sent already make the next line throw.
			if (verdict.slot !== undefined) releaseAfterResponse(verdict.slot, req, res);
			if (verdict.headers !== undefined) setHeaders(res, verdict.headers);
			next();
			return;
		}
		if (onRefused) leaveTo(onRefused, verdict.refusal, req, res);
		else answer(res, verdict.refusal);
	};
}

/**
 * The claims of a request that `guard` or `guardUpgrade` has let through.
 *
 * @throws {GateError} `ERR_GATE_NO_CLAIMS` where none has, so that a handler outside the gate fails instead of
 *   serving nobody in particular.
 */
export function claimsOf(req: Request): Claims {
	if (req.claims) return req.claims;
	throw new GateError('ERR_GATE_NO_CLAIMS', 'this request has passed no gate: put guard(gate) in front of the handler');
}

function leaveTo<Req extends Request, Res extends Response>(
	onRefused: NonNullable<GuardOptions<Req, Res>['onRefused']>,
	refusal: Refusal,
	req: Req,
	res: Res,
): void {
	res.statusCode = refusal.status;
	setHeaders(res, signalHeaders(refusal));
	const outcome: unknown = onRefused(refusal, req, res);
	// An async function fits the type. Frameworks differ in whether they look at its rejection; unseen it would end the process.
	if (outcome instanceof Promise) outcome.catch(() => res.headersSent || answer(res, refusal));
}

function setHeaders(res: Response, headers: Readonly<Record<string, string>>): void {
	for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

function answer(res: Response, { status, headers, body }: Refusal): void {
	// The two kinds of response share these members, but not a call signature that TypeScript could choose.
	(res as ServerResponse).writeHead(status, headers).end(body);
}

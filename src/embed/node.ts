import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { authorizationIn } from './authorization.ts';
import { GateError } from './error.ts';
import type { Claims, Gate } from './gate.ts';

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

/**
 * Middleware for Express 5, Connect and plain `node:http` and `node:http2` listeners: refuses the request (401
 * `unauthorized`, 429 `rate limited`; specification 4.4) or sets `req.claims` and calls `next`.
 */
export function guard(gate: Gate): (req: Request, res: Response, next: () => void) => void {
	return (req, res, next) => {
		const verdict = gate.check(authorizationIn(req.rawHeaders));
		if (verdict.ok) {
			req.claims = verdict.claims;
			next();
			return;
		}
		const { status, headers, body } = verdict.refusal;
		// The two kinds of response share these members, but not a call signature that TypeScript could choose.
		(res as ServerResponse).writeHead(status, headers).end(body);
	};
}

/**
 * The claims of a request that `guard` has let through.
 *
 * @throws {GateError} `ERR_GATE_NO_CLAIMS` where it has not, so that a handler outside the gate fails instead of
 *   serving nobody in particular.
 */
export function claimsOf(req: Request): Claims {
	if (req.claims) return req.claims;
	throw new GateError('ERR_GATE_NO_CLAIMS', 'this request has passed no gate: put guard(gate) in front of the handler');
}

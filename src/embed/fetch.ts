import type { Claims, Gate } from './gate.ts';

/**
 * Puts a gate in front of a handler of web-standard requests: refuses the request (401 `unauthorized`, 429 `rate
 * limited`; specification 4.4) or calls the handler with the claims behind the request.
 *
 * @param handler gets the request, its claims, and whatever else the server passes on (`env`, `ctx`, `info`).
 */
export function guard<Rest extends unknown[]>(
	gate: Gate,
	handler: (request: Request, claims: Claims, ...rest: Rest) => Response | Promise<Response>,
): (request: Request, ...rest: Rest) => Response | Promise<Response> {
	return (request, ...rest) => {
		// Two headers arrive as one value with a comma in it, which no token has: refused, as two must be.
		const verdict = gate.check(request.headers.get('authorization'));
		if (verdict.ok) return handler(request, verdict.claims, ...rest);
		const { status, headers, body } = verdict.refusal;
		return new Response(body, { status, headers });
	};
}

import type { MiddlewareHandler } from 'hono';
import type { Claims, Gate } from './gate.ts';

/** Hono's types for applications and handlers behind the gate: `new Hono<GateEnv>()`, `c.get('claims')`. */
export interface GateEnv {
	Variables: { claims: Claims };
}

/**
 * Middleware for Hono 4: refuses the request (401 `unauthorized`, 429 `rate limited`; specification 4.4) or sets the
 * variable `claims`.
 */
export function guard(gate: Gate): MiddlewareHandler<GateEnv> {
	return async (c, next) => {
		// Two headers arrive as one value with a comma in it, which no token has: refused, as two must be.
		const verdict = gate.check(c.req.header('authorization'));
		if (verdict.ok) {
			c.set('claims', verdict.claims);
			return next();
		}
		const { status, headers, body } = verdict.refusal;
		return new Response(body, { status, headers });
	};
}

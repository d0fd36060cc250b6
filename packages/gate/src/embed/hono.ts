import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context, MiddlewareHandler, Next } from 'hono';
import { checkGuard, questionTo } from './admission.ts';
import { type Caller, certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import type { Admitted, Claims, Gate } from './gate.ts';
import { FUNCTION, type Kinds, SCOPES } from './options.ts';
import { type Refusal, responseBy, responseTo, signalHeaders } from './refusal.ts';
import { releaseAfterAbort, releaseAfterBody, releaseAfterResponse } from './slot.ts';

/**
 * Hono's environment for an application with some routes behind the gate: `new Hono<GateEnv>()`. `c.get('claims')` may then be
 * `undefined`; use `claimsOf(c)`.
 */
export interface GateEnv {
	Variables: { claims?: Claims };
}

/** Hono's environment for handlers that follow `guard(gate)` on the same route, and so always have claims. */
export interface GuardedEnv {
	Variables: { claims: Claims };
}

export interface GuardOptions extends Pick<Caller, 'scopes'> {
	/**
	 * Answers a refused request in place of the gate's plain text. The status and `www-authenticate` or `retry-after` are already
	 * set for `c.text`, `c.json` and the like. An `Error` that it throws, such as a `RefusedError`, goes to `app.onError`.
	 */
	readonly onRefused?: (refusal: Refusal, c: Context) => Response | Promise<Response>;
}

/**
 * Middleware for Hono 4: refuses the request (401 `unauthorized`, 429 `rate limited`) or sets the
 * variable `claims`.
 */
export function guard(gate: Gate, ...given: [options?: GuardOptions]): MiddlewareHandler<GuardedEnv> {
	const { onRefused, scopes = [] } = checkGuard<GuardOptions>(gate, given, KINDS);
	const ask = questionTo(gate);
	return async (c, next) => {
		const { incoming } = bindingsOf(c);
		// `Headers` joins two values with a comma. No token has one, so the gate refuses them.
		const verdict = ask(incoming ?? c, c.req.header('authorization'), {
			certificate: () => incoming && certificateOf(incoming),
			scopes,
		});
		if (verdict.ok) {
			c.set('claims', verdict.claims);
			return verdict.slot === undefined && verdict.headers === undefined ? next() : accompany(verdict, c, next);
		}
		const { refusal } = verdict;
		if (!onRefused) return responseTo(refusal);
		c.status(refusal.status);
		for (const [name, value] of Object.entries(signalHeaders(refusal))) c.header(name, value);
		return responseBy(refusal, async () => onRefused(refusal, c));
	};
}

const KINDS: Kinds<GuardOptions> = { scopes: SCOPES, onRefused: FUNCTION };

/**
 * The claims of a request that `guard` has let through.
 *
 * @throws {GateError} `ERR_GATE_NO_CLAIMS` if it has not: a handler that is not behind the gate fails instead of serving an unknown
 *   caller.
 */
export function claimsOf(c: Context): Claims {
	const claims: Claims | undefined = c.get('claims');
	if (claims) return claims;
	throw new GateError(
		'ERR_GATE_NO_CLAIMS',
		'this request did not pass a gate: put guard(gate) in front of the handler',
	);
}

/** Adds the verdict's headers to the response, and releases its slot when the response is over or the client has left. */
async function accompany({ slot, headers = {} }: Admitted, c: Context, next: Next): Promise<void> {
	const { incoming, outgoing } = bindingsOf(c);
	const isNode = incoming !== undefined && outgoing !== undefined;
	if (slot !== undefined) {
		if (isNode) releaseAfterResponse(slot, incoming, outgoing);
		else releaseAfterAbort(slot, c.req.raw.signal);
	}
	try {
		await next();
	} catch (error) {
		slot?.release();
		throw error;
	}
	// After the handlers, so that every response of theirs gets the headers.
	for (const [name, value] of Object.entries(headers)) c.header(name, value);
	if (slot === undefined || isNode) return;
	const watched = releaseAfterBody(slot, c.res);
	// In two steps: otherwise Hono copies the old response's headers to the new one, and cookies appear twice.
	c.res = undefined;
	c.res = watched;
}

/** Node's request and response, which `@hono/node-server` passes on. Other runtimes have no such members. */
function bindingsOf({ env }: Context): { readonly incoming?: IncomingMessage; readonly outgoing?: ServerResponse } {
	return (env as { incoming?: IncomingMessage; outgoing?: ServerResponse } | undefined) ?? {};
}

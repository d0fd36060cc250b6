import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context, MiddlewareHandler, Next } from 'hono';
import { checkGuard, questionTo } from './admission.ts';
import { certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import type { Admitted, Claims, Gate } from './gate.ts';
import { FUNCTION, type Kinds, SCOPES } from './options.ts';
import { isResponse, type Refusal, responseTo, signalHeaders } from './refusal.ts';
import { releaseAfterAbort, releaseAfterBody, releaseAfterResponse } from './slot.ts';

/**
 * Hono's type of an application of which some routes are behind the gate: `new Hono<GateEnv>()`. There `c.get('claims')` may be
 * `undefined`; use `claimsOf(c)`.
 */
export interface GateEnv {
	Variables: { claims?: Claims };
}

/** Hono's type of what is certainly behind the gate: handlers that are given to a route together with `guard(gate)`. */
export interface GuardedEnv {
	Variables: { claims: Claims };
}

export interface GuardOptions {
	/** What the token must be good for here; see `Caller.scopes`. */
	readonly scopes?: readonly string[];
	/**
	 * Answers a refused request in place of the gate's plain text. Status and `www-authenticate` or `retry-after` are set
	 * already for `c.text`, `c.json` and the like. What it throws, as a `RefusedError`, goes to `app.onError`.
	 */
	readonly onRefused?: (refusal: Refusal, c: Context) => Response | Promise<Response>;
}

/**
 * Middleware for Hono 4: refuses the request (401 `unauthorized`, 429 `rate limited`) or sets the
 * variable `claims`.
 */
export function guard(gate: Gate, options: GuardOptions = {}, ...rest: never[]): MiddlewareHandler<GuardedEnv> {
	checkGuard(gate, options, KINDS, rest);
	const { onRefused, scopes } = options;
	const ask = questionTo(gate);
	return async (c, next) => {
		const { incoming } = bindingsOf(c);
		// Two headers arrive as one value with a comma in it, which no token has: refused, as two must be.
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
		try {
			const response: unknown = await onRefused(refusal, c);
			// Hono takes a middleware without a response for one that has none to give, and answers 404.
			return isResponse(response) ? response : responseTo(refusal);
		} catch (error) {
			// For `app.onError`, which gets errors and nothing else.
			if (error instanceof Error) throw error;
			return responseTo(refusal);
		}
	};
}

const KINDS: Kinds<GuardOptions> = { scopes: SCOPES, onRefused: FUNCTION };

/**
 * The claims of a request that `guard` has let through.
 *
 * @throws {GateError} `ERR_GATE_NO_CLAIMS` where it has not, so that a handler outside the gate fails instead of serving nobody in
 *   particular.
 */
export function claimsOf(c: Context): Claims {
	const claims: Claims | undefined = c.get('claims');
	if (claims) return claims;
	throw new GateError('ERR_GATE_NO_CLAIMS', 'this request has passed no gate: put guard(gate) in front of the handler');
}

/** Puts the verdict's headers on the response, and gives its slot back when the response is over or its client has left. */
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
	// Behind the handlers: whatever response they have made, it has them.
	for (const [name, value] of Object.entries(headers)) c.header(name, value);
	if (slot === undefined || isNode) return;
	const watched = releaseAfterBody(slot, c.res);
	// Two steps, since Hono otherwise puts the old one's headers on the new one, cookies twice.
	c.res = undefined;
	c.res = watched;
}

/** What `@hono/node-server` hands on of Node's own request and response; other runtimes have no such members. */
function bindingsOf({ env }: Context): { readonly incoming?: IncomingMessage; readonly outgoing?: ServerResponse } {
	return (env as { incoming?: IncomingMessage; outgoing?: ServerResponse } | undefined) ?? {};
}

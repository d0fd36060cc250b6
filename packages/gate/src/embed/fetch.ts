import { checkGuard, questionTo } from './admission.ts';
import type { CallerCertificate } from './caller.ts';
import type { Admitted, Claims, Gate } from './gate.ts';
import { checkHandler, FUNCTION, type Kinds, SCOPES } from './options.ts';
import { isResponse, type Refusal, responseTo } from './refusal.ts';
import { releaseAfterAbort, releaseAfterBody } from './slot.ts';

export interface GuardOptions<Rest extends unknown[] = unknown[]> {
	/** What the token must be good for here; see `Caller.scopes`. */
	readonly scopes?: readonly string[];
	/** The client's certificate, which a web-standard request does not have; called for tokens that are bound to one alone. */
	readonly certificate?: (request: Request, ...rest: Rest) => CallerCertificate | undefined;
	/**
	 * Answers a refused request in place of the gate's plain text; status and headers are the hook's as well. An `Error` that it throws is
	 * the server's; anything else that is no response becomes the gate's own answer.
	 */
	readonly onRefused?: (refusal: Refusal, request: Request, ...rest: Rest) => Response | Promise<Response>;
}

/**
 * Puts a gate in front of a handler of web-standard requests: refuses the request (401 `unauthorized`, 429 `rate
 * limited`) or calls the handler with the claims behind the request.
 *
 * @param handler gets the request, its claims, and whatever else the server passes on (`env`, `ctx`, `info`).
 */
export function guard<Rest extends unknown[]>(
	gate: Gate,
	handler: (request: Request, claims: Claims, ...rest: Rest) => Response | Promise<Response>,
	options: GuardOptions<Rest> = {},
	...more: never[]
): (request: Request, ...rest: Rest) => Response | Promise<Response> {
	checkGuard(gate, options, KINDS, more);
	checkHandler('ERR_GATE_OPTIONS', handler);
	const { onRefused, scopes, certificate } = options;
	const ask = questionTo(gate);
	return (request, ...rest) => {
		// Two headers arrive as one value with a comma in it, which no token has: refused, as two must be.
		const caller = { certificate: certificate && (() => certificate(request, ...rest)), scopes };
		const verdict = ask(request, request.headers.get('authorization'), caller);
		if (verdict.ok) {
			if (verdict.slot === undefined && verdict.headers === undefined) return handler(request, verdict.claims, ...rest);
			return accompany(verdict, request.signal, async () => handler(request, verdict.claims, ...rest));
		}
		const { refusal } = verdict;
		return onRefused ? leaveTo(refusal, async () => onRefused(refusal, request, ...rest)) : responseTo(refusal);
	};
}

const KINDS: Kinds<GuardOptions> = { scopes: SCOPES, certificate: FUNCTION, onRefused: FUNCTION };

/** A router may take what is no response for a sign to go on to its next handler. */
async function leaveTo(refusal: Refusal, hook: () => Promise<unknown>): Promise<Response> {
	try {
		const response = await hook();
		return isResponse(response) ? response : responseTo(refusal);
	} catch (error) {
		if (error instanceof Error) throw error;
		return responseTo(refusal);
	}
}

/** Puts the verdict's headers on the response, and gives its slot back when the response is over or its client has left. */
async function accompany(
	{ slot, headers }: Admitted,
	clientLeft: AbortSignal,
	respond: () => Promise<Response>,
): Promise<Response> {
	if (slot === undefined) return withHeaders(await respond(), headers);
	try {
		releaseAfterAbort(slot, clientLeft);
		return releaseAfterBody(slot, withHeaders(await respond(), headers));
	} catch (error) {
		slot.release();
		throw error;
	}
}

function withHeaders(response: Response, headers: Admitted['headers']): Response {
	// A network error (`Response.error()`) has no headers at all.
	if (headers === undefined || response.type === 'error') return response;
	// Those of a response that was fetched, or of a redirect, cannot be changed.
	const copy = new Response(response.body, response);
	for (const [name, value] of Object.entries(headers)) copy.headers.set(name, value);
	return copy;
}

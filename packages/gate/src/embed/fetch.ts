import { checkGuard, questionTo } from './admission.ts';
import type { Caller, CallerCertificate } from './caller.ts';
import type { Admitted, Claims, Gate } from './gate.ts';
import { checkHandler, FUNCTION, type Kinds, SCOPES } from './options.ts';
import { type Refusal, responseBy, responseTo } from './refusal.ts';
import { releaseAfterAbort, releaseAfterBody } from './slot.ts';

export interface GuardOptions<Rest extends unknown[] = unknown[]> extends Pick<Caller, 'scopes'> {
	/** Returns the client's certificate (`certificateOf`), which a web-standard request lacks. Called if it is needed; see `Caller.certificate`. */
	readonly certificate?: (request: Request, ...rest: Rest) => CallerCertificate | undefined;
	/**
	 * Answers a refused request in place of the gate's plain text, with its own status and headers. An `Error` that it throws goes to the
	 * server. If it returns anything but a response, the gate answers.
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
	...given: [options?: GuardOptions<Rest>]
): (request: Request, ...rest: Rest) => Response | Promise<Response> {
	const { onRefused, scopes = [], certificate } = checkGuard<GuardOptions<Rest>>(gate, given, KINDS);
	checkHandler('ERR_GATE_OPTIONS', handler);
	const ask = questionTo(gate);
	return (request, ...rest) => {
		// `Headers` joins two values with a comma. No token has one, so the gate refuses them.
		const caller = { certificate: certificate && (() => certificate(request, ...rest)), scopes };
		const verdict = ask(request, request.headers.get('authorization'), caller);
		if (verdict.ok) {
			if (verdict.slot === undefined && verdict.headers === undefined) return handler(request, verdict.claims, ...rest);
			return accompany(verdict, request.signal, async () => handler(request, verdict.claims, ...rest));
		}
		const { refusal } = verdict;
		return onRefused ? responseBy(refusal, async () => onRefused(refusal, request, ...rest)) : responseTo(refusal);
	};
}

const KINDS: Kinds<GuardOptions> = { scopes: SCOPES, certificate: FUNCTION, onRefused: FUNCTION };

/** Adds the verdict's headers to the response, and releases its slot when the response is over or the client has left. */
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
	// The headers of a fetched response or a redirect are immutable.
	const copy = new Response(response.body, response);
	for (const [name, value] of Object.entries(headers)) copy.headers.set(name, value);
	return copy;
}

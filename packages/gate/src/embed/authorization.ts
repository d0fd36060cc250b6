import { GateError } from './error.ts';

/**
 * A request of any kind: one of `node:http` or `node:http2` (also the request of an `upgrade`, `connect` or `checkContinue` event),
 * a web-standard `Request`, or whatever else has the raw list of its headers or a `Headers`.
 */
export type AnyRequest =
	| { readonly rawHeaders: readonly string[] }
	| { readonly headers: { get(name: string): string | null } };

/**
 * Reads the `Authorization` header for `gate.check` in the one way that is safe: two of them are given as two, which the gate
 * refuses, since the framework behind it may read the one that the gate did not. `req.headers.authorization` shows only the
 * first.
 *
 * @throws {GateError} `ERR_GATE_REQUEST` for something that is no request: its headers cannot be told.
 */
export function authorizationOf(request: AnyRequest): string | readonly string[] | undefined {
	// Calls from JavaScript may give anything.
	const { rawHeaders, headers } = (request ?? {}) as { rawHeaders?: readonly string[]; headers?: Partial<Headers> };
	if (Array.isArray(rawHeaders)) return authorizationIn(rawHeaders);
	// Two headers arrive as one value with a comma in it, which no token has: refused, as two must be.
	if (typeof headers?.get === 'function') return headers.get('authorization') ?? undefined;
	throw new GateError('ERR_GATE_REQUEST', 'a request has rawHeaders (node:http, node:http2) or headers.get (fetch)');
}

/**
 * Every value of the `Authorization` header in a raw list of names and values.
 *
 * @param rawHeaders `rawHeaders` of a request of `node:http` or `node:http2`.
 *
 * @internal
 */
export function authorizationIn(rawHeaders: readonly string[]): string | readonly string[] | undefined {
	let found: string | string[] | undefined;
	for (let i = 0; i < rawHeaders.length; i += 2) {
		const name = rawHeaders[i]!;
		// The length first: most names are settled by it, without a lower-case copy.
		if (name.length !== 13 || name.toLowerCase() !== 'authorization') continue;
		const value = rawHeaders[i + 1]!;
		found = found === undefined ? value : [found, value].flat();
	}
	return found;
}

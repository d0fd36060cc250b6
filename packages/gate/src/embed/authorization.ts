import { GateError } from './error.ts';

/**
 * Any request with a raw list of its headers or a `Headers`: of `node:http` or `node:http2` (also of an `upgrade`, `connect` or
 * `checkContinue` event), or a web-standard `Request`.
 */
export type AnyRequest =
	| { readonly rawHeaders: readonly string[] }
	| { readonly headers: { get(name: string): string | null } };

/**
 * Reads the `Authorization` header for `gate.check`. Two headers are returned as two values, and the gate refuses them: the framework
 * behind it might read the one that the gate did not. `req.headers.authorization` is unsafe, because it shows the first only.
 *
 * @throws {GateError} `ERR_GATE_REQUEST` if the argument has no headers that can be read.
 */
export function authorizationOf(request: AnyRequest): string | readonly string[] | undefined {
	// JavaScript callers may pass anything.
	const { rawHeaders, headers } = (request ?? {}) as { rawHeaders?: readonly string[]; headers?: Partial<Headers> };
	if (Array.isArray(rawHeaders)) return authorizationIn(rawHeaders);
	// `Headers` joins two values with a comma. No token has one, so the gate refuses them.
	if (typeof headers?.get === 'function') return headers.get('authorization') ?? undefined;
	throw new GateError(
		'ERR_GATE_REQUEST',
		'the request must have rawHeaders (node:http, node:http2) or headers.get (fetch)',
	);
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
		// Most names differ in length, so no lower-case copy of them is made.
		if (name.length !== 13 || name.toLowerCase() !== 'authorization') continue;
		const value = rawHeaders[i + 1]!;
		found = found === undefined ? value : [found, value].flat();
	}
	return found;
}

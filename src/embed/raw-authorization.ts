/**
 * Every value of the `Authorization` header in a raw list of names and values. `req.headers` shows only the first of
 * two, and the framework behind us may read the other.
 *
 * @param rawHeaders `rawHeaders` of a request of `node:http` or `node:http2`.
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

/**
 * The scopes of a token: the names in `scope` (RFC 8693 section 4.2, RFC 9068 section 2.2.3) if it has one, otherwise in `scp`, which
 * some issuers write instead. Either may be a string of names separated by spaces, or a list of names. A claim of any other type
 * grants nothing.
 */
export function readScopes(payload: Readonly<Record<string, unknown>>): ReadonlySet<string> {
	return new Set(namesIn(Object.hasOwn(payload, 'scope') ? payload.scope : payload.scp));
}

/** Whether all wanted scopes are granted. A hole in the list, which `every` would skip, counts as a scope that no token has. */
export function grants(granted: ReadonlySet<string>, wanted: readonly string[]): boolean {
	for (const scope of wanted) if (!granted.has(scope)) return false;
	return true;
}

/** The grammar of a scope's name (RFC 6749 section 3.3). */
export const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

function namesIn(claim: unknown): readonly string[] {
	if (typeof claim === 'string') return claim.split(' ').filter((name) => name !== '');
	return Array.isArray(claim) && claim.every((name) => typeof name === 'string') ? claim : [];
}

/**
 * What a token's bearer may do: the names in `scope` (RFC 8693 section 4.2, RFC 9068 section 2.2.3) where it has one, otherwise in
 * `scp`, which some issuers write instead. Either may be a text with blanks between the names, or a list of them. A claim of any
 * other shape grants nothing.
 */
export function readScopes(payload: Readonly<Record<string, unknown>>): ReadonlySet<string> {
	return new Set(namesIn(Object.hasOwn(payload, 'scope') ? payload.scope : payload.scp));
}

/** Whether all of them are granted. A hole in the list, which `every` would pass over, counts as a scope that no token has. */
export function grants(granted: ReadonlySet<string>, wanted: readonly string[]): boolean {
	for (const scope of wanted) if (!granted.has(scope)) return false;
	return true;
}

/** RFC 6749 section 3.3: what can be the name of a scope. */
export const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

function namesIn(claim: unknown): readonly string[] {
	if (typeof claim === 'string') return claim.split(' ').filter((name) => name !== '');
	return Array.isArray(claim) && claim.every((name) => typeof name === 'string') ? claim : [];
}

/**
 * The scopes that a verified token grants: of `scope` (RFC 8693 section 4.2, RFC 9068 section 2.2.3) where it has one, otherwise of
 * `scp`, which some issuers write instead. Either may be a text with blanks between the names, or a list of them. A claim of
 * any other shape grants nothing. Worked out once for each payload.
 */
export function scopesOf(payload: Readonly<Record<string, unknown>>): ReadonlySet<string> {
	let scopes = known.get(payload);
	if (scopes === undefined) {
		scopes = new Set(namesIn(Object.hasOwn(payload, 'scope') ? payload.scope : payload.scp));
		known.set(payload, scopes);
	}
	return scopes;
}

/** RFC 6749 section 3.3: what can be the name of a scope. */
export const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

/** As long as the verdict on the token is remembered, and no longer. */
const known = new WeakMap<Readonly<Record<string, unknown>>, ReadonlySet<string>>();

function namesIn(claim: unknown): readonly string[] {
	if (typeof claim === 'string') return claim.split(' ').filter((name) => name !== '');
	return Array.isArray(claim) && claim.every((name) => typeof name === 'string') ? claim : [];
}

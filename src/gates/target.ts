/**
 * The origin form of a request target (RFC 9112 section 3.2). A client may send the absolute form to any server, and the
 * server must take it; scheme and authority are dropped, since the upstream's own go in their place.
 */
export function originForm(target: string): string {
	if (target.charCodeAt(0) === SLASH) return target;
	const match = ABSOLUTE.exec(target);
	if (match === null) return target;
	const rest = target.slice(match[0].length);
	// `http://host?query` has an empty path, which is sent as `/`.
	return rest === '' || rest[0] === '?' ? `/${rest}` : rest;
}

/** What of a target may be logged: its path. People put into queries and fragments what is nobody's business. */
export function withoutQuery(target: string): string {
	const end = target.search(/[?#]/);
	return end === -1 ? target : target.slice(0, end);
}

const SLASH = 0x2f;
const ABSOLUTE = /^https?:\/\/[^/?#@\\\s]+/i;

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

const SLASH = 0x2f;
const ABSOLUTE = /^https?:\/\/[^/?#@\\\s]+/i;

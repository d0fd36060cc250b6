import { isAuthority } from './headers.ts';

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

/**
 * The authority of a target in absolute form: it takes the place of `Host` (RFC 9112 section 3.2.2).
 *
 * @returns `undefined`: the target is in another form; `null`: there is one, and it is malformed.
 */
export function authorityOf(target: string): string | null | undefined {
	if (target.charCodeAt(0) === SLASH) return undefined;
	const match = ABSOLUTE.exec(target);
	// What follows an authority begins a path or a query; with anything else there the path gate refuses the target.
	if (match === null || !/^[/?]?$/.test(target.charAt(match[0].length))) return undefined;
	const authority = match[0].slice(match[0].indexOf('//') + 2);
	return isAuthority(authority) ? authority : null;
}

/** The part of a target that may be logged: its path. Queries and fragments may have secrets. */
export function withoutQuery(target: string): string {
	const end = target.search(/[?#]/);
	return end === -1 ? target : target.slice(0, end);
}

const SLASH = 0x2f;
const ABSOLUTE = /^https?:\/\/[^/?#@\\\s]+/i;

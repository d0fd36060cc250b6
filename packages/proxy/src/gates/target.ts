import { isAuthority } from './headers.ts';

/**
 * The origin form of a request target (RFC 9112 section 3.2). A client may send the absolute form to any server, and the server
 * must accept it. Scheme and authority are dropped: the upstream gets its own.
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
 * The authority of a target in absolute form: it replaces `Host` (RFC 9112 section 3.2.2).
 *
 * @returns `undefined`: the target is in another form; `null`: the authority is malformed.
 */
export function authorityOf(target: string): string | null | undefined {
	if (target.charCodeAt(0) === SLASH) return undefined;
	const match = ABSOLUTE.exec(target);
	// Only a path or a query may follow the authority; anything else is refused by the path gate.
	if (match === null || !/^[/?]?$/.test(target.charAt(match[0].length))) return undefined;
	const authority = match[0].slice(match[0].indexOf('//') + 2);
	return isAuthority(authority) ? authority : null;
}

/** The part of a target that may be logged: its path. Queries and fragments may contain secrets. */
export function withoutQuery(target: string): string {
	const end = target.search(/[?#]/);
	return end === -1 ? target : target.slice(0, end);
}

const SLASH = 0x2f;
const ABSOLUTE = /^https?:\/\/[^/?#@\\\s]+/i;

import { cleanTarget } from '../gates/path.ts';
import { quote } from './wording.ts';

/**
 * Finds route prefixes that no request could ever match, because such a path does not arrive or is refused before
 * routes are looked at.
 *
 * @returns the fault and the remedy in words; `undefined` for a prefix that can match.
 */
export function prefixProblem(prefix: string): string | undefined {
	const pattern = /^(?:~\*?\s*)?\^(.*)$/.exec(prefix)?.[1];
	if (pattern !== undefined) {
		const path = pattern.replace(/(?:[*+?()[\]{}|^$\\]|\.[*+?]).*$/s, '').replace(/^\/*|\/+$/g, '');
		return `must be a path, not a regular expression (got ${quote(prefix)}); write ${quote(`/${path}`)}`;
	}
	if (!prefix.startsWith('/')) {
		return `must begin with "/" (got ${quote(prefix)}); write ${quote(`/${prefix}`)}`;
	}
	const end = prefix.search(/[?#]/);
	if (end !== -1) {
		return `must be a path without query and fragment (got ${quote(prefix)}); write ${quote(prefix.slice(0, end))}`;
	}
	const encoded = prefix.replace(/[^\x21-\x7e]+/g, encodeURIComponent);
	if (encoded !== prefix) {
		return `must be visible ASCII, as it arrives in requests (got ${quote(prefix)}); write ${quote(encoded)}`;
	}
	if (typeof cleanTarget(prefix) !== 'string') {
		return (
			`can never match (got ${quote(prefix)}): requests for paths with dot segments, backslashes, doubtful ` +
			'escapes or "//" at the start are refused before routing; write the plain path'
		);
	}
	const unsure = UNSURE_ESCAPE.exec(prefix)?.[0] ?? (isUtf8(prefix) ? undefined : 'it is not UTF-8');
	if (unsure !== undefined) {
		return `has an escape that upstreams read differently (got ${quote(prefix)}): ${unsure}; write a path without it`;
	}
	return undefined;
}

/** Escapes of control characters, `#`, `%`, `?`, backslash and a trailing space: allowed in requests, not in a route. */
const UNSURE_ESCAPE = /%(?:[01][0-9a-f]|7f|2[35]|3f|5c|20(?=;|%3b|$))/i;

function isUtf8(path: string): boolean {
	try {
		decodeURIComponent(path);
		return true;
	} catch {
		return false;
	}
}

/**
 * Finds route prefixes that look like patterns: everything in them but `/` matches literally, so that no request of
 * the intended ones matches.
 *
 * @returns the doubt and the remedy in words; `undefined` for a literal prefix.
 */
export function prefixDoubt(prefix: string): string | undefined {
	const at = prefix.search(PATTERN);
	if (at === -1) return undefined;
	const literal = prefix.slice(0, prefix.lastIndexOf('/', at)) || '/';
	return (
		`${quote(prefix)} looks like a glob, a template or a regular expression, but is matched literally; ` +
		`write ${quote(literal)} for that path and all paths below it`
	);
}

/** A star, `{id}`, `<id>`, a segment `:id`, and typical regular expression syntax. */
const PATTERN = /\*|\{[^}]*\}|<[^>]*>|(?<=\/):[A-Za-z_]|\^|\$$|\.\+|\[[^\]]*\]/;

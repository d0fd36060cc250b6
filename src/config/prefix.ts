import { cleanTarget } from '../gates/path.ts';
import { quote } from './wording.ts';

/**
 * Finds route prefixes that no request could ever match, because such a path does not arrive or is refused before
 * routes are looked at (decisions "Routes" and "Path").
 *
 * @returns in words what is wrong and what to write; `undefined` for a prefix that can match.
 */
export function prefixProblem(prefix: string): string | undefined {
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
			'escapes or "//" at their beginning are refused before routes are looked at; write the plain path'
		);
	}
	return undefined;
}

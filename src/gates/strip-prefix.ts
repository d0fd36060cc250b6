import type { CleanTarget } from './path.ts';
import { BAD_PATH, type Rejection } from './rejection.ts';

/**
 * Cuts the prefix of a route from a target that the route has matched (`strip_prefix`). The cut lies on a segment boundary, so
 * the segments that are left are those that the client sent: no dot segment and no escape comes about by it. The query stays.
 *
 * @param target its path matches `prefix` (`RouteTable.match`).
 * @returns a target that begins with one `/`; refused where the path could be read as beginning with two, since `//host/x` is
 *   a reference to another host for those who resolve it (RFC 3986 section 4.2).
 */
export function stripPrefix(target: CleanTarget, prefix: string): CleanTarget | Rejection {
	const cut = withoutSlash(prefix);
	if (cut === '') return target;
	const rest = target.slice(cut.length);
	if (rest === '' || rest.startsWith('?')) return `/${rest}` as CleanTarget;
	return EMPTY_SEGMENT.test(rest) ? EMPTY_BEHIND_PREFIX : (rest as CleanTarget);
}

/** As much of a prefix as is cut: its last slash is the first one of what is left. */
export function withoutSlash(prefix: string): string {
	return prefix.endsWith('/') ? prefix.slice(0, -1) : prefix;
}

/** A first segment of which nothing is left for readers that decode separators, or cut path parameters off. */
const EMPTY_SEGMENT = /^\/(?:\/|;|%2f|%5c|%3b)/i;

const EMPTY_BEHIND_PREFIX = BAD_PATH.because('empty segment behind the prefix');

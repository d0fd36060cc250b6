import { BAD_PATH, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { type CleanTarget, pathOf } from './path.ts';
import { isPlain, readingsOf } from './path-readings.ts';

/**
 * Cuts the prefix of a route from a target that the route has matched (`strip_prefix`). The cut is on a segment boundary, so the
 * other segments stay as the client sent them: no dot segment and no escape can appear. The query stays.
 *
 * @param target its path matches `prefix` (`RouteTable.match`).
 * @returns a target that begins with one `/`; refused if some reader could see two, since `//host/x` is a reference to another host
 *   (RFC 3986 section 4.2).
 */
export function stripPrefix(target: CleanTarget, prefix: string): CleanTarget | Rejection {
	const cut = withoutSlash(prefix);
	if (cut === '') return target;
	const rest = target.slice(cut.length);
	if (rest === '' || rest.startsWith('?')) return `/${rest}` as CleanTarget;
	return beginsEmpty(pathOf(rest as CleanTarget)) ? EMPTY_BEHIND_PREFIX : (rest as CleanTarget);
}

/** In any reading: the first segment may become empty when a reader decodes it or cuts path parameters. */
function beginsEmpty(path: string): boolean {
	return !isPlain(path) && [...(readingsOf(path) ?? ['//'])].some((reading) => EMPTY_SEGMENT.test(reading));
}

const EMPTY_SEGMENT = /^\/(?:\/|$)/;

/** The part of a prefix that is cut: its last slash stays as the first one of the rest. */
export function withoutSlash(prefix: string): string {
	return prefix.endsWith('/') ? prefix.slice(0, -1) : prefix;
}

const EMPTY_BEHIND_PREFIX = BAD_PATH.because('empty segment after the prefix');

import { BAD_PATH, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { readingsOf } from './path-readings.ts';

declare const clean: unique symbol;
/** A request target that all upstreams understand the same way; path and query as the client sent them. */
export type CleanTarget = string & { readonly [clean]: true };

/**
 * Refuses a path that an upstream might resolve to another one. All other paths are forwarded byte for byte. The query is checked
 * only for bytes that would break the request line.
 *
 * @param target the request target in origin form (RFC 9112 section 3.2.1): a path, and maybe a query.
 */
export function cleanTarget(target: string): CleanTarget | Rejection {
	if (!ORIGIN_FORM.test(target)) return target.startsWith('/') ? BAD_CHARACTER : NOT_ORIGIN_FORM;
	const query = target.indexOf('?');
	const path = query === -1 ? target : target.slice(0, query);
	// `//host/x` is a reference to another host if a reader takes it for a relative URL (RFC 3986 section 4.2).
	if (path.startsWith('//')) return TWO_SLASHES;
	const doubt = DOUBTFUL.test(path) ? resolveDoubt(path) : undefined;
	return doubt?.refusal ?? (target as CleanTarget);
}

/** The refused part of a path, and its position. */
interface PathDoubt {
	readonly refusal: Rejection;
	/** The part of the path that is to blame: a segment, an escape, a character. */
	readonly part: string;
	/** Where it begins, in characters. */
	readonly at: number;
	/** The reading that has the fault, if the path as sent does not have it. */
	readonly reading?: string;
}

/** The place in a target that `cleanTarget` refuses; `undefined` if it refuses none. */
export function doubtIn(target: string): PathDoubt | undefined {
	const refusal = cleanTarget(target);
	if (typeof refusal === 'string') return undefined;
	if (refusal === NOT_ORIGIN_FORM) return { refusal, part: target, at: 0 };
	if (refusal === TWO_SLASHES) return { refusal, part: '//', at: 0 };
	if (refusal === BAD_CHARACTER) {
		const at = target.search(NOT_IN_TARGET);
		return { refusal, part: String.fromCodePoint(target.codePointAt(at)!), at };
	}
	return resolveDoubt(target.replace(/\?.*/s, ''));
}

const NOT_ORIGIN_FORM = BAD_PATH.because('target is not a path');
const BAD_CHARACTER = BAD_PATH.because('fragment, space or byte outside ASCII');
const TWO_SLASHES = BAD_PATH.because('two slashes at the start');
const BACKSLASH = BAD_PATH.because('backslash');
const BAD_ESCAPE = BAD_PATH.because('malformed percent-encoding');
const ENCODED_NUL = BAD_PATH.because('encoded NUL');
const ENCODED_TWICE = BAD_PATH.because('double-encoded');
const DOT_SEGMENTS = BAD_PATH.because('dot segment');
/** A path with more readings than `readingsOf` follows: its route is undecidable. */
export const TOO_AMBIGUOUS = BAD_PATH.because('too many readings');

/** The path of a clean target, without its query. */
export function pathOf(target: CleanTarget): string {
	const query = target.indexOf('?');
	return query === -1 ? target : target.slice(0, query);
}

/** Only visible ASCII, and no fragment: nothing else is allowed on a request line (RFC 9112 section 3.2). */
const ORIGIN_FORM = /^\/[\x21\x22\x24-\x7e]*$/;
const NOT_IN_TARGET = /[^\x21\x22\x24-\x7e]/;

/** Characters that a dot segment or a path with several readings needs; few honest paths have any. */
const DOUBTFUL = /[%\\;]|\/[./]/;

/**
 * Escapes that an upstream may decode twice, or decode to something dangerous: NUL, `%u` of old IIS, an encoded percent sign before
 * the plain or encoded digits of a dot or separator (`%252e`, `%25%32%65`). Readers disagree on a `%` that begins no escape.
 */
const DANGEROUS_ESCAPE = /%(?:00|u|25(?:(?:2|%32)(?:[ef]|%[46][56])|(?:5|%35)(?:c|%[46]3))|(?![0-9a-f]{2}))/i;

/** Whatever some upstream takes for a separator of segments. */
const SEPARATOR = /\/|%2f|%5c/i;

/** `.` or `..`, each dot plain or encoded, up to a path parameter (RFC 3986 section 3.3) that some readers cut off. */
const DOT_SEGMENT = /^(?:\.|%2e){1,2}(?:;|%3b|$)/i;

function resolveDoubt(path: string): PathDoubt | undefined {
	// A backslash is not a URI character (RFC 3986 section 2), and half of all software reads it as a slash.
	const backslash = path.indexOf('\\');
	if (backslash !== -1) return { refusal: BACKSLASH, part: '\\', at: backslash };
	const dangerous = DANGEROUS_ESCAPE.exec(path);
	if (dangerous !== null) {
		const [part] = dangerous;
		const refusal = part === '%00' ? ENCODED_NUL : part.startsWith('%25') ? ENCODED_TWICE : BAD_ESCAPE;
		return { refusal, part, at: dangerous.index };
	}
	const segments = path.split(SEPARATOR);
	const nth = segments.findIndex((segment) => DOT_SEGMENT.test(segment));
	if (nth === -1) return resolveReadings(path);
	return {
		refusal: DOT_SEGMENTS,
		part: segments[nth]!,
		// Computed for explanations only: in the gate it would double the cost of a path of thousands of segments.
		get at() {
			return beginningOf(nth, segments, path);
		},
	};
}

/** Dot segments in other readings of the path: `/%c0%ae%c0%ae/`, `/a/..%3f`. */
function resolveReadings(path: string): PathDoubt | undefined {
	const readings = readingsOf(path);
	if (readings === undefined) return { refusal: TOO_AMBIGUOUS, part: path, at: 0 };
	for (const reading of readings) {
		if (DOTS_BETWEEN_SLASHES.test(reading)) return { refusal: DOT_SEGMENTS, part: path, at: 0, reading };
	}
	return undefined;
}

const DOTS_BETWEEN_SLASHES = /\/\.{1,2}(?:\/|$)/;

/** A separator has one or three characters, so the beginning of a segment is found in the path itself. */
function beginningOf(nth: number, segments: readonly string[], path: string): number {
	let at = 0;
	for (const { length } of segments.slice(0, nth)) at += length + SEPARATOR.exec(path.slice(at + length))![0].length;
	return at;
}

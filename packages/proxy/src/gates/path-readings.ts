/**
 * Every path that a server in use could understand a path as. Servers differ in the steps that they apply before they look up a
 * handler, in their order, and in how often. So each step below is applied to the path and to every result, until there are no new
 * results. Every step shortens a path or leaves fewer backslashes in it, so this ends.
 *
 * Results are bytes in a latin1 string: decoded bytes need not be UTF-8.
 *
 * @param path begins with `/`, without its query. Dot segments stay in it: the path gate refuses them.
 * @returns the path as it was sent, then its other readings; `undefined`: more than the bounds allow, which only an attack has.
 */
export function readingsOf(path: string): ReadonlySet<string> | undefined {
	const readings = new Set([path]);
	let left = Math.max(MIN_CHARACTERS, LENGTHS * path.length);
	// Iteration over a set includes members that are added during it.
	for (const reading of readings) {
		left -= reading.length;
		if (readings.size > MAX_READINGS || left < 0) return undefined;
		if (isPlain(reading)) continue;
		for (const step of STEPS) readings.add(step(reading) || '/');
	}
	return readings;
}

/** Whether a path has no other readings, which is true of most paths. */
export function isPlain(path: string): boolean {
	return !MORE_READINGS.test(path);
}

/** Everything that a step looks for. In a path as it was sent, that is an escape, a backslash, a path parameter or an empty segment. */
const MORE_READINGS = /[%\\;\0?#\t\n\r\x80-\xff]|\/\/|[\0-\x20]$/;

/** Bounds on the readings of a path and on their characters in all: the work is linear in the length of the path. */
const MAX_READINGS = 64;
const MIN_CHARACTERS = 65_536;
const LENGTHS = 4;

const STEPS: readonly ((path: string) => string)[] = [
	// Most servers decode a path once; a proxy in front of them may have decoded it before (nginx: `proxy_pass http://upstream$uri`).
	(path) => path.replace(ESCAPE, decoded),
	// Some leave encoded separators as they are (Apache httpd: `AllowEncodedSlashes NoDecode`).
	(path) => path.replace(OTHER_ESCAPE, decoded),
	// Windows, IIS and the URL standard (section 4.4) take a backslash for a slash.
	(path) => path.replaceAll('\\', '/'),
	// Servlet containers cut path parameters, some before decoding, some after it.
	(path) => path.replace(PARAMETER, ''),
	// nginx (`merge_slashes`), Go's `path.Clean`, Spring, file systems.
	(path) => path.replace(SLASHES, '/'),
	// A reader that resolves a decoded path as a URL takes `//host` at its beginning for a host (RFC 3986 section 4.2).
	(path) => path.replace(HOST, ''),
	// For such a reader a decoded `?` or `#` ends the path; in C strings NUL does.
	(path) => path.replace(END, ''),
	// Lenient UTF-8 decoders accept overlong forms of ASCII characters (RFC 3629 section 3).
	(path) => path.replace(OVERLONG, shortened),
	// Other servers drop bytes that are not UTF-8.
	(path) => path.replace(INVALID, '$1'),
	// URL parsers remove tabs, line ends, and blanks at the end (URL standard, section 4.4).
	(path) => path.replace(LINE_ENDS, ''),
	(path) => path.replace(TRAILING_BLANKS, ''),
];

const ESCAPE = /%([0-9a-f]{2})/gi;
const OTHER_ESCAPE = /%(?!2f|5c)([0-9a-f]{2})/gi;
const PARAMETER = /;[^/]*/g;
const SLASHES = /\/{2,}/g;
const HOST = /^\/{2,}[^/]*/;
/** The lookbehind keeps it linear: each run of blanks is tried once. */
const TRAILING_BLANKS = /(?<![\0-\x20])[\0-\x20]+$/;
const LINE_ENDS = /[\t\n\r]/g;
const END = /[\0?#].*/s;

/** Only the low six bits of continuation bytes count, whatever the high ones are (`%c0%2e`, old IIS). */
const OVERLONG =
	/(?:[\xc0\xc1]|(?:\xe0|\xf0[\0@\x80\xc0]|\xf8[\0@\x80\xc0]{2}|\xfc[\0@\x80\xc0]{3})[\0\x01@A\x80\x81\xc0\xc1])./gs;

/** The first group is valid UTF-8 of two or more bytes (RFC 3629 section 4), which stays. */
const INVALID =
	/((?:[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})+)|[\x80-\xff]/g;

function decoded(_: string, digits: string): string {
	return String.fromCharCode(Number.parseInt(digits, 16));
}

/** The last byte of an overlong form has the low six bits of the ASCII character, the one before it the seventh. */
function shortened(sequence: string): string {
	const { length } = sequence;
	return String.fromCharCode(((sequence.charCodeAt(length - 2) & 1) << 6) | (sequence.charCodeAt(length - 1) & 0x3f));
}

/**
 * Every path that software in use could take a path for. Servers differ in what they do to a path before they look up its
 * handler, in which order, and how often. So each step below is applied to the path and to every result, until the results contain
 * nothing new. All steps shorten a path or leave fewer backslashes in it, so this ends.
 *
 * Results are bytes, as in a latin1 text: decoded bytes need not be UTF-8.
 *
 * @param path begins with `/`, without its query. Dot segments stay in it: the path gate refuses them.
 * @returns the path as it was sent, first, then the others; `undefined`: more than the bounds allow, which no honest path has.
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

/** Whether a path or one of its readings has no other one. Most paths have none. */
export function isPlain(path: string): boolean {
	return !MORE_READINGS.test(path);
}

/** Whatever a step looks for. In a path as it is sent: an escape, a backslash, a path parameter, an empty segment. */
const MORE_READINGS = /[%\\;\0?#\t\n\r\x80-\xff]|\/\/|[\0-\x20]$/;

/** Steps are taken for at most so many readings, with so many characters in all: the work for a path is linear in its length. */
const MAX_READINGS = 64;
const MIN_CHARACTERS = 65_536;
const LENGTHS = 4;

const STEPS: readonly ((path: string) => string)[] = [
	// Most servers decode a path once; what sits in front of them may have done so before (nginx: `proxy_pass http://upstream$uri`).
	(path) => path.replace(ESCAPE, decoded),
	// Some leave encoded separators as they are (Apache httpd: `AllowEncodedSlashes NoDecode`).
	(path) => path.replace(OTHER_ESCAPE, decoded),
	// Windows, IIS and the URL standard (section 4.4) take a backslash for a slash.
	(path) => path.replaceAll('\\', '/'),
	// Servlet containers cut path parameters, some before they decode and some after it.
	(path) => path.replace(PARAMETER, ''),
	// nginx (`merge_slashes`), Go's `path.Clean`, Spring, file systems.
	(path) => path.replace(SLASHES, '/'),
	// A reader that resolves a decoded path as a URL takes its first segment for a host (RFC 3986 section 4.2).
	(path) => path.replace(HOST, ''),
	// To such a reader a decoded `?` or `#` ends the path, and to a C string NUL does.
	(path) => path.replace(END, ''),
	// Lenient decoders of UTF-8 take a longer form of an ASCII character for the character (RFC 3629 section 3).
	(path) => path.replace(OVERLONG, shortened),
	// Other servers drop bytes that are not UTF-8.
	(path) => path.replace(INVALID, '$1'),
	// Parsers of URLs leave out tabs and line ends, and blanks at the end (URL standard, section 4.4).
	(path) => path.replace(LINE_ENDS, ''),
	(path) => path.replace(TRAILING_BLANKS, ''),
];

const ESCAPE = /%([0-9a-f]{2})/gi;
const OTHER_ESCAPE = /%(?!2f|5c)([0-9a-f]{2})/gi;
const PARAMETER = /;[^/]*/g;
const SLASHES = /\/{2,}/g;
const HOST = /^\/{2,}[^/]*/;
/** Looks at each run of blanks once. */
const TRAILING_BLANKS = /(?<![\0-\x20])[\0-\x20]+$/;
const LINE_ENDS = /[\t\n\r]/g;
const END = /[\0?#].*/s;

/** Continuation bytes count by their low six bits only, whatever the others are (`%c0%2e`, old IIS). */
const OVERLONG =
	/(?:[\xc0\xc1]|(?:\xe0|\xf0[\0@\x80\xc0]|\xf8[\0@\x80\xc0]{2}|\xfc[\0@\x80\xc0]{3})[\0\x01@A\x80\x81\xc0\xc1])./gs;

/** The first group is UTF-8 of two bytes and more (RFC 3629 section 4), which stays. */
const INVALID =
	/((?:[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})+)|[\x80-\xff]/g;

function decoded(_: string, digits: string): string {
	return String.fromCharCode(Number.parseInt(digits, 16));
}

/** Of an ASCII character the last byte has six bits, and the one before it has the seventh. */
function shortened(sequence: string): string {
	const { length } = sequence;
	return String.fromCharCode(((sequence.charCodeAt(length - 2) & 1) << 6) | (sequence.charCodeAt(length - 1) & 0x3f));
}

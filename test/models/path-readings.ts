/**
 * Servers as they are, one character at a time: how each reads a path before it looks for a handler. An oracle for
 * `gates/path-readings.ts` that has none of its code and none of its regular expressions.
 */
export type PathReader = (path: string) => string;

/** Percent-decoding; only valid escapes are decoded. @param keeps octets that stay encoded. */
export function decode(path: string, keeps = ''): string {
	let text = '';
	for (let at = 0; at < path.length; at++) {
		const octet = path[at] === '%' ? digit(path[at + 1]) * 16 + digit(path[at + 2]) : Number.NaN;
		const char = String.fromCharCode(octet);
		if (Number.isNaN(octet) || keeps.includes(char)) text += path[at];
		else {
			text += char;
			at += 2;
		}
	}
	return text;
}

function digit(char: string | undefined): number {
	const value = char === undefined ? -1 : '0123456789abcdef'.indexOf(char.toLowerCase());
	return value < 0 ? Number.NaN : value;
}

function cutParameters(path: string): string {
	let text = '';
	let isCut = false;
	for (const char of path) {
		if (char === '/') isCut = false;
		else if (char === ';') isCut = true;
		if (!isCut) text += char;
	}
	return text;
}

function mergeSlashes(path: string): string {
	let text = '';
	for (const char of path) if (char !== '/' || !text.endsWith('/')) text += char;
	return text;
}

function backslashes(path: string): string {
	return path.split('\\').join('/');
}

/** A decoder of UTF-8 that believes each leading byte, and takes six bits of whatever follows it. */
function overlong(path: string): string {
	let text = '';
	for (let at = 0; at < path.length; at++) {
		const lead = path.charCodeAt(at);
		const more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf8 ? 3 : lead < 0xfc ? 4 : 5;
		let code = more === 0 ? lead : lead & (0x3f >> more);
		for (let i = 1; i <= more; i++) code = code * 64 + (path.charCodeAt(at + i) & 0x3f);
		if (more > 0 && at + more < path.length && code < 0x80) {
			text += String.fromCharCode(code);
			at += more;
		} else text += path[at];
	}
	return text;
}

/** What `TextDecoder` finds invalid is left out. */
function dropInvalid(path: string): string {
	const text = new TextDecoder().decode(Buffer.from(path, 'latin1')).replaceAll('\ufffd', '');
	return Buffer.from(text).toString('latin1');
}

function dropLineEnds(path: string): string {
	return [...path].filter((char) => !'\t\r\n'.includes(char)).join('');
}

function trimEnd(path: string): string {
	let end = path.length;
	while (end > 0 && path.charCodeAt(end - 1) <= 0x20) end--;
	return path.slice(0, end);
}

function endAtQuery(path: string): string {
	const ends = ['?', '#', '\0'].map((end) => path.indexOf(end)).filter((at) => at !== -1);
	return ends.length === 0 ? path : path.slice(0, Math.min(...ends));
}

/** `new URL` does to a path that begins with two slashes what its standard says. */
function withoutHost(path: string): string {
	if (!path.startsWith('//')) return path;
	const slash = [...path].findIndex(
		(char, i) => char === '/' && [...path].slice(0, i).some((before) => before !== '/'),
	);
	return slash === -1 ? '/' : path.slice(slash);
}

const STEPS: Readonly<Record<string, PathReader>> = {
	decode: (path) => decode(path),
	decodeUnreserved: (path) =>
		decode(path, allBut('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~')),
	decodeAllButSeparators: (path) => decode(path, '/\\'),
	cutParameters,
	mergeSlashes,
	backslashes,
	overlong,
	dropInvalid,
	dropLineEnds,
	trimEnd,
	endAtQuery,
	withoutHost,
};

function allBut(chars: string): string {
	return Array.from({ length: 256 }, (_, code) => String.fromCharCode(code))
		.filter((char) => !chars.includes(char))
		.join('');
}

/** The steps of each software, in their order. */
export const KNOWN_READERS: Readonly<Record<string, PathReader>> = {
	'Go ServeMux': inOrder('decode', 'mergeSlashes'),
	WSGI: inOrder('decode'),
	nginx: inOrder('decode', 'mergeSlashes'),
	'a server behind nginx with $uri': inOrder('decode', 'mergeSlashes', 'endAtQuery', 'decode', 'mergeSlashes'),
	Tomcat: inOrder('cutParameters', 'decode', 'mergeSlashes'),
	'Tomcat with ALLOW_BACKSLASH': inOrder('cutParameters', 'decode', 'backslashes', 'mergeSlashes'),
	'old Tomcat behind mod_jk': inOrder('decode', 'cutParameters', 'decode', 'mergeSlashes'),
	'Spring PathPattern': inOrder('cutParameters', 'decodeAllButSeparators'),
	'httpd NoDecode before Tomcat': inOrder('decodeAllButSeparators', 'mergeSlashes', 'cutParameters', 'decode'),
	'a normalising cache': inOrder('decodeUnreserved'),
	'old IIS': inOrder('decode', 'overlong', 'backslashes', 'mergeSlashes'),
	'old IIS, decoding twice': inOrder('decode', 'overlong', 'decode', 'overlong', 'backslashes', 'mergeSlashes'),
	'a server in C': inOrder('decode', 'endAtQuery', 'mergeSlashes'),
	'new URL of a decoded path': inOrder('decode', 'trimEnd', 'backslashes', 'dropLineEnds', 'withoutHost', 'endAtQuery'),
	'PHP with //IGNORE': inOrder('decode', 'dropInvalid', 'mergeSlashes'),
};

function inOrder(...names: readonly string[]): PathReader {
	return (path) => names.reduce((text, name) => STEPS[name]!(text) || '/', path);
}

/** All that servers could make of a path, doing the steps above in any order. For short paths: there are no bounds. */
export function allReadings(path: string): ReadonlySet<string> {
	const readings = new Set([path]);
	for (const reading of readings) for (const step of Object.values(STEPS)) readings.add(step(reading) || '/');
	return readings;
}

/** A server that does these of the steps, in this order: `picks` are any numbers. */
export function anyReader(picks: readonly number[]): PathReader {
	const names = Object.keys(STEPS);
	return inOrder(...picks.map((pick) => names[pick % names.length]!));
}

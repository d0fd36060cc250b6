import { isIP } from 'node:net';
import { parseHostPort } from '../config/authority.ts';
import { durationMs } from '../config/units.ts';
import { parseUpstream } from '../config/upstream.ts';
import { quote } from '../config/wording.ts';
import { Malformed, type ValueOption } from './command.ts';
import { parseFileName } from './options.ts';

/** Options of `proxy init`, `proxy pki client` and `proxy token`. */

/** Default folder of `proxy init`. */
export const DEVELOPMENT_FOLDER = 'dev';

/** Names of the folder's own files, which no client may have. */
const RESERVED_NAMES: readonly string[] = ['ca', 'server', 'issuer'];

export const DEVELOPMENT_DIR = {
	flag: 'dir',
	placeholder: 'DIR',
	fallback: DEVELOPMENT_FOLDER,
	about: 'folder made by proxy init',
	candidates: 'folder',
	parse: parseFileName,
} as const satisfies ValueOption;

/** @returns the text unchanged, if it is a valid upstream. */
export function parseUpstreamUrl(text: string): string {
	const upstream = parseUpstream(text);
	if (typeof upstream === 'string') throw new Malformed(upstream);
	return text;
}

/** A name for a server's certificate: a host name or an IP literal. */
export function parseServerName(text: string): string {
	if (isIP(text) !== 0) return text;
	const parsed = parseHostPort(text);
	if (typeof parsed !== 'string' && parsed.port === undefined) return parsed.host;
	throw new Malformed(`must be a host name or an IP address (got ${quote(text)}); for example edge.internal`);
}

/** The common name of a client and the name of its files. */
export function parseClientName(text: string): string {
	if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text)) {
		throw new Malformed(
			`must be 1 to 64 letters, digits, '.', '_' or '-' (got ${quote(text)}); its files have the same name`,
		);
	}
	if (RESERVED_NAMES.includes(text)) {
		throw new Malformed(`is the name of existing files (got ${quote(text)}); choose another one`);
	}
	return text;
}

/** `spiffe://…` or another URI, or `dns:NAME`, reduced to the name. */
export function parseSan(text: string): string {
	const [, dns] = /^dns:([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)$/i.exec(text) ?? [];
	if (dns !== undefined) return dns;
	// OpenSSL's prefix of a name looks like the scheme of a URI, and no route would ever match such a name.
	const isPrefixed = /^(dns|uri|ip|email|rid|dirname|othername):/i.test(text);
	// Only what an IA5String can hold (RFC 5280 section 4.2.1.6).
	if (/^[a-z][a-z0-9+.-]*:[\x21-\x7e]+$/i.test(text) && !isPrefixed && URL.canParse(text)) return text;
	throw new Malformed(`must be a URI or dns:NAME (got ${quote(text)}); for example spiffe://example.org/ns/pay/sa/web`);
}

/** The subject of a token. */
export function parseSubject(text: string): string {
	if (text !== '') return text;
	throw new Malformed('must not be empty; name the tenant');
}

/** `k=v`: a JSON value if `v` is one, otherwise a text: `admin=true`, `rps=50`, `aud=["a","b"]`, `scope=read write`. */
export function parseClaim(text: string): readonly [name: string, value: unknown] {
	const at = text.indexOf('=');
	if (at < 1) throw new Malformed(`must be NAME=VALUE (got ${quote(text)}); for example scope=read`);
	const value = text.slice(at + 1);
	try {
		return [text.slice(0, at), JSON.parse(value)];
	} catch {
		return [text.slice(0, at), value];
	}
}

/** A development token that lives longer would be forgotten somewhere. */
const MAX_TTL_SECONDS = 366 * 86_400;

/** `90s`, `15m`, `1h` or `7d` as seconds. */
export function parseTtl(text: string): number {
	const seconds = /^\d{1,8}[smhd]$/.test(text) ? durationMs(text)! / 1000 : Number.NaN;
	if (seconds >= 1 && seconds <= MAX_TTL_SECONDS) return seconds;
	throw new Malformed(`must be a number with s, m, h or d, at most a year (got ${quote(text)}); for example 1h`);
}

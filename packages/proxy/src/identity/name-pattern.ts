import { CERTIFICATE_FORBIDDEN, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { CertificateNames } from './certificate-names.ts';

/** The kind of name that a pattern matches. */
export type NameKind = 'spiffe' | 'dns' | 'cn';

/**
 * Matches one name of a client certificate, or, with `*`, all names that differ in these segments: `spiffe://example.org/ns/pay/*`,
 * `dns:*.billing.internal`, `cn:legacy-client`.
 */
export interface NamePattern {
	/** As the configuration spells it. */
	readonly text: string;
	readonly kind: NameKind;
	/** Segments in canonical spelling; `undefined` matches any single segment. */
	readonly segments: readonly (string | undefined)[];
}

/** @returns the pattern, or the problem, in words for operators. */
export function parseNamePattern(text: string): NamePattern | PatternProblem {
	if (text.startsWith('spiffe://')) return spiffePattern(text);
	if (text.startsWith('dns:')) return dnsPattern(text);
	if (text.startsWith('cn:')) return commonNamePattern(text);
	const [scheme = '', rest = ''] = splitOnce(text, ':');
	const guess = SCHEMES[scheme.toLowerCase()];
	return {
		wanted: '"spiffe://…", "dns:…" or "cn:…"',
		remedy: guess === undefined ? `name the kind, for example "dns:${text}"` : `write "${guess(rest)}"`,
	};
}

/** The pattern must be `wanted`; `remedy` says what to do. */
interface PatternProblem {
	readonly wanted: string;
	readonly remedy: string;
}

/** Whether a pattern matches a name, given in segments. */
export function matches({ segments }: NamePattern, name: readonly string[]): boolean {
	return name.length === segments.length && segments.every((one, i) => one === undefined || one === name[i]);
}

/**
 * The certificate's names of one kind, each as segments in canonical spelling.
 *
 * An ambiguous certificate is refused, since a name that readers understand differently could get past `deny`. It is ambiguous if
 * it has a malformed name, several common names, or a SPIFFE ID and another URI (X.509-SVID section 2: exactly one).
 */
export function namesOfKind(kind: NameKind, { uris, dns, commonNames }: CertificateNames): string[][] | Rejection {
	if (kind === 'cn') return commonNames.length > 1 ? SEVERAL_COMMON_NAMES : commonNames.map((name) => [name]);
	const claimed = kind === 'dns' ? dns : uris.filter((uri) => /^spiffe:/i.test(uri));
	if (kind === 'spiffe' && claimed.length > 0 && uris.length > 1) return SEVERAL_URIS;
	const names = claimed.map(kind === 'dns' ? dnsName : spiffeId);
	return names.every((name) => name !== undefined) ? names : MALFORMED;
}

const MALFORMED = CERTIFICATE_FORBIDDEN.because('malformed name in the certificate');
const SEVERAL_URIS = CERTIFICATE_FORBIDDEN.because('several URIs in the certificate');
const SEVERAL_COMMON_NAMES = CERTIFICATE_FORBIDDEN.because('several common names in the certificate');

/**
 * SPIFFE ID sections 2.1 to 2.3: a trust domain, then the segments of the path. No segment is empty or a dot segment, and there are
 * no escapes, query, fragment, port or user. Scheme and trust domain are case-insensitive (RFC 3986 section 6.2.2.1), the path is
 * not.
 */
function spiffeId(uri: string): string[] | undefined {
	const [, domain, path = ''] = /^spiffe:\/\/([A-Za-z0-9._-]{1,255})((?:\/[A-Za-z0-9._-]+)*)$/i.exec(uri) ?? [];
	if (domain === undefined || uri.length > MAX_SPIFFE_ID) return undefined;
	const segments = path.split('/').slice(1);
	return segments.some(isDotSegment) ? undefined : [domain.toLowerCase(), ...segments];
}

/**
 * Labels of a host name, in lower case, without the dot at the end of an absolute name. The `*` of a wildcard certificate is a
 * label like any other: as a wildcard it would name other machines than this client.
 */
function dnsName(name: string): string[] | undefined {
	const labels = name.toLowerCase().replace(/\.$/, '').split('.');
	const [first, ...rest] = labels;
	const isHost = name.length <= MAX_DNS_NAME && rest.every(isLabel) && (first === '*' || isLabel(first!));
	return isHost ? labels : undefined;
}

function isLabel(text: string): boolean {
	return /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/.test(text);
}

function isDotSegment(text: string): boolean {
	return text === '.' || text === '..';
}

const MAX_SPIFFE_ID = 2048;
const MAX_DNS_NAME = 254;

function spiffePattern(text: string): NamePattern | PatternProblem {
	const [domain = '', ...path] = text.slice('spiffe://'.length).split('/');
	if (domain.includes('*')) {
		return {
			wanted: 'a SPIFFE ID with its trust domain',
			remedy: 'name the trust domain: "*" is for the segments after it',
		};
	}
	const star = starProblem(path, '/');
	if (star !== undefined) return star;
	const literal = spiffeId(`spiffe://${[domain, ...path.map((one) => (one === '*' ? 'any' : one))].join('/')}`);
	if (literal === undefined) {
		const all = path.at(-1) === '' ? `; to match each ID that is one segment longer, write "${text}*"` : '';
		return {
			wanted: 'a SPIFFE ID, spiffe://trust-domain/segment/…, of letters, digits, ".", "-" and "_"',
			remedy: `write the ID exactly as in the certificate${all}`,
		};
	}
	return { text, kind: 'spiffe', segments: literal.map((one, i) => (i > 0 && path[i - 1] === '*' ? undefined : one)) };
}

function dnsPattern(text: string): NamePattern | PatternProblem {
	const name = text.slice('dns:'.length);
	const labels = name.split('.');
	const star = starProblem(labels, '.');
	if (star !== undefined) return star;
	const literal = dnsName(labels.map((one) => (one === '*' ? 'any' : one)).join('.'));
	if (literal === undefined) {
		return {
			wanted: 'dns: and a host name',
			remedy: 'write it exactly as in the certificate, for example "dns:*.billing.internal"',
		};
	}
	return { text, kind: 'dns', segments: literal.map((one, i) => (labels[i] === '*' ? undefined : one)) };
}

function commonNamePattern(text: string): NamePattern | PatternProblem {
	const name = text.slice('cn:'.length);
	if (name !== '' && !name.includes('*')) return { text, kind: 'cn', segments: [name] };
	return {
		wanted: 'cn: and a whole common name',
		remedy: 'write the whole name: a common name has no segments that "*" could match',
	};
}

/** `*` is exactly one whole segment. `**` and `pay-*` are refused: programs differ on what they mean. */
function starProblem(segments: readonly string[], separator: string): PatternProblem | undefined {
	const wrong = segments.find((one) => one.includes('*') && one !== '*');
	if (wrong === undefined) return undefined;
	const wanted = 'a name in which "*" stands for one whole segment';
	if (/^\*+$/.test(wrong)) {
		return { wanted, remedy: `write one "*" for each segment: "*${separator}*" for two` };
	}
	return { wanted, remedy: '"*" does not match a part of a segment: write the whole segment, or only "*"' };
}

const SCHEMES: Readonly<Record<string, (rest: string) => string>> = {
	uri: (rest) => rest,
	url: (rest) => rest,
	spiffe: (rest) => `spiffe://${rest.replace(/^\/*/, '')}`,
	dns: (rest) => `dns:${rest}`,
	cn: (rest) => `cn:${rest}`,
};

function splitOnce(text: string, separator: string): string[] {
	const at = text.indexOf(separator);
	return at === -1 ? ['', text] : [text.slice(0, at), text.slice(at + 1)];
}

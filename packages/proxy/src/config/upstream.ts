import type { UpstreamProtocol } from '../shared/messages.ts';
import { parseHostPort } from './authority.ts';
import { quote } from './wording.ts';

/** Address of an upstream. `authority` is `host:port` exactly as it goes into `Host` and into metric labels. */
export interface UpstreamAddress {
	readonly authority: string;
	/** Host name or IP literal as `net.connect` takes it (IPv6 without brackets). */
	readonly host: string;
	readonly port: number;
	/** `Host` of requests and probes, if it differs from `authority`. */
	readonly hostField?: string | undefined;
}

/** One of the addresses of a group. */
export interface GroupAddress extends UpstreamAddress {
	/** Its share of the group's requests relative to the other addresses; `undefined`: 1. */
	readonly weight?: number | undefined;
}

/** The parsed URL of a route. */
interface UpstreamUrl {
	readonly address: UpstreamAddress;
	/** `https://`. */
	readonly tls: boolean;
	readonly protocol: UpstreamProtocol;
}

/**
 * Reads `http://host[:port]`, `https://host[:port]` or `h2c://host[:port]` and nothing more. Two spellings of one address get one
 * `authority`: the key of breakers, connection pools and metrics.
 *
 * @returns the parsed URL, or the fault and the remedy in words.
 */
export function parseUpstream(text: string): UpstreamUrl | string {
	const [first = '', ...others] = text.trim().split(/[\s,;]+/);
	if (/^(?:[a-z][a-z\d+.-]*:\/\/)?[^/?#]*[,;]/i.test(text) || others.some((other) => /:\/\/|:\d+$/.test(other))) {
		return refusal(text, 'several addresses go into an [[upstreams]] table, which the route names', first);
	}
	const parts = URL_PARTS.exec(text);
	if (parts === null) return refusal(text, 'it does not begin with http://, https:// or h2c://', `http://${text}`);
	const [, written = '', authority = '', rest = ''] = parts;
	const scheme = written.toLowerCase();
	const known = scheme === 'https' || scheme === 'h2c' ? scheme : 'http';
	if (authority.includes('@')) {
		return refusal(
			text,
			'user info is not sent to upstreams',
			`${known}://${authority.slice(authority.lastIndexOf('@') + 1)}`,
		);
	}
	if (scheme !== known)
		return refusal(text, 'upstreams speak HTTP/1.1 or HTTP/2, plain or over TLS', `http://${authority}`);
	if (rest !== '') {
		return refusal(
			text,
			'the path of the request is forwarded, whole or without its prefix (strip_prefix), so the address has none',
			`${known}://${authority}`,
		);
	}
	const tls = known === 'https';
	const address = parseAddress(authority, tls ? 443 : 80);
	if (typeof address === 'string') return refusal(text, address);
	return { address, tls, protocol: known === 'h2c' ? 'h2' : 'http/1.1' };
}

/** Scheme, authority and the rest (RFC 3986 appendix B). */
const URL_PARTS = /^([a-z][a-z\d+.-]*):\/\/([^/?#]*)(.*)$/is;

/**
 * Reads `host:port`.
 *
 * @param defaultPort `undefined`: the port is required.
 * @returns the address, or its fault in words.
 */
export function parseAddress(authority: string, defaultPort: number | undefined): UpstreamAddress | string {
	const parsed = parseHostPort(authority);
	if (typeof parsed === 'string') return parsed;
	const { host, port = defaultPort } = parsed;
	if (port === undefined) return 'the port is missing';
	if (port === 0) return 'nothing can listen on port 0';
	if (!host.includes(':')) return { authority: `${host}:${port}`, host, port };
	// A zone is local to this machine and must not appear in `Host` (RFC 6874 section 4).
	if (host.includes('%')) return 'an IPv6 zone cannot be sent in Host';
	const bracketed = new URL(`http://[${host}]`).hostname;
	return { authority: `${bracketed}:${port}`, host: bracketed.slice(1, -1), port };
}

/** Routes with the same key lead to the same upstream. An authority cannot be mistaken for a name. */
export function upstreamKey({
	name,
	addresses,
}: {
	name: string | undefined;
	addresses: readonly UpstreamAddress[];
}): string {
	return name ?? addresses[0]!.authority;
}

/** Messages end up in logs; a password must not. */
export function withoutUserInfo(text: string): string {
	return text.replace(/^([a-z][a-z\d+.-]*:\/\/)?.*@/is, '$1***@');
}

/** @param suggestion shown only if it is itself valid. */
function refusal(text: string, reason: string, suggestion?: string): string {
	const shown = quote(withoutUserInfo(text));
	const works = suggestion !== undefined && suggestion !== text && typeof parseUpstream(suggestion) !== 'string';
	const remedy = works ? quote(suggestion) : 'for example "http://localhost:3000"';
	return `must be http://host[:port], https://host[:port] or h2c://host[:port] and nothing more (got ${shown}): ${reason}; write ${remedy}`;
}

import { isToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';

/**
 * The value of `Forwarded` (RFC 7239 section 4): one element, since earlier hops are not trusted.
 *
 * @param ip of the client, IPv6 without brackets.
 * @param authority that the client asked for; `undefined`: none (HTTP/1.0).
 */
export function forwarded(ip: string, authority: string | undefined): string {
	const host = authority === undefined ? '' : `;host=${tokenOrQuoted(authority)}`;
	return `for=${tokenOrQuoted(nodeOf(ip))}${host};proto=https`;
}

/** Section 6: IPv6 addresses are in brackets. The zone of a link-local address has a meaning only on this machine. */
function nodeOf(ip: string): string {
	return ip.includes(':') ? `[${ip.replace(/%.*/s, '')}]` : ip;
}

/** Section 4: a value is a token or a quoted string. A token contains neither colons nor brackets. */
function tokenOrQuoted(value: string): string {
	return isToken(value) ? value : `"${value.replaceAll(/["\\]/g, '\\$&')}"`;
}

import { isToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';

/**
 * The value of `Forwarded` (RFC 7239 section 4): one element, since what came before us is not believed.
 *
 * @param ip of the client, IPv6 without brackets.
 * @param authority what the client asked for; `undefined`: nothing (HTTP/1.0).
 */
export function forwarded(ip: string, authority: string | undefined): string {
	const host = authority === undefined ? '' : `;host=${tokenOrQuoted(authority)}`;
	return `for=${tokenOrQuoted(nodeOf(ip))}${host};proto=https`;
}

/** Section 6: IPv6 addresses are in brackets. The zone of a link-local address has a meaning on this machine only. */
function nodeOf(ip: string): string {
	return ip.includes(':') ? `[${ip.replace(/%.*/s, '')}]` : ip;
}

/** Section 4: a value is a token or a quoted string. Colons and brackets are in no token. */
function tokenOrQuoted(value: string): string {
	return isToken(value) ? value : `"${value.replaceAll(/["\\]/g, '\\$&')}"`;
}

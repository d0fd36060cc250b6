import { isIPv4, isIPv6 } from 'node:net';
import { quote } from './wording.ts';

/** `host[:port]`, taken apart. */
interface HostPort {
	/** Lower case; an IPv6 address without its brackets, with its zone (`fe80::1%eth0`) if it has one. */
	readonly host: string;
	/** 0 to 65535. */
	readonly port: number | undefined;
}

/**
 * Reads `host[:port]` (RFC 3986 section 3.2): a host name, an IPv4 address or an IPv6 address in brackets.
 *
 * @returns the parts, or the fault of the text in words.
 */
export function parseHostPort(text: string): HostPort | string {
	const parts = /^(\[[^[\]]*\]|[^:[\]]*)(?::([^:]*))?$/.exec(text);
	if (parts === null) {
		return isIPv6(text) || /:.*:/.test(text)
			? 'an IPv6 address needs brackets, as in [::1]:8443'
			: `${quote(text)} is not a host and a port`;
	}
	const [, name = '', digits] = parts;
	const problem = hostProblem(name);
	if (problem !== undefined) return problem;
	if (digits !== undefined && !(/^\d{1,5}$/.test(digits) && Number(digits) <= 65_535)) {
		return `${quote(digits)} is not a port from 0 to 65535`;
	}
	const host = (name.startsWith('[') ? name.slice(1, -1) : name).toLowerCase();
	return { host, port: digits === undefined ? undefined : Number(digits) };
}

function hostProblem(name: string): string | undefined {
	if (name === '') return 'it has no host';
	if (name.startsWith('[')) return isIPv6(name.slice(1, -1)) ? undefined : `${quote(name)} is not an IPv6 address`;
	// The resolver reads `1.2` and `0x7f.1` as unexpected addresses; the WHATWG URL rule "ends in a number"
	// tells such names apart.
	if (ENDS_IN_NUMBER.test(name)) return isIPv4(name) ? undefined : `${quote(name)} is not an IPv4 address`;
	if (name.length > 253 || !HOST_NAME.test(name)) return `${quote(name)} is not a host name`;
	return undefined;
}

const ENDS_IN_NUMBER = /(?:^|\.)(?:\d+|0x[\da-f]*)\.?$/i;

/** Labels of RFC 1123 section 2.1, and the `_` that container networks put into theirs. */
const HOST_NAME = /^[a-z\d_](?:[a-z\d_-]{0,61}[a-z\d_])?(?:\.[a-z\d_](?:[a-z\d_-]{0,61}[a-z\d_])?)*\.?$/i;

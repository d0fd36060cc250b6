import { isIPv4, isIPv6 } from 'node:net';
import { canonicalAddress } from '../../shared/address-ranges.ts';
import type { HeaderFault, ProxyHeader } from './proxy-header.ts';

/** Version 1 (section 2.1 of the specification): a line of US-ASCII such as `PROXY TCP4 192.0.2.1 192.0.2.9 56324 443`. */

export const LINE_START = Buffer.from('PROXY ');

/** With its CRLF. */
const MAX_LINE = 107;

/** @param bytes begin with `LINE_START`. @returns `undefined` while the line is incomplete. */
export function readLine(bytes: Buffer): ProxyHeader | HeaderFault | undefined {
	const end = bytes.subarray(0, MAX_LINE).indexOf('\r\n');
	const known = bytes.toString('latin1', 0, end === -1 ? Math.min(bytes.length, MAX_LINE) : end);
	if (end === -1) return bytes.length < MAX_LINE && mayGoOn(known) ? undefined : 'bad PROXY header';
	const length = end + 2;
	// The rest of such a line must be ignored.
	if (/^PROXY UNKNOWN(?: |$)/.test(known)) return { length, client: undefined };
	const [, protocol, source, destination] = TCP_LINE.exec(known) ?? [];
	const isAddress = protocol === 'TCP4' ? isIPv4 : isPlainIPv6;
	if (source === undefined || !isAddress(source) || !isAddress(destination!)) return 'bad PROXY header';
	return { length, client: canonicalAddress(source) };
}

/** A port is 0 to 65535 without leading zeros. Parts are separated by one space, and the only line break is at the end. */
const PORT = '(?:0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d\\d|655[0-2]\\d|6553[0-5])';
const TCP_LINE = new RegExp(`^PROXY (TCP[46]) ([^ ]+) ([^ ]+) ${PORT} ${PORT}$`);

/** A zone (`%eth0`) is not part of an address. The last 32 bits may be in dotted decimals, as `inet_ntop` writes mapped addresses. */
const isPlainIPv6 = (text: string) => isIPv6(text) && !text.includes('%');

/** Whether these bytes can be the beginning of a valid line. If not, the connection is refused at once. */
function mayGoOn(line: string): boolean {
	if (line.startsWith('PROXY UNKNOWN')) return /^PROXY UNKNOWN(?: |\r?$)/.test(line);
	const starts = ['PROXY TCP4 ', 'PROXY TCP6 ', 'PROXY UNKNOWN'];
	return starts.some((start) => start.startsWith(line) || line.startsWith(start)) && !/\n|\r[\s\S]/.test(line);
}

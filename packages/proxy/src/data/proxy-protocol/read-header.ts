import type { HeaderFault, ProxyHeader } from './proxy-header.ts';
import { LINE_START, readLine } from './version-1.ts';
import { readBlock, SIGNATURE } from './version-2.ts';

/**
 * Reads the header with which a load balancer begins a connection: version 1 or 2 of the PROXY protocol
 * (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
 *
 * @param bytes everything that has arrived so far.
 * @returns `undefined` as long as the bytes can be the beginning of a header; a fault as soon as they cannot.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader | HeaderFault | undefined {
	if (beginsLike(bytes, SIGNATURE)) return bytes.length < SIGNATURE.length ? undefined : readBlock(bytes);
	if (beginsLike(bytes, LINE_START)) return bytes.length < LINE_START.length ? undefined : readLine(bytes);
	return 'no PROXY header';
}

function beginsLike(bytes: Buffer, start: Buffer): boolean {
	const length = Math.min(bytes.length, start.length);
	return bytes.compare(start, 0, length, 0, length) === 0;
}

import { isIPv4, isIPv6 } from 'node:net';
import { canonicalAddress } from '../../shared/address-ranges.ts';

/** The content of a PROXY header. */
export interface ProxyHeader {
	/** Length in bytes; the client's bytes follow. */
	readonly length: number;
	/** The client's IP; `undefined`: the connection is the balancer's own (LOCAL), or the balancer does not know the client. */
	readonly client: string | undefined;
}

/** Why the first bytes are not a valid header. */
type HeaderFault = 'no PROXY header' | 'bad PROXY header';

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

// --- Version 1 (section 2.1): a line of US-ASCII such as `PROXY TCP4 192.0.2.1 192.0.2.9 56324 443`. ---

const LINE_START = Buffer.from('PROXY ');

/** With its CRLF. */
const MAX_LINE = 107;

/** @param bytes begin with `LINE_START`. @returns `undefined` while the line is incomplete. */
function readLine(bytes: Buffer): ProxyHeader | HeaderFault | undefined {
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

// --- Version 2 (section 2.2): signature, command, family and protocol, length; both addresses; type-length-values (TLVs). ---

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n');

const VERSION_AND_COMMAND = SIGNATURE.length;
const FAMILY_AND_PROTOCOL = 13;
const LENGTH = 14;
const FIXED = 16;

/** Longest header, bytes. Senders keep to 536 bytes; this has room for long custom values. */
const MAX_BLOCK = 4096;

const LOCAL = 0x20;
const PROXY = 0x21;

/** Bytes of one address, by family. A header has two addresses, and two ports if the family has ports. */
const ADDRESS_BYTES: readonly (number | undefined)[] = [0, 4, 16, 108];
const UNIX = 3;
const [UNSPEC, STREAM, DATAGRAM] = [0, 1, 2];

const CHECKSUM = 0x03;

/** @param bytes begin with `SIGNATURE`. @returns `undefined` as long as the block is not complete. */
function readBlock(bytes: Buffer): ProxyHeader | HeaderFault | undefined {
	const command = bytes[VERSION_AND_COMMAND];
	if (command === undefined) return undefined;
	if (command !== LOCAL && command !== PROXY) return 'bad PROXY header';
	const how = bytes[FAMILY_AND_PROTOCOL];
	if (how === undefined) return undefined;
	const [family, protocol] = [how >> 4, how & 0xf];
	const addressBytes = ADDRESS_BYTES[family];
	// With LOCAL the family and the rest of the header are ignored.
	if (command === PROXY && (addressBytes === undefined || protocol > DATAGRAM)) return 'bad PROXY header';
	if (bytes.length < FIXED) return undefined;
	const length = FIXED + bytes.readUInt16BE(LENGTH);
	if (length > MAX_BLOCK) return 'bad PROXY header';
	const known = command === PROXY && family !== UNSPEC && protocol !== UNSPEC;
	const values = FIXED + (known ? 2 * addressBytes! + (family === UNIX ? 0 : 4) : 0);
	if (length < values) return 'bad PROXY header';
	if (bytes.length < length) return undefined;
	if (!known) return { length, client: undefined };
	if (!valuesAreGood(bytes.subarray(0, length), values)) return 'bad PROXY header';
	// A client of another kind cannot have begun a TCP connection: its address has no meaning here.
	if (family === UNIX || protocol !== STREAM) return { length, client: undefined };
	return { length, client: addressAt(bytes.subarray(FIXED, FIXED + addressBytes!)) };
}

/** Whether the values fill the header exactly, and the checksum is right if there is one. */
function valuesAreGood(header: Buffer, from: number): boolean {
	let checksum: number | undefined;
	for (let at = from; at < header.length; ) {
		if (at + 3 > header.length) return false;
		const length = header.readUInt16BE(at + 1);
		if (at + 3 + length > header.length) return false;
		if (header[at] === CHECKSUM) {
			if (length !== 4 || checksum !== undefined) return false;
			checksum = at + 3;
		}
		at += 3 + length;
	}
	return checksum === undefined || header.readUInt32BE(checksum) === crc32cWithout(header, checksum);
}

/** The checksum of the header, computed with zeros in place of the checksum. */
function crc32cWithout(header: Buffer, at: number): number {
	const blank = Buffer.from(header);
	blank.writeUInt32BE(0, at);
	return crc32c(blank);
}

function addressAt(bytes: Buffer): string {
	if (bytes.length === 4) return bytes.join('.');
	return canonicalAddress(bytes.toString('hex').replace(/.{4}(?!$)/g, '$&:'));
}

/** CRC32c (Castagnoli), as in SCTP (RFC 9260 appendix A, formerly RFC 4960 appendix B). The CRC of zlib has another polynomial. */
export function crc32c(bytes: Uint8Array): number {
	let crc = 0xffffffff;
	for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
	return (crc ^ 0xffffffff) >>> 0;
}

/** Reflected. */
const POLYNOMIAL = 0x82f63b78;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
	let rest = byte;
	for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? POLYNOMIAL ^ (rest >>> 1) : rest >>> 1;
	return rest;
});

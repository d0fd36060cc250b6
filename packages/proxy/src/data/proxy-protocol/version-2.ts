import { canonicalAddress } from '../../shared/address-ranges.ts';
import { crc32c } from './crc32c.ts';
import type { HeaderFault, ProxyHeader } from './proxy-header.ts';

/**
 * Version 2 (section 2.2 of the specification): signature, version and command, family and protocol, and the length of the rest;
 * then both addresses, and type-length-values (TLVs).
 */

export const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n');

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
export function readBlock(bytes: Buffer): ProxyHeader | HeaderFault | undefined {
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

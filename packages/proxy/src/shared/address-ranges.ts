import { BlockList, isIP, SocketAddress } from 'node:net';

/** Each entry costs a comparison for each connection. No list of load balancers is longer. */
export const MAX_RANGES = 256;

/** An address, or all addresses that begin with the same bits (CIDR, RFC 4632 section 3.1, RFC 4291 section 2.3). */
interface AddressRange {
	readonly family: 'ipv4' | 'ipv6';
	/** The first address of the range. */
	readonly address: string;
	/** Bits that all its addresses share: 0 to 32, or 0 to 128 for IPv6. */
	readonly prefix: number;
}

/** @returns the range, or the fault and the remedy, in words for operators. */
export function parseAddressRange(text: string): AddressRange | string {
	const [, address = '', digits] = /^([^/]*)(?:\/(.*))?$/s.exec(text)!;
	const quoted = JSON.stringify(text);
	if (address.includes('%'))
		return `must have no zone (got ${quoted}); write the address without "%" and the text after it`;
	const version = isIP(address);
	if (version === 0) {
		return `must be an IP address or a range of them (got ${quoted}); write for example "192.0.2.7" or "10.0.0.0/8": names are not looked up`;
	}
	const bits = bitsOf(address);
	if (version === 6 && isMapped(bits)) {
		return `must be an IPv4 address (got ${quoted}, which is one within IPv6); write it in IPv4 form`;
	}
	const prefix = digits === undefined ? bits.length : Number(digits);
	if (digits !== undefined && !(/^\d{1,3}$/.test(digits) && prefix <= bits.length)) {
		return `must have a prefix of 0 to ${bits.length} (got ${quoted}); write "${address}" for only this address`;
	}
	if (bits.includes('1', prefix)) {
		const range = `${addressOf(bits.slice(0, prefix).padEnd(bits.length, '0'))}/${prefix}`;
		return `must begin with the first address of the range (got ${quoted}); write "${range}" for all of it, or "${address}" for only this address`;
	}
	return { family: version === 4 ? 'ipv4' : 'ipv6', address, prefix };
}

/** Addresses of some ranges. */
export class AddressRanges {
	readonly #list = new BlockList();

	/** @param ranges as for `parseAddressRange`. @throws Error if one is malformed. */
	constructor(ranges: readonly string[]) {
		for (const text of ranges) {
			const range = parseAddressRange(text);
			if (typeof range === 'string') throw new Error(range);
			this.#list.addSubnet(range.address, range.prefix, range.family);
		}
	}

	/** @param address in plain form (`plainAddress`): IPv4, or IPv6 with or without a zone. */
	has(address: string): boolean {
		const zone = address.indexOf('%');
		const plain = zone === -1 ? address : address.slice(0, zone);
		return this.#list.check(plain, plain.includes(':') ? 'ipv6' : 'ipv4');
	}
}

/** Unwraps an IPv4 address that is mapped into IPv6, as on a dual-stack listener (RFC 4291 section 2.5.5.2). */
export function plainAddress(address: string): string {
	return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** An IPv6 address as the operating system spells it (`inet_ntop`); IPv4 is left as it is. */
export function canonicalAddress(address: string): string {
	return address.includes(':') ? plainAddress(new SocketAddress({ address, family: 'ipv6' }).address) : address;
}

const isMapped = (bits: string) => bits.startsWith(`${'0'.repeat(80)}${'1'.repeat(16)}`);

/** The address as 32 or 128 binary digits. */
function bitsOf(address: string): string {
	if (!address.includes(':')) return address.split('.').map(binary(10, 8)).join('');
	// The last 32 bits may be written as IPv4.
	const hex = address.replace(/[\d.]+$/, (tail) => (tail.includes('.') ? hexGroups(bitsOf(tail)) : tail));
	const [head, tail] = hex.split('::').map((side) => side.split(':').filter((group) => group !== ''));
	const zeros = Array<string>(8 - head!.length - (tail?.length ?? 0)).fill('0');
	return [...head!, ...zeros, ...(tail ?? [])].map(binary(16, 16)).join('');
}

const binary = (base: number, width: number) => (digits: string) =>
	Number.parseInt(digits, base).toString(2).padStart(width, '0');

function addressOf(bits: string): string {
	if (bits.length === 128) return canonicalAddress(hexGroups(bits));
	return bits
		.match(/.{8}/g)!
		.map((byte) => Number.parseInt(byte, 2))
		.join('.');
}

function hexGroups(bits: string): string {
	return bits
		.match(/.{16}/g)!
		.map((group) => Number.parseInt(group, 2).toString(16))
		.join(':');
}

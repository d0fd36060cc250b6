import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	AddressRanges,
	canonicalAddress,
	parseAddressRange,
	plainAddress,
} from '../../../packages/proxy/src/shared/address-ranges.ts';
import { bytesOf } from '../../fixtures/proxy-header.ts';

describe('an address or range', () => {
	for (const [text, range] of [
		['192.0.2.7', { family: 'ipv4', address: '192.0.2.7', prefix: 32 }],
		['10.0.0.0/8', { family: 'ipv4', address: '10.0.0.0', prefix: 8 }],
		['10.1.2.3/32', { family: 'ipv4', address: '10.1.2.3', prefix: 32 }],
		['0.0.0.0/0', { family: 'ipv4', address: '0.0.0.0', prefix: 0 }],
		['fd00::/8', { family: 'ipv6', address: 'fd00::', prefix: 8 }],
		['::1', { family: 'ipv6', address: '::1', prefix: 128 }],
		['::/0', { family: 'ipv6', address: '::', prefix: 0 }],
		['64:ff9b::192.0.2.0/120', { family: 'ipv6', address: '64:ff9b::192.0.2.0', prefix: 120 }],
	] as const) {
		it(`is read: ${text}`, () => assert.deepEqual(parseAddressRange(text), range));
	}

	for (const [text, fault] of [
		['lb.internal', /must be an IP address or a range.*"lb\.internal".*names are not looked up/],
		['', /must be an IP address/],
		['10.0.0.0/8/8', /prefix of 0 to 32/],
		['10.0.0', /must be an IP address/],
		['010.0.0.1', /must be an IP address/],
		['10.0.0.0/33', /prefix of 0 to 32.*write "10\.0\.0\.0"/],
		['10.0.0.0/', /prefix of 0 to 32/],
		['10.0.0.0/255.0.0.0', /prefix of 0 to 32/],
		['fd00::/129', /prefix of 0 to 128/],
		['fe80::1%eth0', /must have no zone/],
		['[::1]', /must be an IP address/],
		['10.1.2.3/8', /first address.*write "10\.0\.0\.0\/8" for all of it, or "10\.1\.2\.3"/],
		['2001:db8::1/32', /write "2001:db8::\/32" for all of it, or "2001:db8::1"/],
		['::1.2.3.4/96', /write "::\/96"/],
		['::ffff:10.0.0.0/104', /write it in IPv4 form/],
		['::ffff:0a00:1', /write it in IPv4 form/],
	] as const) {
		it(`is refused with a remedy: ${text}`, () => assert.match(String(parseAddressRange(text)), fault));
	}
});

describe('ranges of addresses', () => {
	it('contain exactly the named addresses', () => {
		const ranges = new AddressRanges(['10.0.0.0/8', '192.0.2.7', 'fd00::/8', 'fe80::1']);
		const has = ['10.0.0.0', '10.255.255.255', '192.0.2.7', 'fd12:3456::1', 'fe80::1', 'fe80::1%eth0'];
		const hasNot = ['9.255.255.255', '11.0.0.0', '192.0.2.6', '192.0.2.8', 'fe00::', 'fe80::2', '::', '::a00:0'];
		for (const address of has) assert.equal(ranges.has(address), true, address);
		for (const address of hasNot) assert.equal(ranges.has(address), false, address);
		assert.equal(new AddressRanges([]).has('10.0.0.1'), false);
		assert.equal(new AddressRanges(['0.0.0.0/0']).has('::1'), false);
		assert.throws(() => new AddressRanges(['10.1.2.3/8']), /first address/);
	});

	it('have exactly the addresses whose first bits are theirs', () => {
		const bits = (address: string) =>
			Array.from(bytesOf(address), (byte) => byte.toString(2).padStart(8, '0')).join('');
		// Few different bytes, so that some have their beginnings in common.
		const byte = fc.constantFrom(0, 1, 127, 128, 255);
		const v4 = fc.array(byte, { minLength: 4, maxLength: 4 }).map((list) => list.join('.'));
		const group = fc.constantFrom(0x2001, 0, 1, 0xffff);
		const v6 = fc
			.array(group, { minLength: 7, maxLength: 7 })
			.map((list) => ['2001', ...list.map((one) => one.toString(16))].join(':'));
		const pair = fc.oneof(fc.tuple(v4, v4), fc.tuple(v6, v6));
		fc.assert(
			fc.property(pair, fc.nat(128), ([first, other], wanted) => {
				const prefix = Math.min(wanted, bits(first).length);
				const common = bits(first).slice(0, prefix);
				const range = parseAddressRange(`${first}/${prefix}`);
				const isFirst = !bits(first).includes('1', prefix);
				assert.equal(typeof range === 'object', isFirst, `${first}/${prefix}`);
				// The remedy names a range that is one, and that has the address.
				const text = isFirst ? `${first}/${prefix}` : /write "([^"]+)"/.exec(range as string)![1]!;
				const ranges = new AddressRanges([text]);
				assert.equal(ranges.has(first), true, text);
				assert.equal(ranges.has(other), bits(other).startsWith(common), `${other} in ${text}`);
			}),
			{ numRuns: 1000 },
		);
	});
});

describe('addresses', () => {
	it('have one canonical spelling', () => {
		for (const [address, canonical] of [
			['192.0.2.1', '192.0.2.1'],
			['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
			['::FFFF:192.0.2.1', '192.0.2.1'],
			['::ffff:c000:0201', '192.0.2.1'],
			['fe80::1:0:0:1', 'fe80::1:0:0:1'],
		] as const) {
			assert.equal(canonicalAddress(address), canonical);
		}
	});

	it('reads an IPv4-mapped IPv6 address as IPv4', () => {
		assert.equal(plainAddress('::ffff:192.0.2.1'), '192.0.2.1');
		assert.equal(plainAddress('::ffff:1'), '::ffff:1');
		assert.equal(plainAddress('2001:db8::1'), '2001:db8::1');
	});
});

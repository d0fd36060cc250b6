import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { crc32c, readProxyHeader } from '../../../../packages/proxy/src/data/proxy-protocol/read-header.ts';
import {
	bytesOf,
	LOCAL,
	type Route,
	crc32c as referenceCrc32c,
	routeOf,
	SIGNATURE,
	type Tlv,
	version1,
	version2,
} from '../../../fixtures/proxy-header.ts';

const NONE = 'no PROXY header';
const BAD = 'bad PROXY header';

const port = fc.integer({ min: 0, max: 65_535 });
const endpoint = (ip: fc.Arbitrary<string>) => fc.record({ ip, port });
const groups = fc.array(fc.constantFrom(0, 0, 1, 0xfe80, 0xffff, 0xabc), { minLength: 8, maxLength: 8 });
const ipv6 = groups.map((list) => list.map((group) => group.toString(16)).join(':'));
const route: fc.Arbitrary<Route> = fc.oneof(
	fc.tuple(endpoint(fc.ipV4()), endpoint(fc.ipV4())),
	fc.tuple(endpoint(ipv6), endpoint(ipv6)),
);
const tlv: fc.Arbitrary<Tlv> = fc.tuple(
	fc.integer({ min: 0, max: 255 }).filter((type) => type !== 3),
	fc.uint8Array({ maxLength: 40 }).map(Buffer.from),
);
const header = fc.tuple(
	route,
	fc.oneof(
		fc.constant(version1),
		fc.record({ tlvs: fc.array(tlv, { maxLength: 4 }), checksum: fc.boolean() }).map((options) => {
			return (of: Route) => version2(of, options);
		}),
	),
);

/** The same address, whatever its spelling; IPv4 that was mapped into IPv6 has become IPv4. */
function isSame(given: string, sent: string): boolean {
	const bytes = bytesOf(sent);
	const isMapped = bytes.length === 16 && bytes.subarray(0, 12).equals(Buffer.from(`${'00'.repeat(10)}ffff`, 'hex'));
	return bytesOf(given).equals(isMapped ? bytes.subarray(12) : bytes);
}

describe('a PROXY header', () => {
	it('a PROXY header of either version names the client, whatever bytes follow', () => {
		fc.assert(
			fc.property(header, fc.uint8Array(), ([of, encode], rest) => {
				const bytes = encode(of);
				const read = readProxyHeader(Buffer.concat([bytes, rest]));
				assert.ok(typeof read === 'object', String(read));
				assert.equal(read.length, bytes.length);
				assert.ok(isSame(read.client!, of[0].ip), `${read.client} for ${of[0].ip}`);
			}),
		);
	});

	it('is complete with its last byte', () => {
		fc.assert(
			fc.property(header, ([of, encode]) => {
				const bytes = encode(of);
				for (let end = 1; end < bytes.length; end++) {
					assert.equal(readProxyHeader(bytes.subarray(0, end)), undefined, `${end} of ${bytes.length}`);
				}
				assert.equal(typeof readProxyHeader(bytes), 'object');
			}),
		);
	});

	it('a damaged PROXY header is another header or a fault, and never reads beyond its bytes', () => {
		fc.assert(
			fc.property(header, fc.nat(), fc.integer({ min: 0, max: 255 }), fc.nat(2), ([of, encode], where, byte, how) => {
				const bytes = encode(of);
				const at = where % bytes.length;
				const [skip, insert] = [
					[1, [byte]],
					[1, []],
					[0, [byte]],
				][how] as [number, number[]];
				const mutated = Buffer.concat([bytes.subarray(0, at), Buffer.from(insert), bytes.subarray(at + skip)]);
				const read = readProxyHeader(mutated);
				if (read === undefined || typeof read === 'string') return;
				assert.ok(read.length <= mutated.length);
				// A change to the text of a line changes its meaning, or breaks its grammar.
				const line = mutated.toString('latin1', 0, read.length);
				if (bytes[0] === 0x50) assert.match(line, /^PROXY (?:TCP4|TCP6|UNKNOWN)[ -~]*\r\n$|^PROXY UNKNOWN .*\r\n$/s);
			}),
			{ numRuns: 2000 },
		);
	});

	it('a missing or bad PROXY header stays so, whatever follows and however it is cut', () => {
		const start = fc.constantFrom(
			'PROXY TCP4 ',
			'PROXY TCP6 ',
			'PROXY UNKNOWN',
			'PROXY ',
			'',
			SIGNATURE.toString('latin1'),
		);
		const text = fc.string({
			unit: fc.constantFrom(...' .:\r\n0129afx\0 !', '1.2.3.4 ', '::1 ', '80 '),
			maxLength: 140,
		});
		fc.assert(
			fc.property(start, text, (head, tail) => {
				const bytes = Buffer.from(head + tail, 'latin1');
				const whole = bytes.length === 0 ? undefined : readProxyHeader(bytes);
				let before: ReturnType<typeof readProxyHeader>;
				for (let end = 1; end <= bytes.length; end++) {
					const now = readProxyHeader(bytes.subarray(0, end));
					if (before !== undefined) assert.deepEqual(now, before);
					before = now;
				}
				assert.deepEqual(before, whole);
			}),
			{ numRuns: 1000 },
		);
	});

	it('is required: anything else is refused at its first wrong byte', () => {
		for (const text of [
			'\x16\x03\x01',
			'GET / HTTP/1.1\r\n',
			'POST /',
			'PROXYTCP4',
			'proxy TCP4',
			'\r\n\r\n\0\r\nQUIT\r',
			'\n',
		]) {
			assert.equal(readProxyHeader(Buffer.from(text, 'latin1')), NONE, text);
		}
		assert.equal(readProxyHeader(Buffer.from('PO')), NONE);
		assert.equal(readProxyHeader(Buffer.from('PR')), undefined);
	});
});

describe('version 1', () => {
	const read = (text: string) => readProxyHeader(Buffer.from(text, 'latin1'));

	for (const [line, client] of [
		['PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n', '255.255.255.255'],
		['PROXY TCP4 0.0.0.0 1.2.3.4 0 0\r\n', '0.0.0.0'],
		['PROXY TCP6 2001:DB8:0:0:0:0:0:1 ::1 56324 443\r\n', '2001:db8::1'],
		['PROXY TCP6 :: ::1 9 443\r\n', '::'],
		[`PROXY TCP6 ${'ffff:'.repeat(7)}ffff ${'ffff:'.repeat(7)}ffff 65535 65535\r\n`, `${'ffff:'.repeat(7)}ffff`],
		// As `inet_ntop` writes the client of a dual-stack listener.
		['PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.9 56324 443\r\n', '192.0.2.1'],
		['PROXY UNKNOWN\r\n', undefined],
		['PROXY UNKNOWN \r\n', undefined],
		['PROXY UNKNOWN whatever\nstands \r here\r\n', undefined],
		[`PROXY UNKNOWN ${'f'.repeat(91)}\r\n`, undefined],
	] as const) {
		it(`takes ${JSON.stringify(line)}`, () => assert.deepEqual(read(line), { length: line.length, client }));
	}

	for (const line of [
		'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8\r\n',
		'PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY TCP4 1.2.3.4\t5.6.7.8 1 2\r\n',
		'PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY TCP 1.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY UNKNOWNS\r\n',
		'PROXY \r\n',
		'PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.256 1 2\r\n',
		'PROXY TCP4 ::1 5.6.7.8 1 2\r\n',
		'PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n',
		'PROXY TCP6 ::1 5.6.7.8 1 2\r\n',
		'PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 1 00\r\n',
		'PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n',
		// A character too long.
		`PROXY UNKNOWN ${'f'.repeat(92)}\r\n`,
		`PROXY TCP6 ${'0'.repeat(200)}`,
	]) {
		it(`refuses ${JSON.stringify(line.slice(0, 60))}`, () => assert.equal(read(line), BAD));
	}

	it('accepts every port, and no higher number', () => {
		for (let n = 0; n < 70_000; n++) {
			const taken = typeof read(`PROXY TCP4 1.2.3.4 5.6.7.8 ${n} ${n}\r\n`) === 'object';
			assert.equal(taken, n <= 65_535, String(n));
		}
	});

	it('ends at its 107th character at the latest, in one read or in many', () => {
		const endless = `PROXY UNKNOWN ${'f'.repeat(500)}`;
		for (let end = 1; end < 107; end++) assert.equal(read(endless.slice(0, end)), undefined);
		assert.equal(read(endless.slice(0, 107)), BAD);
		assert.equal(read(endless), BAD);
	});

	it('a PROXY header of version 1 that cannot become valid is refused before its end', () => {
		for (const text of ['PROXY TCP5', 'PROXY X', 'PROXY TCP4 1.2.3.4\n', 'PROXY TCP4 1.2.3.4\rx', 'PROXY UNKNOWNx']) {
			assert.equal(read(text), BAD, text);
		}
	});
});

describe('version 2', () => {
	const client = routeOf('192.0.2.1');
	const client6 = routeOf('2001:db8::1');

	it('names only clients over TCP', () => {
		assert.deepEqual(readProxyHeader(version2(client)), { length: 28, client: '192.0.2.1' });
		assert.deepEqual(readProxyHeader(version2(client6)), { length: 52, client: '2001:db8::1' });
		assert.deepEqual(readProxyHeader(version2(routeOf('::ffff:c000:201'))), { length: 52, client: '192.0.2.1' });
		// Valid, and of no use here: as if the family were unspecified.
		for (const [family, of] of [
			[0x12, client],
			[0x22, client6],
			[0x10, client],
			[0x20, client6],
		] as const) {
			const bytes = version2(of, { family });
			assert.deepEqual(readProxyHeader(bytes), { length: bytes.length, client: undefined }, String(family));
		}
		for (const family of [0x31, 0x32]) {
			const bytes = version2(undefined, { family, addresses: Buffer.alloc(216, '/run/x') });
			assert.deepEqual(readProxyHeader(bytes), { length: 232, client: undefined });
		}
	});

	it('skips the content of an unspecified family, and of a LOCAL header of any family', () => {
		const addresses = Buffer.from('anything, and not values by type');
		for (const family of [0x00, 0x01, 0x02]) {
			const bytes = version2(undefined, { family, addresses });
			assert.deepEqual(readProxyHeader(bytes), { length: 48, client: undefined });
		}
		for (let family = 0; family < 256; family++) {
			const bytes = version2(undefined, { command: 0x20, family, addresses });
			assert.deepEqual(readProxyHeader(bytes), { length: 48, client: undefined });
		}
		assert.deepEqual(readProxyHeader(LOCAL), { length: 16, client: undefined });
		assert.deepEqual(readProxyHeader(version2(client, { command: 0x20 })), { length: 28, client: undefined });
	});

	it('refuses every other version, command, family and protocol, as soon as they are there', () => {
		for (let byte = 0; byte < 256; byte++) {
			const command = version2(client, { command: byte });
			assert.equal(readProxyHeader(command.subarray(0, 13)), [0x20, 0x21].includes(byte) ? undefined : BAD);
			const family = version2(client, { family: byte });
			const isKnown = byte >> 4 <= 3 && (byte & 0xf) <= 2;
			assert.equal(readProxyHeader(family.subarray(0, 14)), isKnown ? undefined : BAD, byte.toString(16));
		}
	});

	it('refuses a length that its addresses do not fit into', () => {
		for (const [family, least] of [
			[0x11, 12],
			[0x12, 12],
			[0x21, 36],
			[0x31, 216],
		] as const) {
			for (const length of [0, least - 1, least]) {
				const bytes = version2(undefined, { family, addresses: Buffer.alloc(length) });
				assert.equal(readProxyHeader(bytes) === BAD, length < least, `${family} ${length}`);
			}
		}
	});

	it('takes 4,096 bytes in all, and refuses more before they are there', () => {
		const padding = (bytes: number): Tlv[] => [[4, Buffer.alloc(bytes - 28 - 3)]];
		assert.deepEqual(readProxyHeader(version2(client, { tlvs: padding(4096) })), { length: 4096, client: '192.0.2.1' });
		assert.equal(readProxyHeader(version2(client, { tlvs: padding(4097) }).subarray(0, 16)), BAD);
		assert.equal(readProxyHeader(version2(undefined, { command: 0x20, addresses: Buffer.alloc(65_535) })), BAD);
	});

	it('refuses values that do not fill it exactly', () => {
		for (const values of ['04', '0400', '040001', '04000201', '04000000', '0400000400']) {
			const addresses = Buffer.concat([version2(client).subarray(16), Buffer.from(values, 'hex')]);
			assert.equal(readProxyHeader(version2(client, { addresses })), BAD, values);
		}
	});

	it('a PROXY header of version 2 with a checksum is accepted only if the checksum is right', () => {
		fc.assert(
			fc.property(route, fc.array(tlv, { maxLength: 3 }), fc.nat(), fc.nat(7), (of, tlvs, where, bit) => {
				const bytes = version2(of, { tlvs, checksum: true });
				assert.equal(typeof readProxyHeader(bytes), 'object');
				// A damaged signature, version or length ends elsewhere.
				const at = 16 + (where % (bytes.length - 16));
				bytes[at]! ^= 1 << bit;
				const read = readProxyHeader(bytes);
				// Unless the damage is to the type of the checksum itself.
				if (at !== bytes.length - 7) assert.equal(read, BAD);
			}),
		);
		assert.equal(readProxyHeader(version2(client, { checksum: 2 })), BAD);
	});

	it('has one checksum of four bytes at most, in any place', () => {
		const none: Tlv = [3, Buffer.alloc(4)];
		assert.equal(readProxyHeader(version2(client, { tlvs: [none], checksum: true })), BAD);
		for (const length of [0, 3, 5]) {
			assert.equal(readProxyHeader(version2(client, { tlvs: [[3, Buffer.alloc(length)]] })), BAD);
		}
		const first = version2(client, { tlvs: [none, [4, Buffer.from('x')]] });
		first.writeUInt32BE(referenceCrc32c(first), 31);
		assert.deepEqual(readProxyHeader(first), { length: first.length, client: '192.0.2.1' });
	});

	it('a PROXY header of an AWS Network Load Balancer with an endpoint identifier is accepted', () => {
		const endpoint = Buffer.concat([Buffer.from([1]), Buffer.from('vpce-08d2bf15fac5001c9')]);
		const bytes = version2(client, {
			tlvs: [
				[0xea, endpoint],
				[4, Buffer.alloc(62)],
			],
			checksum: true,
		});
		assert.deepEqual(readProxyHeader(bytes), { length: bytes.length, client: '192.0.2.1' });
	});
});

it('crc32c is that of RFC 3720 appendix B.4, and of a bit by bit division', () => {
	assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283);
	assert.equal(crc32c(Buffer.alloc(32)), 0x8a9136aa);
	assert.equal(crc32c(Buffer.alloc(32, 0xff)), 0x62a8ab43);
	fc.assert(fc.property(fc.uint8Array(), (bytes) => assert.equal(crc32c(bytes), referenceCrc32c(Buffer.from(bytes)))));
});

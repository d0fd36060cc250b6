import assert from 'node:assert/strict';
import { connect } from 'node:http2';
import { duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LiteralPool } from '../../../packages/proxy/src/data/memo/literal-pool.ts';
import { ConnectionError } from '../../../packages/proxy/src/http2/errors.ts';
import { HpackDecoder } from '../../../packages/proxy/src/http2/hpack-decoder.ts';
import {
	codedField,
	codedFields,
	codedInteger,
	codedStatus,
	NO_DYNAMIC_TABLE,
} from '../../../packages/proxy/src/http2/hpack-encoder.ts';
import { STATIC_TABLE } from '../../../packages/proxy/src/http2/hpack-table.ts';
import { decodedRoom, decodeHuffman } from '../../../packages/proxy/src/http2/huffman.ts';
import { FLAG, FRAME, FrameReader, PREFACE } from '../../fixtures/h2-frames.ts';
import { CompressionError, HpackReader, HpackWriter } from '../../fuzz/hpack.ts';
import { Random } from '../../fuzz/random.ts';

type Line = readonly [name: string, value: string];

interface Made {
	readonly name: string;
	readonly value: string;
}
/** How often a field was made anew. */
let made = 0;
const make = (name: string, value: string): Made => {
	made++;
	return { name, value };
};
const STATIC_FIELDS = STATIC_TABLE.map(([name, value]) => make(name, value));

function decoder(maxFields = 1000, maxBytes = 100_000) {
	const hpack = new HpackDecoder<Made>({
		make,
		staticFields: STATIC_FIELDS,
		maxFields,
		maxBytes,
		literals: new LiteralPool(),
	});
	/** In the middle of other bytes, which are not its own. */
	const block = (bytes: Buffer, endsStream = false, isHead = true) => {
		const around = Buffer.concat([Buffer.alloc(7, 0x82), bytes, Buffer.alloc(7, 0x82)]);
		return hpack.decode(around, 7, 7 + bytes.length, endsStream, isHead);
	};
	const lines = (bytes: Buffer, endsStream = false): Line[] =>
		block(bytes, endsStream).fields.map(({ name, value }) => [name, value] as const);
	return { block, lines, earn: () => hpack.earn() };
}

/** More new fields than a decoder keeps for a peer that is owed nothing. */
const unpaid = () => Buffer.concat(Array.from({ length: 200 }, (_, i) => literal(`x-${i}`, 'v')));

const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ''), 'hex');
const latin1 = (text: string) => Buffer.from(text, 'latin1');
const literal = (name: string, value: string, first = '\x00') =>
	latin1(first + codedInteger(name.length, 0x7f, 0) + name + codedInteger(value.length, 0x7f, 0) + value);
const add = (name: string, value: string) => literal(name, value, '\x40');

/** RFC 7541 appendix C: successive blocks of a connection, and their fields. */
const EXAMPLES: Record<string, [block: string, lines: Line[]][]> = {
	'C.2.1': [['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', [['custom-key', 'custom-header']]]],
	'C.2.2': [['040c 2f73 616d 706c 652f 7061 7468', [[':path', '/sample/path']]]],
	'C.2.3': [['1008 7061 7373 776f 7264 0673 6563 7265 74', [['password', 'secret']]]],
	'C.2.4': [['82', [[':method', 'GET']]]],
	'C.3': requests([
		'8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
		'8286 84be 5808 6e6f 2d63 6163 6865',
		'8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
	]),
	'C.4': requests([
		'8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
		'8286 84be 5886 a8eb 1064 9cbf',
		'8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
	]),
	'C.5': responses([
		`4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e
		1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
		'4803 3330 37c1 c0bf',
		`88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d
		4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572
		7369 6f6e 3d31`,
	]),
	'C.6': responses([
		'4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
		'4883 640e ffc1 c0bf',
		`88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf
		cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07`,
	]),
};

function requests(blocks: [string, string, string]): [string, Line[]][] {
	const common = (scheme: string, path: string): Line[] => [
		[':method', 'GET'],
		[':scheme', scheme],
		[':path', path],
		[':authority', 'www.example.com'],
	];
	return [
		[blocks[0], common('http', '/')],
		[blocks[1], [...common('http', '/'), ['cache-control', 'no-cache']]],
		[blocks[2], [...common('https', '/index.html'), ['custom-key', 'custom-value']]],
	];
}

/** C.5 and C.6 are of a table of 256 bytes, which the first block has to say here. */
function responses(blocks: [string, string, string]): [string, Line[]][] {
	const common = (status: string, second: number): Line[] => [
		[':status', status],
		['cache-control', 'private'],
		['date', `Mon, 21 Oct 2013 20:13:${second} GMT`],
		['location', 'https://www.example.com'],
	];
	const cookie = 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1';
	return [
		[`3fe1 01 ${blocks[0]}`, common('302', 21)],
		[blocks[1], common('307', 21)],
		[blocks[2], [...common('200', 22), ['content-encoding', 'gzip'], ['set-cookie', cookie]]],
	];
}

describe('HPACK decodes RFC 7541 appendix', () => {
	for (const [section, blocks] of Object.entries(EXAMPLES)) {
		it(section, () => {
			const { lines } = decoder();
			for (const [block, expected] of blocks) assert.deepEqual(lines(hex(block)), expected);
		});
	}
});

describe('a header block over the limit', () => {
	it('keeps the fields that fit, and those after one that is too long', () => {
		const fields = [
			literal('a', '1'),
			literal('long', 'x'.repeat(100)),
			literal('b', '2'),
			literal('c', 'x'.repeat(95)),
		];
		const { bytes, count, fields: kept } = decoder(1000, 100).block(Buffer.concat(fields));
		assert.deepEqual([bytes, count], [2 + 104 + 2 + 96, 4]);
		assert.deepEqual(
			kept.map(({ name }) => name),
			['a', 'b', 'c'],
		);
		assert.deepEqual(
			decoder(1000, 99)
				.lines(Buffer.concat(fields))
				.map(([name]) => name),
			['a', 'b'],
		);
	});
});

describe('an invalid header block', () => {
	const { length: statics } = STATIC_TABLE;
	const BLOCKS: Record<string, Buffer> = {
		'2.3.3: index 0': hex('80'),
		'2.3.3: an index beyond the static table, with nothing in the dynamic one': Buffer.of(0x80 | (statics + 1)),
		'2.3.3: the index of a name beyond the tables': hex('7f 00 01 61'),
		'4.2: a table size update after a field': hex('82 20'),
		'4.2: a table larger than the setting': hex('3f e2 1f'),
		'4.2: more than two table size updates': hex('20 20 20 82'),
		'5.1: an integer without end': hex('ff ff ff ff ff ff ff ff ff ff'),
		'5.1: an integer that breaks off': hex('ff 80'),
		'5.1: an integer of more bytes than any could need': hex('ff 80 80 80 80 80 00'),
		'5.2: a truncated string': hex('00 01 61 05 61'),
		'5.2: a name that breaks off': hex('00 05 61'),
		'5.2: no value': hex('00 01 61'),
		'5.2: no name': hex('00'),
		'5.2: Huffman: more than seven bits of padding': hex('00 01 61 82 1f ff'),
		'5.2: Huffman: only eight bits of padding': hex('00 01 61 81 ff'),
		'5.2: Huffman: padding with zeros': hex('00 01 61 81 18'),
		'5.2: Huffman: the end of the string within it': hex('00 01 61 84 ff ff ff ff'),
		'5.2: Huffman: a code that breaks off': hex('00 01 61 83 ff ff c0'),
	};
	for (const [what, block] of Object.entries(BLOCKS)) {
		it(`ends the connection: ${what}`, () => {
			assert.throws(
				() => decoder().block(block),
				(error) => error instanceof ConnectionError && error.code === 9 && error.reason === 'compression',
			);
		});
	}
});

describe('the dynamic table', () => {
	it('evicts the oldest entries, and all for an entry that is too large (RFC 7541 section 4.4)', () => {
		const { lines } = decoder();
		lines(add('a', 'x'.repeat(2000)));
		lines(add('b', 'y'.repeat(2000)));
		assert.deepEqual(
			lines(hex('be bf')).map(([name]) => name),
			['b', 'a'],
		);
		lines(add('c', ''));
		assert.deepEqual(
			lines(hex('be bf')).map(([name]) => name),
			['c', 'b'],
		);
		lines(add('d', 'z'.repeat(4096)));
		assert.throws(() => lines(hex('be')), ConnectionError);
	});

	it('keeps an entry that just fits', () => {
		const { lines } = decoder();
		lines(add('a', 'x'.repeat(4096 - 32 - 1)));
		assert.equal(lines(hex('be')).length, 1);
	});

	it('may evict the entry whose name a new one refers to (RFC 7541 section 4.4)', () => {
		const { lines } = decoder();
		lines(add('a-name', 'x'.repeat(3000)));
		const value = 'y'.repeat(3000);
		assert.deepEqual(lines(latin1(`\x7e${codedInteger(3000, 0x7f, 0)}${value}`)), [['a-name', value]]);
	});

	it('is emptied by a size of 0, and may grow again up to the setting', () => {
		const { lines } = decoder();
		lines(add('a', 'b'));
		assert.deepEqual(lines(Buffer.concat([hex('20 3fe11f'), add('c', 'd'), hex('be')])), [
			['c', 'd'],
			['c', 'd'],
		]);
		assert.throws(() => lines(hex('bf')), ConnectionError);
	});

	it('holds only the text of a new entry while too many fields before it belonged to no message', () => {
		const { lines, earn } = decoder();
		lines(unpaid());
		lines(Buffer.concat([add('a', 'b'), add('c', 'd')]));
		const madeBy = (bytes: string) => {
			made = 0;
			assert.deepEqual(lines(hex(bytes)), [
				['c', 'd'],
				['a', 'b'],
			]);
			return made;
		};
		assert.equal(madeBy('be bf'), 2);
		assert.equal(madeBy('be bf'), 0, 'a block may refer to it thousands of times');
		earn();
		assert.equal(madeBy('be bf'), 0);
	});

	it('makes a field of a text once, however often a block refers to it', () => {
		const { block, lines } = decoder(10, 100);
		lines(unpaid());
		made = 0;
		block(Buffer.concat([add('a', 'x'.repeat(4000)), Buffer.alloc(19_000, 0xbe)]));
		assert.equal(made, 2);
	});
});

describe('limits of a header block', () => {
	it('are kept by what is remembered of it, whatever it says; the table stays what the client believes it to be', () => {
		const { block, lines } = decoder(10, 100);
		const bomb = block(Buffer.concat([literal('a', 'x'.repeat(90), '\x40'), Buffer.alloc(10_000, 0xbe)]));
		assert.equal(bomb.count, 10_001);
		assert.equal(bomb.bytes, 91 * 10_001);
		assert.equal(bomb.fields.length, 1);
		assert.deepEqual(lines(hex('be')), [['a', 'x'.repeat(90)]]);
	});

	it('ends the connection beyond 20,000 fields, or twice as many as are kept', () => {
		const indexed = (count: number) => Buffer.alloc(count, 0x90);
		for (const [kept, most] of [
			[10, 20_000],
			[15_000, 30_000],
		] as const) {
			assert.equal(decoder(kept).block(indexed(most)).count, most);
			assert.throws(
				() => decoder(kept).block(indexed(most + 1)),
				(error) => error instanceof ConnectionError && error.code === 11 && error.reason === 'control-flood',
			);
		}
	});
});

describe('what is remembered of header blocks', () => {
	const token = literal('authorization', `Bearer ${'t'.repeat(500)}`, '\x10');

	it('is the block itself, while its bytes and the table stay the same', () => {
		const { block } = decoder();
		const same = () => Buffer.concat([hex('82 84'), token]);
		const first = block(same());
		assert.equal(block(same()), first);
		block(literal('a', 'b', '\x40'));
		const again = block(same());
		assert.notEqual(again, first);
		assert.deepEqual(again.fields, first.fields);
	});

	it('is a block that enters its fields in the table each time, as long as it names no entry of that', () => {
		const { block, lines } = decoder();
		const entering = () => Buffer.concat([hex('88'), add('a', '1'), add('b', '2')]);
		const first = block(entering());
		assert.equal(block(entering()), first);
		const twice = hex('be bf c0 c1');
		assert.deepEqual(lines(twice), [
			...[
				['b', '2'],
				['a', '1'],
				['b', '2'],
				['a', '1'],
			],
		]);
		// Its last field has the name of an entry, which is another one the next time.
		const naming = () => Buffer.concat([add('c', '3'), hex('7e 01 34')]);
		assert.deepEqual(lines(naming()), [
			['c', '3'],
			['c', '4'],
		]);
		lines(hex('20 3fe11f'));
		assert.notEqual(block(naming()), block(naming()));
	});

	it('is a head and what ends a stream, side by side', () => {
		const { block: decode } = decoder();
		const [head, trailers] = [literal('a', '1'), literal('b', '2')];
		const first = decode(head, false);
		const last = decode(trailers, true);
		assert.equal(decode(head, false), first);
		assert.equal(decode(trailers, true), last);
		assert.notEqual(decode(trailers, false), last);
	});

	it('is no block of more than 64 fields', () => {
		const { block } = decoder();
		const fields = (count: number) => Buffer.concat(Array.from({ length: count }, (_, i) => literal('a', `${i}`)));
		assert.equal(block(fields(64)), block(fields(64)));
		const many = block(fields(65));
		const again = block(fields(65));
		assert.notEqual(again, many);
		assert.deepEqual(again.fields, many.fields);
	});

	it('is never a block that means something else after a change of the table', () => {
		const { lines } = decoder();
		lines(literal('a', '1', '\x40'));
		assert.deepEqual(lines(hex('be')), [['a', '1']]);
		assert.deepEqual(lines(hex('be')), [['a', '1']]);
		lines(literal('a', '2', '\x40'));
		assert.deepEqual(lines(hex('be')), [['a', '2']]);
	});

	it('is no long literal of trailers: they would drive the tokens out', () => {
		const { block } = decoder();
		const trailers = (n: number) => Buffer.concat([literal('a', `${n}`), literal('x-sum', 's'.repeat(500))]);
		const before = made;
		for (const n of [1, 2, 3]) block(trailers(n), true, false);
		assert.equal(made - before, 6);
	});

	it('is a long literal, by name and bytes', () => {
		const { block } = decoder();
		const of = (path: string, more: Buffer) => block(Buffer.concat([literal(':path', path), more])).fields[1]!;
		const first = of('/1', token);
		made = 0;
		assert.equal(of('/2', token), first);
		assert.equal(made, 1, 'only the path');
		const other = literal('authorization', `Bearer ${'t'.repeat(499)}u`, '\x10');
		assert.equal(of('/3', other).value, `Bearer ${'t'.repeat(499)}u`);
		assert.equal(of('/4', literal('authorizatiom', `Bearer ${'t'.repeat(499)}u`, '\x10')).name, 'authorizatiom');
		// Coded in the other way, the same bytes mean another value.
		const bytes = hex('18c6318c63'.repeat(8));
		const as = (huffman: number) => Buffer.concat([latin1('\x00\x03x-a'), Buffer.of(huffman | 40), bytes]);
		assert.equal(block(as(0x00)).fields[0]!.value, bytes.toString('latin1'));
		assert.equal(block(as(0x80)).fields[0]!.value, 'a'.repeat(64));
	});
});

describe('HPACK', () => {
	const text = fc.string({
		unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
		maxLength: 80,
	});
	const common = fc.constantFrom('a', ':path', 'x-a', 'cookie', 'accept', 'authorization');
	const field = fc.tuple(fc.oneof(common, text), fc.oneof(text, fc.constantFrom('gzip, deflate', 'x'.repeat(200), '')));

	const blocks = fc.array(fc.array(field, { maxLength: 12 }), { maxLength: 6 });

	it('decodes whatever another encoder writes, in every way in which a field can be written', () => {
		fc.assert(
			fc.property(blocks, fc.integer(), fc.array(fc.nat(5), { maxLength: 2 }), (blocks, seed, owed) => {
				const writer = new HpackWriter(new Random(seed));
				const { lines, earn } = decoder();
				for (const [i, fields] of blocks.entries()) {
					// With the fields as objects, with their text, and with both.
					if (owed.length > 0) lines(unpaid());
					if (owed.includes(i)) earn();
					const plain = fields.map(([name, value]) => [name, value.replaceAll('{', '')] as const);
					const parts = writer.write(plain).map((part) => (typeof part === 'string' ? part : ''));
					assert.deepEqual(lines(latin1(parts.join(''))), plain);
				}
			}),
			{ numRuns: 300 },
		);
	});

	it('agrees with another decoder on arbitrary bytes', () => {
		const byte = fc.oneof(
			fc.integer({ min: 0, max: 255 }),
			fc.constantFrom(0x82, 0xbe, 0xbf, 0x40, 0x20, 0x3f, 0, 1, 2),
		);
		fc.assert(
			fc.property(fc.array(fc.array(byte, { maxLength: 40 }), { maxLength: 4 }), (blocks) => {
				const { lines } = decoder();
				const other = new HpackReader();
				for (const bytes of blocks) {
					const expected = outcome(() => other.read(String.fromCharCode(...bytes)));
					const ours = outcome(() => lines(Buffer.from(bytes)));
					// Stricter in two things: size updates without end, and integers of more bytes than any needs.
					if (ours === 'refused' && expected !== 'refused') {
						assert.ok(sizeUpdates(bytes) > 2 || hasLongInteger(bytes), Buffer.from(bytes).toString('hex'));
						return;
					}
					assert.deepEqual(ours, expected);
					if (ours === 'refused') return;
				}
			}),
			{ numRuns: 3000 },
		);
	});

	it('reads a repeated block like a new one', () => {
		const token = fc.constantFrom('t'.repeat(40), 'u'.repeat(40), 'v'.repeat(41));
		const piece = fc.oneof(
			fc.constantFrom('\x82', '\x84', '\xbe', '\xbf', '\xc0', '\x20', '\x3f\xe1\x1f', '\x20\x3f\xe1\x1f'),
			fc
				.tuple(fc.constantFrom('\x00', '\x40', '\x10'), fc.constantFrom('a', 'cookie', 'authorization'), token)
				.map(([first, name, value]) => literal(name, value, first).toString('latin1')),
			// A name of the dynamic table, which is another one in the next block.
			token.map((value) => `\x0f\x2f${codedInteger(value.length, 0x7f, 0)}${value}`),
		);
		const pool = fc.array(fc.array(piece, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 });
		fc.assert(
			fc.property(pool, fc.array(fc.nat(5), { maxLength: 12 }), (blocks, order) => {
				const { lines } = decoder();
				const other = new HpackReader();
				for (const at of order) {
					const block = blocks[at % blocks.length]!.join('');
					const expected = outcome(() => other.read(block));
					const ours = outcome(() => lines(latin1(block), at > 2));
					if (ours === 'refused' && sizeUpdates([...latin1(block)]) > 2) return;
					assert.deepEqual(ours, expected);
					if (expected === 'refused') return;
				}
			}),
			{ numRuns: 2000 },
		);
	});

	function outcome(read: () => readonly (readonly [string, string])[]) {
		try {
			return read().map(([name, value]) => [name, value]);
		} catch (error) {
			if (error instanceof CompressionError || error instanceof ConnectionError) return 'refused';
			throw error;
		}
	}
	function sizeUpdates(bytes: readonly number[]): number {
		return bytes.filter((byte) => (byte & 0xe0) === 0x20).length;
	}
	function hasLongInteger(bytes: readonly number[]): boolean {
		return bytes.some((_, i) => i + 4 < bytes.length && bytes.slice(i, i + 4).every((byte) => byte >= 0x80));
	}

	it('decodes every symbol of the Huffman code', () => {
		const { lines } = decoder();
		const writer = new HpackWriter(new Random(1));
		for (let code = 0; code < 256; code++) {
			const value = `${String.fromCharCode(code)}a`.replaceAll('{', '');
			for (let i = 0; i < 8; i++) {
				const parts = writer.write([['x-a', value]]).map((part) => (typeof part === 'string' ? part : ''));
				assert.deepEqual(lines(latin1(parts.join(''))), [['x-a', value]]);
			}
		}
		assert.equal(decodeHuffman(hex('1f'), 0, 1, Buffer.alloc(decodedRoom(1))), 1);
	});

	it('encodes integers as RFC 7541 section 5.1 does, also where a continuation is just needed', () => {
		for (const [value, prefix, expected] of [
			[10, 0x1f, '\x0a'],
			[1337, 0x1f, '\x1f\x9a\x0a'],
			[126, 0x7f, '\x7e'],
			[127, 0x7f, '\x7f\x00'],
			[127 + 127, 0x7f, '\x7f\x7f'],
			[127 + 128, 0x7f, '\x7f\x80\x01'],
		] as const) {
			assert.equal(codedInteger(value, prefix, 0), expected, `${value}`);
		}
	});

	it('encodes what another decoder reads', () => {
		const lower = field.map(([name, value]) => [name, value] as const);
		fc.assert(
			fc.property(fc.array(lower, { maxLength: 20 }), fc.integer({ min: 200, max: 599 }), (fields, status) => {
				const block = NO_DYNAMIC_TABLE + codedStatus(status) + codedFields(fields.flat());
				assert.deepEqual(new HpackReader().read(block), [[':status', String(status)], ...fields]);
				// Remembered or not.
				assert.equal(codedFields(fields.flat()), fields.map(([name, value]) => codedField(name, value)).join(''));
			}),
		);
	});
});

describe('HPACK and node:http2', () => {
	const HEADS: Line[][] = Array.from({ length: 40 }, (_, i) => [
		[':method', i % 3 === 0 ? 'POST' : 'GET'],
		[':path', `/${'p'.repeat(i * 7)}?${i % 5}`],
		[':scheme', 'https'],
		[':authority', 'localhost'],
		['authorization', `Bearer ${'abc.DEF-'.repeat(20 + (i % 2))}`],
		['user-agent', 'differential/1.0'],
		[`x-${i % 7}`, '\x80\xff~^'.repeat(i % 4)],
		['cookie', 'k=v'.repeat(1 + i)],
		['x-long', 'v'.repeat(90 * (i % 9))],
	]);

	it('agree on requests of its client', async () => {
		const [inner, outer] = duplexPair();
		const session = connect('https://localhost', { createConnection: () => inner });
		session.on('error', () => {});
		const { lines } = decoder();
		const reader = new FrameReader();
		const decoded: Line[][] = [];
		let skipped = 0;
		outer.on('data', (bytes: Buffer) => {
			const rest = bytes.subarray(Math.min(bytes.length, PREFACE.length - skipped));
			skipped += bytes.length - rest.length;
			for (const { type, flags, payload } of reader.push(rest)) {
				if (type !== FRAME.HEADERS) continue;
				assert.ok(flags & FLAG.END_HEADERS && !(flags & FLAG.PADDED));
				decoded.push(lines(flags & FLAG.PRIORITY ? payload.subarray(5) : payload));
			}
		});
		for (const head of HEADS) session.request(head.flat(), { endStream: true }).on('error', () => {});
		while (decoded.length < HEADS.length) await new Promise(setImmediate);
		assert.deepEqual(decoded, HEADS);
		session.destroy();
	});
});

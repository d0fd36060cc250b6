import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DerError, DerReader, oidText, TAG } from '../../../packages/gate/src/identity/der.ts';

/** An octet string with these octets of length, and this many octets of content. */
function octets(length: readonly number[], content: number): Buffer {
	return Buffer.concat([Buffer.from([TAG.octetString, ...length]), Buffer.alloc(content, 7)]);
}

describe('a length in DER', () => {
	test('is read in its shortest form', () => {
		for (const [length, content] of [
			[[0], 0],
			[[0x7f], 0x7f],
			[[0x81, 0x80], 0x80],
			[[0x81, 0xff], 0xff],
			[[0x82, 1, 0], 0x100],
			[[0x83, 1, 0, 0], 0x1_0000],
			[[0x84, 1, 0, 0, 0], 0x100_0000],
		] as const) {
			const reader = new DerReader(octets(length, content));
			assert.equal(reader.read(TAG.octetString).length, content, length.join());
			reader.end();
		}
	});

	test('is refused in a longer form, in the indefinite one, beyond four octets, and beyond the bytes', () => {
		for (const [length, content, message] of [
			[[0x80], 0, 'bad length'],
			[[0x81, 0x7f], 0x7f, 'bad length'],
			[[0x82, 0, 0xff], 0xff, 'bad length'],
			[[0x83, 0, 0xff, 0xff], 0xffff, 'bad length'],
			[[0x85, 0, 0, 0, 0, 1], 1, 'bad length'],
			[[0x82, 1], 0, 'bad length'],
			[[], 0, 'cut off'],
			[[2], 1, 'cut off'],
			[[0x81, 0x80], 0x7f, 'cut off'],
		] as const) {
			const reader = new DerReader(octets(length, content));
			assert.throws(() => reader.read(TAG.octetString), new DerError(message), length.join());
		}
	});

	test('does not reach beyond the element around it', () => {
		const reader = new DerReader(Buffer.from([TAG.sequence, 2, TAG.octetString, 1, 7])).open(TAG.sequence);
		assert.throws(() => reader.read(TAG.octetString), new DerError('cut off'));
		const empty = new DerReader(Buffer.from([TAG.sequence, 0, TAG.octetString, 0])).open(TAG.sequence);
		assert.equal(empty.next, -1);
	});
});

test('an object identifier has its first two arcs in one number', () => {
	for (const [content, text] of [
		['2a8648ce3d0201', '1.2.840.10045.2.1'],
		['551d25', '2.5.29.37'],
		['00', '0.0'],
		['883703', '2.999.3'],
	] as const) {
		assert.equal(oidText(Buffer.from(content, 'hex')), text);
	}
});

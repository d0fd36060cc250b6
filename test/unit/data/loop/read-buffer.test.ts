import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isReadView, READ_BUFFER, READ_WORDS, readView } from '../../../../packages/proxy/src/data/loop/read-buffer.ts';

describe('Views of the read buffer', () => {
	it('are its first bytes', () => {
		for (const length of [0, 1, 2, 1100, 2047, 2048, 2049, READ_BUFFER.length]) {
			const view = readView(length);
			assert.equal(view.buffer, READ_BUFFER.buffer);
			assert.equal(view.byteOffset, READ_BUFFER.byteOffset);
			assert.equal(view.length, length);
		}
	});

	it('are made once for short reads of a length', () => {
		assert.equal(readView(1100), readView(1100));
		assert.ok(isReadView(readView(1100)));
	});

	it('are distinguished from other bytes', () => {
		assert.ok(!isReadView(READ_BUFFER.subarray(1, 1101)));
		assert.ok(!isReadView(Buffer.alloc(1100)));
		assert.ok(!isReadView(READ_BUFFER));
	});

	it('share their bytes with the words of the read buffer', () => {
		readView(8).set([0, 0, 0, 0, 0x80, 1, 2, 3]);
		assert.equal(READ_WORDS[1], readView(8).readInt32LE(4));
		assert.equal(READ_WORDS.byteLength, READ_BUFFER.length);
	});
});

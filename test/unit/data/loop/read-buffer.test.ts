import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { READ_BUFFER, readView } from '../../../../packages/proxy/src/data/loop/read-buffer.ts';

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
	});
});

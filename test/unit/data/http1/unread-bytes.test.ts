import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { UnreadBytes } from '../../../../packages/proxy/src/data/http1/unread-bytes.ts';

describe('bytes that have been read and not been taken', () => {
	it('are those that came, in their order, whatever was taken of them, and who took some keeps them', () => {
		const step = fc.oneof(
			fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
			fc.double({ min: 0, max: 1, noNaN: true }),
		);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
				const unread = new UnreadBytes();
				let expected = Buffer.alloc(0);
				const held: { piece: Buffer; copy: Buffer }[] = [];
				for (const one of steps) {
					if (typeof one !== 'number') {
						expected = Buffer.concat([expected, one]);
						unread.add(Buffer.from(one));
					} else if (unread.bytes !== undefined) {
						const { bytes } = unread;
						const taken = Math.round(one * bytes.length);
						const piece = bytes.subarray(0, taken);
						held.push({ piece, copy: Buffer.from(piece) });
						unread.leave(bytes, taken);
						expected = expected.subarray(taken);
					}
					assert.deepEqual(unread.bytes ?? Buffer.alloc(0), expected);
				}
				for (const { piece, copy } of held) assert.deepEqual(piece, copy);
			}),
		);
	});

	it('are put together in few pieces of memory, however many reads have brought them', () => {
		const unread = new UnreadBytes();
		const memories = new Set<ArrayBufferLike>();
		for (let i = 0; i < 100_000; i++) {
			unread.add(Buffer.from([i]));
			memories.add(unread.bytes!.buffer);
		}
		assert.equal(unread.bytes!.length, 100_000);
		assert.ok(memories.size <= 20, `${memories.size} times`);
	});
});

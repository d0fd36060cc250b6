import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { UnreadBytes } from '../../../../packages/proxy/src/data/http1/unread-bytes.ts';

describe('bytes that have been read and not been taken', () => {
	it('are the bytes that came and were not taken, in order, even if the memory of the read is overwritten', () => {
		const share = fc.double({ min: 0, max: 1, noNaN: true });
		const read = fc.uint8Array({ minLength: 1, maxLength: 40 });
		const step = fc.oneof(fc.tuple(read, share), share);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
				const unread = new UnreadBytes();
				let expected = Buffer.alloc(0);
				const take = (share: number) => {
					const { bytes } = unread;
					if (bytes === undefined) return;
					const taken = Math.round(share * bytes.length);
					unread.leave(bytes, taken);
					expected = expected.subarray(taken);
				};
				for (const step of steps) {
					if (typeof step === 'number') {
						take(step);
					} else {
						const [bytes, share] = step;
						expected = Buffer.concat([expected, bytes]);
						const read = Buffer.from(bytes);
						unread.add(read);
						take(share);
						unread.keep();
						read.fill(0);
					}
					assert.deepEqual(unread.bytes ?? Buffer.alloc(0), expected);
				}
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

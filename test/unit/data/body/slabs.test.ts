import { deepEqual, equal, notEqual, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SLAB_BYTES, Slabs } from '../../../../src/data/body/slabs.ts';

describe('slabs', () => {
	it('are used again, the last one first', () => {
		const slabs = new Slabs(4 * SLAB_BYTES);
		const [a, b] = [slabs.take(), slabs.take()];
		notEqual(a, b);
		equal(a.length, SLAB_BYTES);
		slabs.giveBack(a);
		slabs.giveBack(b);
		equal(slabs.freeBytes, 2 * SLAB_BYTES);
		deepEqual([slabs.take() === b, slabs.take() === a], [true, true]);
		equal(slabs.freeBytes, 0);
	});

	it('have memory of their own', () => {
		const slabs = new Slabs(4 * SLAB_BYTES);
		for (const slab of [slabs.take(), slabs.take()]) {
			equal(slab.byteOffset, 0);
			equal(slab.buffer.byteLength, SLAB_BYTES);
		}
	});

	it('are not kept beyond the bound', () => {
		const slabs = new Slabs(2 * SLAB_BYTES + 1);
		const taken = Array.from({ length: 5 }, () => slabs.take());
		for (const slab of taken) slabs.giveBack(slab);
		equal(slabs.freeBytes, 2 * SLAB_BYTES);
		ok(new Set(Array.from({ length: 5 }, () => slabs.take())).size === 5);
	});

	it('have one owner: what is given back twice, or is no slab, or only a view of one, is given to nobody', () => {
		const slabs = new Slabs(8 * SLAB_BYTES);
		const slab = slabs.take();
		slabs.giveBack(slab.subarray(0, 100));
		slabs.giveBack(Buffer.alloc(SLAB_BYTES));
		equal(slabs.freeBytes, 0);
		slabs.giveBack(slab);
		slabs.giveBack(slab);
		equal(slabs.freeBytes, SLAB_BYTES);
		equal(slabs.take(), slab);
		notEqual(slabs.take(), slab);
	});
});

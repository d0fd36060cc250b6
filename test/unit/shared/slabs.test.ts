import { deepEqual, equal, notEqual } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_TRIMMED, SLAB_BYTES, Slabs } from '../../../packages/proxy/src/shared/slabs.ts';

describe('slabs', () => {
	it('are reused, the last one first', () => {
		const slabs = new Slabs(4 * SLAB_BYTES);
		const [a, b] = [slabs.take(), slabs.take()];
		notEqual(a, b);
		equal(a.length, SLAB_BYTES);
		slabs.release(a);
		slabs.release(b);
		equal(slabs.freeBytes, 2 * SLAB_BYTES);
		deepEqual([slabs.take() === b, slabs.take() === a], [true, true]);
		equal(slabs.freeBytes, 0);
	});

	it('do not share memory', () => {
		const slabs = new Slabs(4 * SLAB_BYTES);
		for (const slab of [slabs.take(), slabs.take()]) {
			equal(slab.byteOffset, 0);
			equal(slab.buffer.byteLength, SLAB_BYTES);
		}
	});

	it('are kept while they are needed, and returned down to the bound when they have not been needed from one look to the next', () => {
		const slabs = new Slabs(2 * SLAB_BYTES + 1);
		const use = (count: number) => {
			const taken = Array.from({ length: count }, () => slabs.take());
			for (const slab of taken) slabs.release(slab);
			return taken;
		};
		const first = use(6);
		slabs.trim();
		equal(slabs.freeBytes, 6 * SLAB_BYTES);
		const needed = use(3);
		slabs.trim();
		equal(slabs.freeBytes, 5 * SLAB_BYTES);
		const returned = first.filter((slab) => slab.length === 0);
		deepEqual([returned.length, returned.some((slab) => needed.includes(slab))], [1, false]);
		for (let looks = 0; looks < 3; looks++) slabs.trim();
		equal(slabs.freeBytes, 2 * SLAB_BYTES);
		equal(new Set(use(6).map((slab) => slab.fill(1))).size, 6);
	});

	it('are returned several at a time, and never while they have an owner', () => {
		const slabs = new Slabs(0);
		const taken = Array.from({ length: MAX_TRIMMED + 10 }, () => slabs.take());
		const owned = slabs.take();
		for (const slab of taken) slabs.release(slab);
		slabs.trim();
		slabs.trim();
		equal(slabs.freeBytes, 10 * SLAB_BYTES);
		slabs.trim();
		deepEqual([slabs.freeBytes, owned.length], [0, SLAB_BYTES]);
	});

	it('have one owner: a slab given back twice, a view of a slab and other memory are never handed out', () => {
		const slabs = new Slabs(8 * SLAB_BYTES);
		const slab = slabs.take();
		slabs.release(slab.subarray(0, 100));
		slabs.release(Buffer.alloc(SLAB_BYTES));
		equal(slabs.freeBytes, 0);
		slabs.release(slab);
		slabs.release(slab);
		equal(slabs.freeBytes, SLAB_BYTES);
		equal(slabs.take(), slab);
		notEqual(slabs.take(), slab);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StreamTable } from '../../../packages/proxy/src/http2/stream-table.ts';

describe('StreamTable', () => {
	it('agrees with a Map after any insertions and removals', () => {
		// Few identifiers, and such that meet in one place whatever the table's size.
		const id = fc.oneof(
			fc.integer({ min: 0, max: 40 }).map((n) => 2 * n + 1),
			fc.integer({ min: 0, max: 20 }).map((n) => 1 + n * 2 ** 12),
			fc.constantFrom(2 ** 31 - 1, 2 ** 31 - 3, 2),
		);
		const step = fc.tuple(fc.constantFrom('set', 'delete', 'get'), id);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 300, size: 'max' }), (steps) => {
				const table = new StreamTable<object>();
				const model = new Map<number, object>();
				for (const [call, id] of steps) {
					const stream = {};
					if (call === 'set') {
						assert.equal(table.set(id, stream), table);
						model.set(id, stream);
					} else if (call === 'delete') {
						assert.equal(table.delete(id), model.delete(id));
					}
					assert.equal(table.get(id), model.get(id));
					assert.equal(table.size, model.size);
				}
				for (const [id, stream] of model) assert.equal(table.get(id), stream);
				const seen = new Set<object>();
				table.forEach((stream) => {
					seen.add(stream);
				});
				assert.deepEqual(seen, new Set(model.values()));
			}),
			{ numRuns: 500 },
		);
	});

	it('does not grow with closed streams, even if an old one stays', () => {
		const table = new StreamTable<number>();
		table.set(1, 1);
		const before = process.memoryUsage();
		for (let id = 3; id < 2_000_001; id += 2) {
			table.set(id, id);
			assert.ok(table.delete(id));
		}
		assert.equal(table.get(1), 1);
		assert.equal(table.size, 1);
		// A place for each of the million would be 4 MB of numbers, and twice as much of pointers.
		assert.ok(process.memoryUsage().arrayBuffers - before.arrayBuffers < 1_000_000);
	});

	it('has no stream 0, which is the connection', () => {
		const table = new StreamTable<number>();
		for (let id = 1; id < 32; id += 2) table.set(id, id);
		assert.equal(table.get(0), undefined);
		assert.equal(table.delete(0), false);
		assert.equal(table.size, 16);
	});

	it('may be emptied during iteration', () => {
		const table = new StreamTable<number>();
		for (let id = 1; id < 200; id += 2) table.set(id, id);
		const seen: number[] = [];
		table.forEach((id) => {
			seen.push(id);
			table.delete(id);
		});
		assert.equal(seen.length, 100);
		assert.equal(table.size, 0);
	});
});

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LiteralPool } from '../../../../packages/proxy/src/data/memo/literal-pool.ts';

interface Field {
	readonly name: string;
	readonly value: string;
}

const field = (name: string, value: string): Field => ({ name, value });
const coded = (text: string) => Buffer.from(text.padEnd(128, '-'));

describe('the pool of long field values', () => {
	it('finds a field by its name and all of its bytes', () => {
		const pool = new LiteralPool<Field>();
		const bytes = coded('a token');
		assert.equal(pool.find('authorization', bytes, 0, bytes.length), undefined, 'an empty pool');
		const kept = field('authorization', 'a token');
		pool.add(kept, bytes, 0, bytes.length);
		const around = Buffer.concat([Buffer.alloc(5, 1), bytes, Buffer.alloc(5, 2)]);
		assert.equal(pool.find('authorization', around, 5, 5 + bytes.length), kept);
		assert.equal(pool.find('cookie', bytes, 0, bytes.length), undefined, 'another name');
		const shorter = Buffer.concat([bytes.subarray(0, 60), bytes.subarray(61)]);
		assert.equal(pool.find('authorization', shorter, 0, shorter.length), undefined, 'other bytes');
	});

	it('keeps its own copy of the bytes', () => {
		const pool = new LiteralPool<Field>();
		const bytes = coded('a token');
		pool.add(field('authorization', 'a token'), bytes, 0, bytes.length);
		bytes.write('b');
		assert.equal(pool.find('authorization', bytes, 0, bytes.length), undefined);
	});

	it('never gives a field for bytes that are not its own, whatever shares its place', () => {
		// Bytes at the places that are hashed are few, so that many values share a place.
		const value = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 128, maxLength: 131 });
		fc.assert(
			fc.property(fc.array(value, { minLength: 1, maxLength: 200 }), (values) => {
				const pool = new LiteralPool<Field>();
				for (const text of values) {
					const bytes = Buffer.from(text);
					const found = pool.find('authorization', bytes, 0, bytes.length);
					if (found !== undefined) assert.equal(found.value, text);
					else pool.add(field('authorization', text), bytes, 0, bytes.length);
					assert.equal(pool.find('authorization', bytes, 0, bytes.length)?.value, text, 'the one added last');
				}
			}),
		);
	});

	it('holds 10,000 tokens of usual length', () => {
		const pool = new LiteralPool<Field>();
		const signature = (i: number) => createHash('sha512').update(String(i)).digest('hex');
		const tokens = Array.from({ length: 10_000 }, (_, i) => coded(`header.payload.${signature(i)}`));
		for (const bytes of tokens) pool.add(field('authorization', 'x'.repeat(700)), bytes, 0, bytes.length);
		const found = tokens.filter((bytes) => pool.find('authorization', bytes, 0, bytes.length) !== undefined);
		assert.ok(found.length > 9000, `${found.length} found`);
	});

	it('forgets its oldest fields, a chunk at a time, above 6 MiB of bytes', () => {
		const pool = new LiteralPool<Field>();
		const large = (i: number) => Buffer.alloc(8192, `${i} `);
		const isKept = (i: number) => pool.find('cookie', large(i), 0, 8192)?.value === String(i);
		// Eight of these fill a chunk, and 96 chunks the pool.
		const FULL = 8 * 96;
		const addUpTo = (from: number, to: number) => {
			for (let i = from; i < to; i++) pool.add(field('cookie', String(i)), large(i), 0, 8192);
		};
		const kept = (count: number) => Array.from({ length: count }, (_, i) => i).filter(isKept);
		addUpTo(0, FULL);
		assert.ok(kept(FULL).length > 0.95 * FULL, 'nearly all, since few share a place');
		addUpTo(FULL, FULL + 1);
		assert.deepEqual(
			kept(FULL + 1).filter((i) => i < 8),
			[],
		);
		assert.ok(kept(FULL + 1).length > 0.95 * (FULL - 7));
		// Once more around: no field is found by the bytes of a later one in its chunk.
		addUpTo(FULL + 1, 3 * FULL);
		assert.deepEqual(
			kept(3 * FULL).filter((i) => i < 2 * FULL),
			[],
		);
		assert.ok(kept(3 * FULL).length > 0.95 * FULL);
	});
});

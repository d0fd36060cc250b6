import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TextMemo } from '../../../../packages/proxy/src/data/memo/text-memo.ts';

describe('TextMemo', () => {
	it('computes a text once while it fits', () => {
		let times = 0;
		const memo = new TextMemo((text) => `${++times} ${text}`, 100);
		for (let i = 0; i < 5; i++) assert.equal(memo.get('a'), '1 a');
		assert.equal(memo.get('b'), '2 b');
		assert.equal(memo.get('a'), '1 a');
	});

	it('keeps at most its limit of characters, and returns the same as without it', () => {
		const texts = fc.array(fc.oneof(fc.constantFrom('a', 'b', 'c'.repeat(40)), fc.string({ maxLength: 120 })));
		fc.assert(
			fc.property(texts, (asked) => {
				const memo = new TextMemo((text) => `<${text}>`, 100);
				for (const text of asked) {
					assert.equal(memo.get(text), `<${text}>`);
					assert.ok(memo.characters <= 100, `${memo.characters} characters`);
				}
			}),
		);
	});
});

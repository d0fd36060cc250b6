import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { jsonString } from '../../../../packages/proxy/src/data/records/json-string.ts';
import { anyText } from '../../../fixtures/any-text.ts';

test('a plain text is itself, in quotes', () => {
	for (const text of ['', 'a', '/a b?c', "<&>'`{}[]~ "]) assert.equal(jsonString(text), `"${text}"`);
});

test('any text is valid JSON of visible ASCII and is read back as it was, lone surrogates aside', () => {
	fc.assert(
		fc.property(anyText(40), (text) => {
			const json = jsonString(text);
			assert.match(json, /^"[\x20-\x7e]*"$/);
			assert.equal(JSON.parse(json), text.toWellFormed());
		}),
		{ numRuns: 2000, examples: [['"\\\n\r\0\x7f\x9b\u2028\u202e\ud800']] },
	);
});

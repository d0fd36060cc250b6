import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { suggest } from '../../../packages/gate/src/words/suggest.ts';

const KEYS = ['issuer', 'audience', 'jwks_path', 'cooldown_secs', 'default_cooldown_secs'];

describe('the suggestion for a mistyped word', () => {
	it('is the candidate with the fewest differences', () => {
		assert.equal(suggest('isuer', KEYS), 'issuer');
		assert.equal(suggest('audeince', KEYS), 'audience');
		assert.equal(suggest('jwk_path', KEYS), 'jwks_path');
		assert.equal(suggest('cooldown_sec', KEYS), 'cooldown_secs');
		assert.equal(suggest('default_cooldown', ['default_cooldown_s', 'cooldown']), 'default_cooldown_s');
	});

	it('does not count case, dashes and underscores', () => {
		assert.equal(suggest('Cooldown-Secs', KEYS), 'cooldown_secs');
		assert.equal(suggest('AUDIENCE', KEYS), 'audience');
	});

	it('counts two swapped neighbours as one difference', () => {
		assert.equal(suggest('ab', ['ba']), 'ba');
	});

	it('is absent if no candidate is close', () => {
		for (const word of ['', 'x', 'timeout', 'subject', 'path']) assert.equal(suggest(word, KEYS), undefined, word);
		assert.equal(suggest('issuer', []), undefined);
	});

	it('is the word itself if that is a candidate', () => {
		fc.assert(
			fc.property(fc.string({ minLength: 1 }), fc.array(fc.string()), (word, others) => {
				assert.equal(
					suggest(word, [...others.filter((other) => other.toLowerCase() !== word.toLowerCase()), word]) !== undefined,
					true,
				);
			}),
		);
	});

	it('survives one dropped character in a word of three or more', () => {
		fc.assert(
			fc.property(fc.stringMatching(/^[a-z_]{3,20}$/), fc.nat(), (word, at) => {
				const dropped = word.slice(0, at % word.length) + word.slice((at % word.length) + 1);
				assert.equal(suggest(dropped, [word]), word);
			}),
		);
	});
});

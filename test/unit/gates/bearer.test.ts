import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { bearerToken, MAX_TOKEN_LENGTH } from '../../../packages/gate/src/gates/bearer.ts';
import { TOKEN_INVALID, TOKEN_MISSING } from '../../../packages/gate/src/gates/rejection.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';

describe('the bearer gate', () => {
	it('reports "missing" only for a request without the header', () => {
		assertRefusal(bearerToken(undefined), TOKEN_MISSING, '', 'no token');
		assertRefusal(bearerToken('Bearer '), TOKEN_INVALID, '', 'empty token');
		for (const present of [null, '', ' ', 'Bearer', 'Basic abc', 'x'.repeat(10)]) {
			assertRefusal(bearerToken(present), TOKEN_INVALID, JSON.stringify(present));
		}
	});

	it('refuses two headers, even equal ones, as invalid', () => {
		assertRefusal(bearerToken(null), TOKEN_INVALID, '', 'two authorization headers');
	});

	it('accepts the scheme in any letter case', () => {
		for (const scheme of ['Bearer', 'bearer', 'BEARER', 'bEaReR']) assert.equal(bearerToken(`${scheme} abc`), 'abc');
	});

	it('accepts no scheme but Bearer', () => {
		for (const scheme of ['Beare', 'Bearers', 'Bea\u0280er', 'Basic', 'DPoP', 'Bearer:', ' Bearer', '"Bearer"']) {
			assertRefusal(bearerToken(`${scheme} abc`), TOKEN_INVALID, scheme, 'no bearer scheme');
		}
	});

	it('splits at the first space and at no other white space', () => {
		assert.equal(bearerToken('Bearer a b'), 'a b');
		assert.equal(bearerToken('Bearer  a'), ' a');
		for (const value of ['Bearer\tabc', 'Bearer\u00a0abc', 'Bearer,abc', 'Bearer=abc', 'Bearerabc']) {
			assertRefusal(bearerToken(value), TOKEN_INVALID, JSON.stringify(value));
		}
	});

	it('accepts tokens of up to 8 KiB', () => {
		assert.equal(MAX_TOKEN_LENGTH, 8192);
		assert.equal(bearerToken(`Bearer ${'a'.repeat(8192)}`), 'a'.repeat(8192));
		assertRefusal(bearerToken(`Bearer ${'a'.repeat(8193)}`), TOKEN_INVALID, '', 'token too long');
		assertRefusal(bearerToken(`Bearer ${'a'.repeat(1 << 20)}`), TOKEN_INVALID);
	});

	it('returns exactly what follows the first space, or refuses', () => {
		const word = fc.string({ unit: fc.constantFrom('b', 'E', 'a', 'r', ' ', '\t', '.', 'x'), maxLength: 12 });
		fc.assert(
			fc.property(
				fc.oneof(
					word,
					word.map((rest) => `Bearer${rest}`),
				),
				(value) => {
					const [scheme = '', ...rest] = value.split(' ');
					const token = rest.join(' ');
					const wanted = scheme.toLowerCase() === 'bearer' && token !== '' ? token : undefined;
					if (wanted === undefined) assertRefusal(bearerToken(value), TOKEN_INVALID);
					else assert.equal(bearerToken(value), wanted);
				},
			),
			{ numRuns: 1000 },
		);
	});
});

import assert from 'node:assert/strict';
import { it } from 'node:test';
import * as grammar from '../../../packages/gate/src/gates/grammar.ts';

const OCTETS = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code));
// RFC 9110 section 5.6.2, as it is written there.
const TCHAR = new Set(
	["!#$%&'*+-.^_`|~", '0123456789', 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'].join(''),
);

it('a token has the characters of tchar, in text and in bytes', () => {
	for (const [code, octet] of OCTETS.entries()) {
		const expected = TCHAR.has(octet);
		assert.equal(grammar.isToken(`a${octet}`), expected, `${code}`);
		assert.equal(grammar.isLowerCaseToken(`a${octet}`), expected && octet === octet.toLowerCase(), `${code}`);
		assert.equal(grammar.IN_TOKEN[code] === 1, expected, `${code}`);
	}
});

it('the grammar of tokens refuses an empty token, and one with characters beyond a byte', () => {
	for (const text of ['', 'é', 'GET\n', 'K\u{130}']) assert.equal(grammar.isToken(text), false, text);
	assert.equal(grammar.IN_TOKEN[0x130], undefined);
});

it('a field value has visible characters, blanks and obs-text', () => {
	for (const code of OCTETS.keys()) {
		const expected = code === 9 || (code >= 0x20 && code !== 0x7f);
		assert.equal(grammar.IN_VALUE[code] === 1, expected, `${code}`);
	}
});

it('a quoted string escapes its quotes, and ends at the first one that is not escaped', () => {
	const whole = new RegExp(`^${grammar.QUOTED_STRING_SOURCE}$`);
	for (const text of ['""', '"a b\t\xff"', String.raw`"\"\\"`]) assert.match(text, whole);
	for (const text of ['"', 'a', '"a"b"', String.raw`"\"`, '"\n"', '"\x7f"', '"\\\n"']) assert.doesNotMatch(text, whole);
});

/** The parts of HTTP's grammar that several parsers share (RFC 9110 section 5). Pure. */

/** Sources of regular expressions, to build larger grammars from. */
export const TOKEN_SOURCE = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
/** Section 5.6.4. */
export const QUOTED_STRING_SOURCE =
	'"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"';

const TOKEN = new RegExp(`^${TOKEN_SOURCE}$`);
const LOWER_CASE_TOKEN = new RegExp(`^${TOKEN_SOURCE.replace('A-Z', '')}$`);

/** Section 5.6.2. Methods and field names are tokens. */
export function isToken(text: string): boolean {
	return TOKEN.test(text);
}

/** Names of fields in HTTP/2 (RFC 9113 section 8.2.1). */
export function isLowerCaseToken(text: string): boolean {
	return LOWER_CASE_TOKEN.test(text);
}

/** For parsers that read bytes: 1 for each byte that a token may contain. */
export const IN_TOKEN: Uint8Array = tableOf(isToken);
/** The same for a field's value (section 5.5): visible characters, blanks and obs-text. */
export const IN_VALUE: Uint8Array = tableOf((character) => /[\t\x20-\x7e\x80-\xff]/.test(character));

function tableOf(isPart: (character: string) => boolean): Uint8Array {
	return Uint8Array.from({ length: 256 }, (_, code) => Number(isPart(String.fromCharCode(code))));
}

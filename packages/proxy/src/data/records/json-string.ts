/**
 * A JSON string, quotes included, in pure ASCII. Escaped are control characters, lone surrogates, and everything outside ASCII, so
 * that no terminal or line reader acts on it (`log.ts`). Nearly every text is plain and needs only a test.
 */
export function jsonString(text: string): string {
	if (PLAIN.test(text)) return `"${text}"`;
	return JSON.stringify(text.toWellFormed()).replace(
		NOT_ASCII,
		(unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
	);
}

/** Visible ASCII and blanks, except the two characters that JSON escapes. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
const NOT_ASCII = /[\x7f-\uffff]/g;

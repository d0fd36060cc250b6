/**
 * A text as a JSON string, quotes included, in ASCII alone: control characters, lone surrogates, and what terminals or
 * readers of lines act on (`log.ts`) are escaped, like all that is no ASCII. Nearly every text is plain and only looked at.
 */
export function jsonString(text: string): string {
	if (PLAIN.test(text)) return `"${text}"`;
	return JSON.stringify(text.toWellFormed()).replace(
		NOT_ASCII,
		(unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
	);
}

/** Visible ASCII and the blank, without what JSON escapes. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;
const NOT_ASCII = /[\x7f-\uffff]/g;

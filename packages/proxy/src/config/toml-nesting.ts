/** Counts tables, lists and dotted keys together; the configuration needs 3. */
const MAX_DEPTH = 8;

/**
 * Finds nesting so deep that the parser, and every walk over its result, would take minutes for a few kilobytes. Cheap and
 * without recursion. Never rejects a valid configuration; does not check syntax.
 *
 * @returns the line, from 1, where it becomes too deep.
 */
export function tooDeepAt(text: string): number | undefined {
	let line = 1;
	let brackets = 0;
	let dots = 0;
	for (const [token] of text.matchAll(TOKEN)) {
		if (token === '.') {
			dots++;
		} else if (token === '[' || token === '{') {
			brackets++;
			dots = 0;
		} else if (/^[\]}=,\n]$/.test(token)) {
			if (token === ']' || token === '}') brackets = Math.max(0, brackets - 1);
			dots = 0;
		}
		if (brackets + dots > MAX_DEPTH) return line;
		line += token.split('\n').length - 1;
	}
	return undefined;
}

export const TOO_DEEP = `is nested deeper than ${MAX_DEPTH} levels, deeper than any key of the configuration; see docs/reference/configuration.md for the keys`;

/**
 * Strings and comments, each as one token, and brackets and separators. An unterminated string extends to the end of its line, or
 * of the file, so every character is scanned once.
 */
const TOKEN =
	/"""(?:\\[\s\S]|[^\\])*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|#[^\n]*|[[\]{}.=,\n]/g;

/**
 * `JSON.parse` keeps the last of two members with one name and says nothing; another reader may keep the first. RFC 7519
 * section 4 lets us refuse such a token, and an identity that two readers see differently is worth refusing.
 */

/**
 * Parses a JSON object whose member names are unique at every depth.
 *
 * @returns the object, or `undefined` for anything else: no JSON, no object at the top, a name twice.
 */
export function parseUniqueObject(text: string): Record<string, unknown> | undefined {
	let value: unknown;
	try {
		value = JSON.parse(text);
	} catch {
		return undefined;
	}
	if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
	return hasUniqueNames(text) ? (value as Record<string, unknown>) : undefined;
}

/** `text` is known to be JSON, so only strings and brackets need attention. */
function hasUniqueNames(text: string): boolean {
	// One entry for each open bracket: the names seen so far, or null inside an array.
	const open: (Set<string> | null)[] = [];
	let position = 0;
	while (position < text.length) {
		const char = text[position];
		if (char === '"') {
			const end = endOfString(text, position);
			const names = open.at(-1);
			if (names && isName(text, end)) {
				// Decoded, since "sub" and "s\u0075b" are one name.
				const name = JSON.parse(text.slice(position, end)) as string;
				if (names.has(name)) return false;
				names.add(name);
			}
			position = end;
			continue;
		}
		if (char === '{') open.push(new Set());
		else if (char === '[') open.push(null);
		else if (char === '}' || char === ']') open.pop();
		position++;
	}
	return true;
}

/** Index just behind the closing quote of the string that opens at `start`. */
function endOfString(text: string, start: number): number {
	let position = start + 1;
	while (text[position] !== '"') position += text[position] === '\\' ? 2 : 1;
	return position + 1;
}

/** In valid JSON a string is a member's name exactly when a colon follows it. */
function isName(text: string, end: number): boolean {
	let position = end;
	while (/[ \t\r\n]/.test(text[position] ?? '')) position++;
	return text[position] === ':';
}

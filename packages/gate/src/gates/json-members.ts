/**
 * `JSON.parse` silently keeps the last of two members with the same name; another parser may keep the first. RFC 7519
 * section 4 allows refusing such a token. We do, because two parsers must not see different identities.
 *
 * `JSON.parse` can also return a wrong name: in V8 12.8 to 14.6 (Node 24 and 26) a name with an escape can come out as the name
 * of a member that the thread parsed before, perhaps from another tenant's token (nodejs/node#63785).
 */

type JsonObject = Record<string, unknown>;

/** The tokens of valid JSON: strings, brackets, and numbers or words. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]|[^\s,:{}[\]"]+/g;

/**
 * Parses a JSON object whose member names are unique at every depth.
 *
 * @returns the object; `null` if a name occurs twice; `undefined` if the text is not JSON or its top value is not an object.
 */
export function parseUniqueObject(text: string): JsonObject | null | undefined {
	try {
		// Only validates: the result is not used.
		JSON.parse(text);
	} catch {
		return undefined;
	}
	const tokens = text.match(TOKENS)!;
	return tokens[0] === '{' ? build(tokens) : undefined;
}

/**
 * The value of a top-level member, if it is a string. Skips the checks of `parseUniqueObject`, because unauthenticated clients can
 * trigger this read. The rest of the text is only scanned: 6 KB take at most 30 µs; `JSON.parse` may take ten times as long.
 *
 * @param text JSON in UTF-8. Other input gives an arbitrary result: parse the text before you rely on it.
 * @param name ASCII.
 */
export function peekText(text: Uint8Array, name: string): string | undefined {
	let depth = 0;
	let isName = false;
	for (let i = 0; i < text.length; i++) {
		switch (text[i]) {
			case QUOTE: {
				const end = endOfString(text, i);
				if (depth === 1 && isName && isNamed(text, i, end, name)) return textAt(text, end + 1);
				if (depth === 0) return undefined;
				i = end;
				break;
			}
			case 0x7b: // {
				isName = ++depth === 1;
				break;
			case 0x5b: // [
				if (++depth === 1) return undefined;
				break;
			case 0x7d: // }
			case 0x5d: // ]
				if (--depth === 0) return undefined;
				isName = false;
				break;
			case 0x2c: // ,
				isName = depth === 1;
				break;
			case COLON:
				isName = false;
		}
	}
	return undefined;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** @param start position of the opening quote. @returns the position of the closing quote, or the end of the text. */
function endOfString(text: Uint8Array, start: number): number {
	let i = start + 1;
	while (i < text.length && text[i] !== QUOTE) i += text[i] === BACKSLASH ? 2 : 1;
	return i;
}

/** Compares character by character, each literal or escaped as `\u0069`, so that no stranger's name is decoded. */
function isNamed(text: Uint8Array, start: number, end: number, name: string): boolean {
	let i = start + 1;
	for (let j = 0; j < name.length; j++) {
		const wanted = name.charCodeAt(j);
		if (text[i] === wanted) i++;
		else if (text[i] === BACKSLASH && escapedAt(text, i) === wanted) i += 6;
		else return false;
	}
	return i === end;
}

/** @returns the code unit of `\u` and four digits; `NaN` for anything else. */
function escapedAt(text: Uint8Array, i: number): number {
	if (text[i + 1] !== 0x75) return Number.NaN;
	let code = 0;
	for (let digit = i + 2; digit < i + 6; digit++) {
		const value = HEX.indexOf(String.fromCharCode(text[digit] ?? 0).toLowerCase());
		if (value === -1) return Number.NaN;
		code = code * 16 + value;
	}
	return code;
}

const HEX = '0123456789abcdef';

/** @param from the position after the name. */
function textAt(text: Uint8Array, from: number): string | undefined {
	let hasColon = false;
	for (let i = from; i < text.length; i++) {
		const byte = text[i]!;
		if (byte === QUOTE && hasColon) return stringAt(text, i, endOfString(text, i));
		if (byte === COLON && !hasColon) hasColon = true;
		else if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return undefined;
	}
	return undefined;
}

function stringAt(text: Uint8Array, start: number, end: number): string | undefined {
	const literal = UTF8.decode(text.subarray(start, end + 1));
	if (!literal.includes('\\')) return literal.slice(1, -1);
	try {
		return JSON.parse(literal) as string;
	} catch {
		return undefined;
	}
}

const UTF8 = new TextDecoder();

/** @param tokens of one JSON object. @returns `null` if a name occurs twice in it or in a nested object. */
function build(tokens: readonly string[]): JsonObject | null {
	const top: unknown[] = [];
	// An explicit stack: a token may nest values deeper than the call stack allows.
	const open: (JsonObject | unknown[])[] = [top];
	let name: string | undefined;
	for (const token of tokens) {
		const parent = open.at(-1)!;
		if (token === '}' || token === ']') {
			open.pop();
		} else if (name === undefined && !Array.isArray(parent)) {
			name = token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1);
			if (Object.hasOwn(parent, name)) return null;
		} else {
			const value: unknown = token === '{' ? {} : token === '[' ? [] : JSON.parse(token);
			if (Array.isArray(parent)) parent.push(value);
			else addMember(parent, name!, value);
			name = undefined;
			if (typeof value === 'object' && value !== null) open.push(value as JsonObject | unknown[]);
		}
	}
	return top[0] as JsonObject;
}

function addMember(object: JsonObject, name: string, value: unknown): void {
	// Assigning to `__proto__` would not create a member.
	if (name !== '__proto__') object[name] = value;
	else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

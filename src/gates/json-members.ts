/**
 * `JSON.parse` keeps the last of two members with one name and says nothing; another reader may keep the first. RFC 7519
 * section 4 lets us refuse such a token, and an identity that two readers see differently is worth refusing.
 *
 * Nor is a name always what `JSON.parse` says: V8 12.8 to 14.6 (Node 24 and 26) can give one that is spelled with an escape
 * the name of a member that the thread has parsed before, be it of another tenant's token (nodejs/node#63785).
 */

type JsonObject = Record<string, unknown>;

/** What matters of a text that is JSON: strings, brackets, and numbers or words. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]|[^\s,:{}[\]"]+/g;

/**
 * Parses a JSON object whose member names are unique at every depth.
 *
 * @returns the object; `null` where a name comes twice; `undefined` where it is no JSON, or no object at the top.
 */
export function parseUniqueObject(text: string): JsonObject | null | undefined {
	try {
		// For its judgement only.
		JSON.parse(text);
	} catch {
		return undefined;
	}
	const tokens = text.match(TOKENS)!;
	return tokens[0] === '{' ? build(tokens) : undefined;
}

/** @param tokens of one JSON object. @returns `null` if a name comes twice in it or in an object inside. */
function build(tokens: readonly string[]): JsonObject | null {
	const top: unknown[] = [];
	// A stack of our own: a token may nest values deeper than calls can be nested.
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
	// An assignment to `__proto__` would make no member.
	if (name !== '__proto__') object[name] = value;
	else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

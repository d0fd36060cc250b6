/** Shows values in messages to the operator: short, on one line, and with the type if that matters. */

const MAX_SHOWN = 80;

/** Quoted as TOML and JSON would quote it, so that blanks and control characters can be seen; long texts are cut. */
export function quote(text: string): string {
	// Cut on code points: half a surrogate pair is not a character.
	const shown = text.length <= MAX_SHOWN ? text : `${Array.from(text).slice(0, MAX_SHOWN).join('')}…`;
	return JSON.stringify(shown).replace(/[\x7f-\x9f\u2028\u2029]/g, escapeCharacter);
}

/** A value as the file has it; a symbol describes a value that no key takes. */
export function show(value: unknown): string {
	if (typeof value === 'string') return quote(value);
	if (Array.isArray(value)) return 'an array';
	if (typeof value === 'symbol') return value.description!;
	if (typeof value === 'object' && value !== null) return 'a table';
	return String(value);
}

/** The value with the name of its type, to make a wrong type visible: `the string "5"`. */
export function showWithType(value: unknown): string {
	const type = typeof value;
	return type === 'string' || type === 'number' || type === 'boolean' ? `the ${type} ${show(value)}` : show(value);
}

/** `1 error`, `2 errors`. */
export function plural(count: number, one: string): string {
	return `${count} ${one}${count === 1 ? '' : 's'}`;
}

export function capitalized(text: string): string {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

function escapeCharacter(character: string): string {
	return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

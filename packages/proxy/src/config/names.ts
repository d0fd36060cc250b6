/** Converts names and units of the file to those of the code. The types follow the schema by the same rules. */

/** `idle_timeout_secs` becomes `idleTimeoutMs`. */
export type Name<Key> = Key extends `${infer Head}_secs`
	? `${Name<Head>}Ms`
	: Key extends `${infer Head}_${infer Tail}`
		? `${Head}${Capitalize<Name<Tail>>}`
		: Key;

/** A value of the file with the keys of all its tables renamed. */
export type Named<Value> = Value extends readonly (infer Element)[]
	? readonly Named<Element>[]
	: Value extends object
		? { readonly [Key in keyof Value as Name<Key>]: Named<Value[Key]> }
		: Value;

/** Renames the keys of all tables in a value, and turns seconds into milliseconds. */
export function named<Value>(value: Value): Named<Value> {
	if (Array.isArray(value)) return value.map(named) as Named<Value>;
	if (typeof value !== 'object' || value === null) return value as Named<Value>;
	const entries = Object.entries(value).map(([key, part]) => {
		const name = key.replace(/_secs$/, '_ms').replace(/_(.)/g, (_, first: string) => first.toUpperCase());
		return [name, key.endsWith('_secs') && typeof part === 'number' ? milliseconds(part) : named(part)];
	});
	return Object.fromEntries(entries);
}

/** Whole milliseconds. Only 0 becomes 0: to Node's timers it means "no limit" in some places and "at once" in others. */
function milliseconds(seconds: number): number {
	return seconds === 0 ? 0 : Math.max(1, Math.round(seconds * 1000));
}

import { describeConfig, type JsonSchema, SCHEMA_LINE, tableOf } from '../../config/json-schema.ts';
import { KEYS } from '../../config/schema.ts';
import { quote } from '../../config/wording.ts';

/** The keys that the sample sets, by table. */
export type SampleValues = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Lines are as long as those of the code. */
const COLUMNS = 100;
/** Tables of which a file may have many, or none: the sample only points at them. */
const MENTIONED = new Set(['issuers', 'tenants']);

/**
 * A `config.toml` with every key: those of `values` set, and the others as comments that show their defaults. Meanings and
 * defaults are those of the configuration's schema.
 *
 * @param intro lines above it all, without `#`.
 */
export function sampleConfig(intro: readonly string[], values: SampleValues): string {
	const schema = describeConfig();
	const tables = [...KEYS].map(([name, keys]) =>
		MENTIONED.has(name) ? mention(name, schema) : table(name, keys, schema, values[name] ?? {}),
	);
	return [SCHEMA_LINE, ...intro.map((line) => `# ${line}`), '', ...tables.flat()].join('\n');
}

function mention(name: string, schema: JsonSchema): string[] {
	return [...comment(`[[${name}]] ${tableOf(schema, name).description}.`), ''];
}

function table(
	name: string,
	keys: readonly string[],
	schema: JsonSchema,
	values: Readonly<Record<string, string>>,
): string[] {
	const { properties = {} } = tableOf(schema, name);
	const isList = name !== '' && (schema.properties![name] as JsonSchema).type === 'array';
	const header = isList ? `[[${name}]]` : `[${name}]`;
	const own = keys.filter((key) => name !== '' || !KEYS.has(key));
	// What is set comes first.
	const ordered = [...own.filter((key) => key in values), ...own.filter((key) => !(key in values))];
	return [
		...(name === '' ? [] : [header]),
		...ordered.flatMap((key) => [...entry(key, properties[key] as JsonSchema, values[key]), '']),
	];
}

function entry(
	key: string,
	{ description, default: fallback, unset }: JsonSchema,
	value: string | undefined,
): string[] {
	const meaning = sentence(description!);
	if (value !== undefined) return [...comment(meaning), `${key} = ${quote(value)}`];
	if (fallback === undefined) return [...comment(`${meaning} Left out: ${unset}.`), `# ${key} =`];
	return [...comment(meaning), `# ${key} = ${JSON.stringify(fallback)}`];
}

function sentence(text: string): string {
	return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function comment(text: string): string[] {
	const lines: string[] = [];
	for (const word of text.split(' ')) {
		const last = lines.at(-1);
		if (last !== undefined && last.length + 1 + word.length <= COLUMNS) lines[lines.length - 1] = `${last} ${word}`;
		else lines.push(`# ${word}`);
	}
	return lines;
}

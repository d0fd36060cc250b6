import { describeConfig, type JsonSchema, SCHEMA_LINE, tableOf } from '../../config/json-schema.ts';
import { KEYS, TABLES } from '../../config/schema.ts';
import { capitalized, quote } from '../../config/wording.ts';

/** The keys that the sample sets, by table. */
type SampleValues = Readonly<Record<string, Readonly<Record<string, string | number>>>>;

/** Lines are as long as those of the code. */
const COLUMNS = 100;
/**
 * A `config.toml` with every key: those of `values` set, and the others as comments that show their defaults. Meanings and
 * defaults are those of the configuration's schema.
 *
 * @param intro lines at the top, without `#`.
 */
export function sampleConfig(intro: readonly string[], values: SampleValues): string {
	const schema = describeConfig();
	const tables = [...KEYS]
		.filter(([name]) => !name.includes('.'))
		.map(([name, keys]) =>
			canBeEmpty(name, schema) || name in values
				? table(name, keys, schema, values[name] ?? {})
				: mention(name, schema),
		);
	return [SCHEMA_LINE, ...intro.map((line) => `# ${line}`), '', ...tables.flat()].join('\n');
}

/** Whether a table may stand empty. The sample only mentions the other tables: they are optional, but have required keys. */
function canBeEmpty(name: string, schema: JsonSchema): boolean {
	return name === '' || (!TABLES.get(name)!.isList && tableOf(schema, name).required === undefined);
}

function mention(name: string, schema: JsonSchema): string[] {
	return [...comment(`${TABLES.get(name)!.header} ${tableOf(schema, name).description}.`), ''];
}

function table(
	name: string,
	keys: readonly string[],
	schema: JsonSchema,
	values: Readonly<Record<string, string | number>>,
): string[] {
	const { properties = {} } = tableOf(schema, name);
	const own = keys.filter((key) => name !== '' || !KEYS.has(key));
	// What is set comes first.
	const ordered = [...own.filter((key) => key in values), ...own.filter((key) => !(key in values))];
	return [
		...(name === '' ? [] : [TABLES.get(name)!.header]),
		...ordered.flatMap((key) => [...entry(key, properties[key] as JsonSchema, values[key]), '']),
	];
}

function entry(
	key: string,
	{ description, default: fallback, unset }: JsonSchema,
	value: string | number | undefined,
): string[] {
	const meaning = `${capitalized(description!)}.`;
	if (value !== undefined) return [...comment(meaning), `${key} = ${typeof value === 'string' ? quote(value) : value}`];
	if (fallback === undefined) return [...comment(`${meaning} If absent: ${unset}.`), `# ${key} =`];
	return [...comment(meaning), `# ${key} = ${JSON.stringify(fallback)}`];
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

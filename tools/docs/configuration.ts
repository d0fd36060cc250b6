import { describeConfig, isList, type JsonSchema, tableOf } from '../../src/config/json-schema.ts';
import { KEYS } from '../../src/config/schema.ts';
import { code, grouped, markdownTable } from './table.ts';

/** docs/reference/configuration.md: a heading and a table for each table of the file. */
export function configurationTables(): string {
	const schema = describeConfig();
	return Array.from(KEYS.keys(), (name) => section(name, tableOf(schema, name), isList(schema, name))).join('\n\n');
}

/** docs/how-to/troubleshooting.md: the keys that only a restart takes over, a row for each table of the file. */
export function restartKeys(): string {
	const schema = describeConfig();
	const rows = Array.from(KEYS.keys()).flatMap((name) => {
		const table = tableOf(schema, name);
		const all = Object.entries(table.properties ?? {}).filter(([key]) => name !== '' || !KEYS.has(key));
		const readAt = ([, key]: [string, unknown]) => RELOADED[String((key as JsonSchema).read ?? table.read)]!;
		const keys = all.filter((entry) => readAt(entry) !== 'yes');
		if (keys.length === 0) return [];
		const named = keys.map((entry) => code(entry[0]) + (readAt(entry) === 'no' ? '' : ' (unless `reload = true`)'));
		const listed = keys.length === all.length && name !== '' ? 'all keys' : named.join(', ');
		return [[name === '' ? 'above the first table' : code(`[${name}]`), listed]];
	});
	return markdownTable(['Table', 'Keys that need a restart'], rows);
}

function section(name: string, table: JsonSchema, isList: boolean): string {
	const heading = name === '' ? 'Above the first table' : code(isList ? `[[${name}]]` : `[${name}]`);
	const intro = table.description === undefined ? [] : [`${capitalized(table.description)}.`, ''];
	const keys = Object.entries(table.properties ?? {}).filter(([key]) => name !== '' || !KEYS.has(key));
	const rows = keys.map(([key, schema]) => row(key, schema as JsonSchema, table));
	return [`### ${heading}`, '', ...intro, markdownTable(['Key', 'Value', 'Default', 'Reloaded', 'Meaning'], rows)].join(
		'\n',
	);
}

function row(key: string, schema: JsonSchema, table: JsonSchema): string[] {
	return [
		code(key),
		values(schema),
		fallback(key, schema, table),
		RELOADED[String(schema.read ?? table.read)]!,
		schema.description!,
	];
}

const RELOADED: Readonly<Record<string, string>> = {
	undefined: 'yes',
	'by each reload': 'yes',
	'at start': 'no',
	'at start, unless `reload`': 'with `reload`',
};

function fallback(key: string, { default: value, unset }: JsonSchema, { required = [] }: JsonSchema): string {
	if (required.includes(key)) return 'required';
	if (value === '') return 'empty';
	return value === undefined ? String(unset) : code(JSON.stringify(value));
}

/** What may be written, in words. */
function values(schema: JsonSchema): string {
	const { type, anyOf, noun } = schema;
	if (schema.enum !== undefined) return schema.enum.map((value) => code(JSON.stringify(value))).join(', ');
	if (anyOf !== undefined)
		return anyOf
			.map((one) => values(one as JsonSchema))
			.join(', or a ')
			.replace('or a a', 'or a');
	switch (type) {
		case 'boolean':
			return '`true`, `false`';
		case 'integer':
			return `whole number${noun === undefined ? '' : ` of ${noun}`}, ${grouped(schema.minimum!)} to ${grouped(schema.maximum!)}`;
		case 'number':
			return schema.minimum === undefined
				? `${noun}, above 0, at most ${grouped(schema.maximum!)}`
				: `${noun}, ${grouped(schema.minimum)} to ${grouped(schema.maximum!)}`;
		case 'array':
			return listOf(schema.items as JsonSchema);
		case 'object':
			return 'table';
		default:
			return String(noun ?? 'text');
	}
}

function listOf(items: JsonSchema): string {
	if (items.enum !== undefined) return `list of ${values(items)}`;
	if (items.type === 'number') return `list of seconds, each above 0, at most ${grouped(items.maximum!)}`;
	if (items.anyOf !== undefined) return 'list of texts or tables';
	return `list of ${LISTED[String(items.noun)] ?? 'texts'}`;
}

const LISTED: Readonly<Record<string, string>> = {
	'path of a file': 'paths',
	'address or range': 'addresses and ranges',
};

function capitalized(text: string): string {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

import { describeConfig, type JsonSchema, tableOf } from '../../packages/proxy/src/config/json-schema.ts';
import { KEYS, TABLES } from '../../packages/proxy/src/config/schema.ts';
import { capitalized } from '../../packages/proxy/src/config/wording.ts';
import { EXAMPLES } from './configuration-examples.ts';
import { code, grouped, markdownTable } from './table.ts';

/** docs/reference/configuration.md: a heading for each table of the file and for each key, with an example. */
export function configurationKeys(): string {
	const schema = describeConfig();
	return Array.from(KEYS.keys(), (name) => tableSection(schema, name)).join('\n\n');
}

/** docs/how-to/troubleshooting.md: the keys that only a restart takes over, a row for each table of the file. */
export function restartKeys(): string {
	const schema = describeConfig();
	const rows = Array.from(KEYS.keys()).flatMap((name) => {
		const table = tableOf(schema, name);
		const all = keysOf(schema, name);
		const readAt = ([, { read = table.read }]: Entry) => RELOADED[String(read)]!;
		const keys = all.filter((entry) => readAt(entry) !== RELOADED.undefined);
		if (keys.length === 0) return [];
		const named = keys.map((entry) => {
			return code(entry[0]) + (readAt(entry) === RELOADED['at startup'] ? '' : ' (unless `reload = true`)');
		});
		const listed = keys.length === all.length && name !== '' ? 'all keys' : named.join(', ');
		return [[name === '' ? 'above the first table' : code(`[${name}]`), listed]];
	});
	return markdownTable(['Table', 'Keys that need a restart'], rows);
}

type Entry = readonly [key: string, schema: JsonSchema];

function keysOf(schema: JsonSchema, name: string): Entry[] {
	const entries = Object.entries(tableOf(schema, name).properties ?? {}) as Entry[];
	return entries.filter(([key]) => name !== '' || !KEYS.has(key));
}

/** One table of the file. A key that the file's top explains is a link to that place. */
function tableSection(schema: JsonSchema, name: string): string {
	const table = tableOf(schema, name);
	const entries = keysOf(schema, name);
	const placed = entries.map(([key, one]) => ({ key, one, place: placeOf(schema, name, key) }));
	const own = placed.filter(({ place }) => place === name);
	const shared = placed.filter(({ place }) => place !== name);
	const links = (some: typeof placed) => some.map(({ key, place }) => keyLink(place, key)).join(', ');
	return [
		`### ${name === '' ? 'Above the first table' : code(TABLES.get(name)!.header)}`,
		...(table.description === undefined ? [] : [`${capitalized(table.description)}.`]),
		`Keys: ${links(own)}.`,
		...(shared.length === 0
			? []
			: [
					`Keys at the top of the file that you can also set here: ${links(shared)}. A key that is not set here has the value at the top.`,
				]),
		...own.map(({ key, one }) => keySection(name, key, one, table)),
	].join('\n\n');
}

/** The table under which a key is explained: the file's top where that has the same key with the same values and meaning. */
function placeOf(schema: JsonSchema, name: string, key: string): string {
	const one = tableOf(schema, name).properties![key] as JsonSchema;
	const isSame = ([its, other]: Entry) =>
		its === key && values(other) === values(one) && one.description!.startsWith(other.description!);
	return keysOf(schema, '').some(isSame) ? '' : name;
}

function keyLink(table: string, key: string): string {
	return `[${code(key)}](#${qualified(table, key).replaceAll('.', '')})`;
}

/** The key as messages name it. */
function qualified(table: string, key: string): string {
	return table === '' ? key : `${table}.${key}`;
}

function keySection(name: string, key: string, one: JsonSchema, table: JsonSchema): string {
	const path = qualified(name, key);
	const example = EXAMPLES[path];
	if (example === undefined) throw new Error(`tools/docs/configuration-examples.ts lacks ${path}`);
	const facts = [
		capitalized(values(one)),
		defaultOf(key, one, table),
		RELOADED[String(one.read ?? table.read)]!,
		`Since ${one.since ?? FIRST_RELEASE}`,
	];
	return [
		`#### ${code(path)}`,
		`${capitalized(one.description!)}.`,
		`- Example: ${code(`${key} = ${example}`)}\n- ${facts.join('. ')}.`,
	].join('\n\n');
}

const FIRST_RELEASE = '0.1.0';

const RELOADED: Readonly<Record<string, string>> = {
	undefined: 'A reload applies it',
	'by each reload': 'A reload applies it',
	'at startup': 'A change needs a restart',
	'at startup, unless `reload`': 'A change needs a restart, unless `jwt.reload = true`',
};

function defaultOf(key: string, { default: value, unset }: JsonSchema, { required = [] }: JsonSchema): string {
	if (required.includes(key)) return 'Required';
	if (value === '') return 'Default: empty';
	return value === undefined ? `Default: ${unset}` : `Default: ${code(JSON.stringify(value))}`;
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
			return String(noun ?? 'string');
	}
}

function listOf(items: JsonSchema): string {
	if (items.enum !== undefined) return `list of ${values(items)}`;
	if (items.type === 'integer')
		return `list of whole numbers, each ${grouped(items.minimum!)} to ${grouped(items.maximum!)}`;
	if (items.type === 'number') return `list of seconds, each above 0, at most ${grouped(items.maximum!)}`;
	if (items.anyOf !== undefined) return 'list of strings or tables';
	return `list of ${LISTED[String(items.noun)] ?? 'strings'}`;
}

const LISTED: Readonly<Record<string, string>> = {
	'path of a file': 'paths',
	'address or range': 'addresses and ranges',
};

import { suggest } from '@mtls-edge-proxy/gate/words/suggest.ts';
import { z } from 'zod';
import { type ConfigProblem, problemAt } from './error.ts';
import { withoutWrappers } from './tables/kinds.ts';
import { formatKey, type TomlDocument, type TomlPath } from './toml.ts';
import { unitOf } from './units.ts';
import { quote } from './wording.ts';

/** The tables of a file by name (`upstreams.tls`), in the order of the schema; `''`: the keys above the first table. */
type Tables = ReadonlyMap<string, Table>;

interface Table {
	readonly keys: readonly string[];
	/** Whether it may occur more than once. */
	readonly isList: boolean;
	/** `[tls]`, `[[routes]]`. */
	readonly header: string;
}

export function tablesIn(schema: z.core.$ZodType): Tables {
	return new Map(namedTables(schema, ''));
}

function* namedTables(schema: z.core.$ZodType, name: string): Generator<[string, Table]> {
	const { type } = withoutWrappers(schema);
	const table = type instanceof z.ZodArray ? type.element : type;
	if (!(table instanceof z.ZodObject)) return;
	const isList = table !== type;
	yield [name, { keys: Object.keys(table.shape), isList, header: isList ? `[[${name}]]` : `[${name}]` }];
	for (const [key, part] of Object.entries(table.shape)) yield* namedTables(part, name === '' ? key : `${name}.${key}`);
}

/** Turns the schema's issues into problems with their lines. @param tables those of the schema. */
export function diagnose(
	{ root, lines }: TomlDocument,
	issues: readonly z.core.$ZodIssue[],
	tables: Tables,
): ConfigProblem[] {
	const wrongType = new Set(issues.flatMap(({ code, path }) => (code === 'invalid_type' ? [path.join('.')] : [])));
	return issues.flatMap((issue) => {
		const path = issue.path as TomlPath;
		// Zod also measures an empty list where it wants a string, and the reverse.
		if (issue.code === 'too_small' && wrongType.has(path.join('.'))) return [];
		const at = (key: TomlPath, message: string) => problemAt(lines, formatKey(key), message + routeOf(root, key));
		if (issue.code === 'unrecognized_keys') {
			return issue.keys.map((key) => at([...path, key], `unknown key; ${wrongKey(tables, path, key)}`));
		}
		const unit = typeof issue.input === 'string' ? unitOf(path.at(-1)) : undefined;
		return [at(path, unit === undefined ? issue.message : `${issue.message}; ${unit.hint}`)];
	});
}

/** The route's prefix, for messages: easier to find by eye than a position in a list. */
function routeOf({ routes }: TomlDocument['root'], [list, i, key]: TomlPath): string {
	if (list !== 'routes' || typeof i !== 'number' || key === 'prefix') return '';
	const prefix = (routes as { prefix?: unknown }[])[i]?.prefix;
	return typeof prefix === 'string' ? ` [route ${quote(prefix)}]` : '';
}

/** The remedy for an unknown key. */
function wrongKey(tables: Tables, path: TomlPath, key: string): string {
	const name = path.filter((part) => typeof part === 'string').join('.');
	const { keys: known = [], header = `[${name}]` } = tables.get(name) ?? {};
	// In TOML a key belongs to the last header above it: a key of the top level, written at the end of the file, lands
	// in the wrong table, and so does a key without its table. [routes.tls] means the table of upstreams.
	const isNested = key === 'tls' && path.length > 0;
	const [home, itsTable] = [...tables].find(([one, { keys }]) => keys.includes(key) && !(isNested && one === '')) ?? [];
	if (itsTable !== undefined) return `it belongs ${home === '' ? 'above the first table' : `in ${itsTable.header}`}`;
	const meant = suggest(key, known);
	if (meant !== undefined) return `did you mean ${meant}?`;
	return `${name === '' ? 'the file' : header} may have ${known.join(', ')}`;
}

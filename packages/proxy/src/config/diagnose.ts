import { suggest } from '@mtls-edge-proxy/gate/words/suggest.ts';
import type { z } from 'zod';
import { type ConfigProblem, problemAt } from './error.ts';
import { formatKey, type TomlDocument, type TomlPath } from './toml.ts';
import { unitOf } from './units.ts';
import { quote } from './wording.ts';

/** The keys of each table, by the table's name; `''` for the keys above the first table. */
type KnownKeys = ReadonlyMap<string, readonly string[]>;

/**
 * Turns the schema's issues into problems with their lines.
 *
 * @param unknownKey words for a key that the schema does not have.
 */
export function diagnose(
	{ root, lines }: TomlDocument,
	issues: readonly z.core.$ZodIssue[],
	unknownKey: (path: TomlPath, key: string) => string,
): ConfigProblem[] {
	const wrongType = new Set(issues.flatMap(({ code, path }) => (code === 'invalid_type' ? [path.join('.')] : [])));
	return issues.flatMap((issue) => {
		const path = issue.path as TomlPath;
		// Zod also measures an empty list where it wants a string, and the reverse.
		if (issue.code === 'too_small' && wrongType.has(path.join('.'))) return [];
		const at = (key: TomlPath, message: string) => problemAt(lines, formatKey(key), message + routeOf(root, key));
		if (issue.code === 'unrecognized_keys') {
			return issue.keys.map((key) => at([...path, key], `unknown key; ${unknownKey(path, key)}`));
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

/** The remedy for an unknown key in a file with several tables. @param lists tables that may occur more than once. */
export function wrongKey(tables: KnownKeys, lists: ReadonlySet<string>, path: TomlPath, key: string): string {
	const header = (table: string) => (lists.has(table) ? `[[${table}]]` : `[${table}]`);
	const table = path.filter((part) => typeof part === 'string').join('.');
	const known = tables.get(table) ?? [];
	// In TOML a key belongs to the last header above it: a key of the top level, written at the end of the file, lands
	// in the wrong table, and so does a key without its table. [routes.tls] means the table of upstreams.
	const isNested = key === 'tls' && path.length > 0;
	const home = [...tables].find(([name, keys]) => keys.includes(key) && !(isNested && name === ''))?.[0];
	if (home !== undefined) return `it belongs ${home === '' ? 'above the first table' : `in ${header(home)}`}`;
	const meant = suggest(key, known);
	if (meant !== undefined) return `did you mean ${meant}?`;
	return `${table === '' ? 'the file' : header(table)} may have ${known.join(', ')}`;
}

import type { z } from 'zod';
import { suggest } from '../shared/suggest.ts';
import type { ConfigProblem } from './error.ts';
import { KEYS } from './schema.ts';
import type { TomlDocument, TomlPath } from './toml.ts';
import { unitOf } from './units.ts';
import { quote } from './wording.ts';

/** Turns what the schema found into problems with their lines. */
export function diagnose(document: TomlDocument, issues: readonly z.core.$ZodIssue[]): ConfigProblem[] {
	return issues.flatMap((issue) => {
		const path = issue.path as TomlPath;
		if (issue.code !== 'unrecognized_keys') {
			const unit = typeof issue.input === 'string' ? unitOf(path.at(-1)) : undefined;
			return [problemAt(document, path, unit === undefined ? issue.message : `${issue.message}; ${unit.hint}`)];
		}
		return issue.keys.map((key) => problemAt(document, [...path, key], unknownKey(path, key)));
	});
}

/** A missing key has no line; then the table that lacks it is to blame, if the file has that. */
function problemAt(document: TomlDocument, path: TomlPath, message: string): ConfigProblem {
	const line = document.lineOf(path) ?? document.lineOf(path.slice(0, -1));
	const [list, i, key] = path;
	const prefix = list === 'routes' && typeof i === 'number' && key !== 'prefix' ? prefixOf(document, i) : undefined;
	return {
		...(line !== undefined && { line }),
		key: formatKey(path),
		// A position in a list is hard to find by eye, a prefix is not.
		message: prefix === undefined ? message : `${message} [route ${quote(prefix)}]`,
	};
}

function prefixOf(document: TomlDocument, i: number): string | undefined {
	const prefix = (document.root.routes as { prefix?: unknown }[])[i]?.prefix;
	return typeof prefix === 'string' ? prefix : undefined;
}

function unknownKey(path: TomlPath, key: string): string {
	const table = path.filter((part) => typeof part === 'string').join('.');
	const known = KEYS.get(table) ?? [];
	// In TOML a key belongs to the last header above it: a key of the top level, written at the end of the file, lands
	// in the wrong table, and so does one that was given no table at all.
	// A table of a route, [routes.tls], is no key from above the first table: one of upstreams is meant.
	const isNested = key === 'tls' && path.length > 0;
	const home = [...KEYS].find(([name, keys]) => keys.includes(key) && !(isNested && name === ''))?.[0];
	if (home !== undefined)
		return `unknown key; it belongs ${home === '' ? 'above the first table' : `in ${header(home)}`}`;
	const meant = suggest(key, known);
	if (meant !== undefined) return `unknown key; did you mean ${meant}?`;
	return `unknown key; ${table === '' ? 'the file' : header(table)} may have ${known.join(', ')}`;
}

function header(table: string): string {
	return LISTS.has(table) ? `[[${table}]]` : `[${table}]`;
}

/** The tables that a file may have several of. */
const LISTS: ReadonlySet<string> = new Set(['routes', 'issuers', 'tenants', 'upstreams']);

/** The line of each key, for what is judged later on: `lines['tls.key_path']`. */
export function linesByKey(document: TomlDocument): Record<string, number> {
	return Object.fromEntries(Array.from(document.entries(), ([path, line]) => [formatKey(path), line]));
}

/** `routes[2].cooldown_secs`, as one would say it in most languages; positions are counted from 0. */
function formatKey(path: TomlPath): string {
	return path
		.map((part) => {
			if (typeof part === 'number') return `[${part}]`;
			return `.${/^[\w-]+$/.test(part) ? part : quote(part)}`;
		})
		.join('')
		.replace(/^\./, '');
}

import type { ConfigProblem } from './error.ts';
import type { TomlDocument } from './toml.ts';
import { quote } from './wording.ts';

/** For what is looked for apart from the schema: the tables of a list, whatever stands in them. */
export function tablesOf({ root }: TomlDocument, list: string): Record<string, unknown>[] {
	const tables = root[list];
	return Array.isArray(tables) ? tables.map((table) => (typeof table === 'object' && table !== null ? table : {})) : [];
}

/** A key that is missing has no line; then its table has. */
export function problemIn(
	document: TomlDocument,
	list: string,
	i: number,
	key: string,
	message: string,
): ConfigProblem[] {
	const line = document.lineOf([list, i, key]) ?? document.lineOf([list, i]);
	return [{ ...(line !== undefined && { line }), key: `${list}[${i}].${key}`, message }];
}

/** Tables of a list that have a name which another one has before them. */
export function duplicateNames(document: TomlDocument, list: string): ConfigProblem[] {
	const first = new Map<unknown, number>();
	return tablesOf(document, list).flatMap(({ name }, i) => {
		if (typeof name !== 'string') return [];
		const taken = first.get(name);
		if (taken === undefined) {
			first.set(name, i);
			return [];
		}
		const other = `${list}[${taken}] on line ${document.lineOf([list, taken, 'name'])}`;
		return problemIn(
			document,
			list,
			i,
			'name',
			`${quote(name)} is already the name of ${other}; remove one of the two`,
		);
	});
}

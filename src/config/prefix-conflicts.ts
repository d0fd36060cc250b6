import { prefixConflicts as conflictsOf } from '../gates/routes.ts';
import type { ConfigProblem } from './error.ts';
import { prefixProblem } from './prefix.ts';
import { problemIn, tablesOf } from './table-problems.ts';
import type { TomlDocument } from './toml.ts';
import { quote } from './wording.ts';

/**
 * Routes with one prefix, as it is written or by another reading: `/a` and `/%61`, `/a;v=1` and `/a`. Apart from the schema, which
 * looks at a list as a whole only once every element is right: all problems are to be reported at once.
 */
export function prefixConflicts(document: TomlDocument): ConfigProblem[] {
	const routes = tablesOf(document, 'routes').flatMap(({ prefix, case_insensitive }, i) =>
		typeof prefix === 'string' ? [{ prefix, i, caseInsensitive: case_insensitive === true }] : [],
	);
	const first = new Map<string, (typeof routes)[number]>();
	for (const route of routes) if (!first.has(route.prefix)) first.set(route.prefix, route);
	const lineOf = (i: number) => document.lineOf(['routes', i, 'prefix']);
	const duplicates = routes.flatMap(({ prefix, i }) => {
		const taken = first.get(prefix)!.i;
		const message = `${quote(prefix)} is already the prefix of routes[${taken}] on line ${lineOf(taken)}; remove one of the two`;
		return taken === i ? [] : problemIn(document, 'routes', i, 'prefix', message);
	});
	const distinct = [...first.values()].filter(({ prefix }) => prefixProblem(prefix) === undefined);
	const ambiguous = conflictsOf(distinct).flatMap(({ route, other, reading }) => {
		const which = `routes[${other.i}] on line ${lineOf(other.i)}`;
		const message =
			`${quote(route.prefix)} and ${quote(other.prefix)}, the prefix of ${which}, are the same path ${quote(reading)} to ` +
			'some upstreams, so every request for it would be refused; remove one of the two, or write both without escapes, ' +
			'path parameters and empty segments, and in the same letter case';
		return problemIn(document, 'routes', route.i, 'prefix', message);
	});
	return [...duplicates, ...ambiguous];
}

import { fitOf } from '../gates/routes.ts';
import { withoutSlash } from '../gates/strip-prefix.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
import type { ConfigProblem } from './error.ts';
import { problemIn, tablesOf } from './table-problems.ts';
import type { TomlDocument } from './toml.ts';
import { parseUpstream } from './upstream.ts';
import { quote } from './wording.ts';

/**
 * Routes with `strip_prefix` that would open to everybody what another route to the same upstream keeps for some: `/api/admin`
 * goes out as `/admin`, and the rules of the route `/admin` are not asked. The upstream cannot tell the two apart.
 */
export function stripConflicts(document: TomlDocument): ConfigProblem[] {
	const routes = tablesOf(document, 'routes').flatMap((table, i) => routeOf(table, i) ?? []);
	const neighbours = Map.groupBy(routes, ({ upstream }) => upstream);
	return routes.filter(cuts).flatMap((route) =>
		neighbours.get(route.upstream)!.flatMap((other) => {
			if (other === route || isAsStrict(route.access, other.access)) return [];
			const path = withoutSlash(route.prefix) + other.prefix;
			if (!cuts(other) && longestMatch(routes, path) !== route) return [];
			const rules = Object.keys(other.access).filter((rule) => other.access[rule as keyof Access] !== undefined);
			const line = document.lineOf(['routes', other.i]);
			const what = cuts(other)
				? 'the same paths of the upstream'
				: `${quote(other.prefix)} of the upstream, by ${quote(path)},`;
			const remedy = cuts(other)
				? 'give both the same rules'
				: `give both the same rules, or write a route ${quote(path)} with those of routes[${other.i}]`;
			const message =
				`opens ${what} to callers whom routes[${other.i}] on line ${line} refuses by ${rules.join(', ')}; ${remedy}, or ` +
				'give one of them another upstream';
			return problemIn(document, 'routes', route.i, 'strip_prefix', message);
		}),
	);
}

/** The rules of a route that it has; those of which something else is wrong count as none. */
type Access = { readonly [Rule in keyof RouteAccessSeed]?: readonly unknown[] | undefined };

interface StrippableRoute {
	readonly i: number;
	readonly prefix: string;
	/** Two routes with the same one lead to the same place. */
	readonly upstream: string;
	readonly strips: boolean;
	readonly access: Access;
}

function routeOf(table: Readonly<Record<string, unknown>>, i: number): StrippableRoute | undefined {
	const { prefix, upstream, strip_prefix: strips } = table;
	if (typeof prefix !== 'string' || typeof upstream !== 'string') return undefined;
	const address = parseUpstream(upstream);
	const listOf = (key: string) => (Array.isArray(table[key]) ? (table[key] as unknown[]) : undefined);
	const access = Object.fromEntries(['allow', 'deny', 'tenants', 'scopes'].map((key) => [key, listOf(key)]));
	const place = typeof address === 'string' ? upstream : address.authority;
	return { i, prefix, upstream: place, strips: strips === true, access };
}

/** Of the prefix `/` nothing is left to cut. */
function cuts({ prefix, strips }: StrippableRoute): boolean {
	return strips && withoutSlash(prefix) !== '';
}

function longestMatch(routes: readonly StrippableRoute[], path: string): StrippableRoute | undefined {
	const matching = routes.filter(({ prefix }) => fitOf(prefix, path) === 'matches');
	return matching.sort((a, b) => b.prefix.length - a.prefix.length)[0];
}

/** Whether all whom `ours` lets in are let in by `theirs`, too. Rules about names are compared as a whole: which certificates leave a doubt depends on all of them. */
export function isAsStrict(ours: Access, theirs: Access): boolean {
	const within = (few: readonly unknown[] = [], many: readonly unknown[] = []) =>
		few.every((one) => many.includes(one));
	const areEqual = (key: 'allow' | 'deny') =>
		(ours[key] === undefined) === (theirs[key] === undefined) &&
		within(ours[key], theirs[key]) &&
		within(theirs[key], ours[key]);
	const hasNames = theirs.allow !== undefined || theirs.deny !== undefined;
	return (
		(!hasNames || (areEqual('allow') && areEqual('deny'))) &&
		(theirs.tenants === undefined || (ours.tenants !== undefined && within(ours.tenants, theirs.tenants))) &&
		within(theirs.scopes, ours.scopes)
	);
}

import { PrefixTable } from '../gates/prefix-table.ts';
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
	const groups = groupsOf(document);
	const routes = tablesOf(document, 'routes').flatMap((table, i) => routeOf(table, i, groups) ?? []);
	const byPlace = new Map<string, StrippableRoute[]>();
	for (const route of routes) {
		for (const place of route.places) {
			const there = byPlace.get(place);
			if (there === undefined) byPlace.set(place, [route]);
			else there.push(route);
		}
	}
	// Two routes with one prefix are reported by others.
	const table = new PrefixTable(routes.map((route) => [route.prefix, route]));
	const neighboursOf = ({ places }: StrippableRoute) => new Set(places.flatMap((place) => byPlace.get(place)!));
	return routes.filter(cuts).flatMap((route) =>
		[...neighboursOf(route)].flatMap((other) => {
			if (other === route || isAsStrict(route.access, other.access)) return [];
			const path = withoutSlash(route.prefix) + other.prefix;
			const keeper = table.longest(path)?.route;
			// A route that tells letter case apart keeps only its own spelling of what the upstream serves in any.
			const isKept = keeper !== route && (keeper?.ignoresCase || !other.ignoresCase);
			if (!cuts(other) && isKept) return [];
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
	/** Two routes with one of them in common may lead to the same server. */
	readonly places: readonly string[];
	readonly strips: boolean;
	readonly ignoresCase: boolean;
	readonly access: Access;
}

/** Where the `[[upstreams]]` lead, by name. */
function groupsOf(document: TomlDocument): ReadonlyMap<unknown, readonly string[]> {
	return new Map(
		tablesOf(document, 'upstreams').map(({ name, addresses, dns }) => {
			const list = (Array.isArray(addresses) ? addresses : [dns])
				.map((one) => (typeof one === 'object' && one !== null ? one.address : one))
				.filter((one) => typeof one === 'string');
			return [name, list.map((one) => authorityOf(`http://${one}`) ?? one)];
		}),
	);
}

function authorityOf(url: string): string | undefined {
	const address = parseUpstream(url);
	return typeof address === 'string' ? undefined : address.address.authority;
}

function routeOf(
	table: Readonly<Record<string, unknown>>,
	i: number,
	groups: ReadonlyMap<unknown, readonly string[]>,
): StrippableRoute | undefined {
	const { prefix, upstream, strip_prefix: strips, case_insensitive: ignoresCase } = table;
	if (typeof prefix !== 'string' || typeof upstream !== 'string') return undefined;
	const authority = authorityOf(upstream);
	const places = authority === undefined ? [upstream, ...(groups.get(upstream) ?? [])] : [authority];
	const listOf = (key: string) => (Array.isArray(table[key]) ? (table[key] as unknown[]) : undefined);
	const access = Object.fromEntries(['allow', 'deny', 'tenants', 'scopes'].map((key) => [key, listOf(key)]));
	return { i, prefix, places, strips: strips === true, ignoresCase: ignoresCase === true, access };
}

/** Of the prefix `/` nothing is left to cut. */
function cuts({ prefix, strips }: StrippableRoute): boolean {
	return strips && withoutSlash(prefix) !== '';
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

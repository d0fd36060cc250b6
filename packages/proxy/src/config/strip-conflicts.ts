import { PrefixTable } from '../gates/prefix-table.ts';
import { withoutSlash } from '../gates/strip-prefix.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
import { tablesOf } from './conflicts.ts';
import { type ConfigProblem, problemAt } from './error.ts';
import type { TomlDocument, TomlTable } from './toml.ts';
import { parseUpstream } from './upstream.ts';
import { quote } from './wording.ts';

/**
 * Routes with `strip_prefix` that would open to all callers what another route to the same upstream restricts: `/api/admin`
 * goes out as `/admin`, and the rules of the route `/admin` are bypassed. The upstream cannot tell the two apart.
 */
export function stripConflicts(document: TomlDocument): ConfigProblem[] {
	const groups = groupsOf(document);
	const routes = tablesOf(document, 'routes').flatMap(({ table, key }) => routeOf(table, key, groups) ?? []);
	const byPlace = Map.groupBy(
		routes.flatMap((route) => route.places.map((place) => ({ place, route }))),
		({ place }) => place,
	);
	// Other checks report two routes with one prefix.
	const table = new PrefixTable(routes.map((route) => [route.prefix, route]));
	const neighboursOf = ({ places }: StrippableRoute) =>
		new Set(places.flatMap((place) => byPlace.get(place)!.map(({ route }) => route)));
	return routes.filter(cuts).flatMap((route) =>
		[...neighboursOf(route)].flatMap((other) => {
			if (other === route || isAsStrict(route.access, other.access)) return [];
			const path = withoutSlash(route.prefix) + other.prefix;
			const keeper = table.longest(path)?.route;
			// A case-sensitive route protects only its own spelling, while the upstream may ignore case.
			const isKept = keeper !== route && (keeper?.ignoresCase || !other.ignoresCase);
			if (!cuts(other) && isKept) return [];
			const rules = Object.keys(other.access);
			const line = document.lines[other.key];
			const what = cuts(other)
				? 'the same paths of the upstream'
				: `${quote(other.prefix)} of the upstream, through ${quote(path)},`;
			const remedy = cuts(other)
				? 'give both the same rules'
				: `give both the same rules, or write a route ${quote(path)} with those of ${other.key}`;
			const message =
				`opens ${what} to callers whom ${other.key} on line ${line} refuses by ${rules.join(', ')}; ${remedy}, or ` +
				'give one of them another upstream';
			return [problemAt(document.lines, `${route.key}.strip_prefix`, message)];
		}),
	);
}

/** The access rules of a route; invalid ones count as absent. */
type Access = { readonly [Rule in keyof RouteAccessSeed]?: readonly unknown[] | undefined };

interface StrippableRoute {
	readonly key: string;
	readonly prefix: string;
	/** Addresses: two routes that share one may lead to the same server. */
	readonly places: readonly string[];
	readonly strips: boolean;
	readonly ignoresCase: boolean;
	readonly access: Access;
}

/** The addresses of `[[upstreams]]`, by name. */
function groupsOf(document: TomlDocument): ReadonlyMap<unknown, readonly string[]> {
	return new Map(
		tablesOf(document, 'upstreams').map(({ table: { name, addresses, dns } }) => {
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
	table: TomlTable,
	key: string,
	groups: ReadonlyMap<unknown, readonly string[]>,
): StrippableRoute | undefined {
	const { prefix, upstream, strip_prefix: strips, case_insensitive: ignoresCase } = table;
	if (typeof prefix !== 'string' || typeof upstream !== 'string') return undefined;
	const authority = authorityOf(upstream);
	const places = authority === undefined ? [upstream, ...(groups.get(upstream) ?? [])] : [authority];
	const rules = ['allow', 'deny', 'tenants', 'scopes'].map((rule) => [rule, table[rule]] as const);
	const access = Object.fromEntries(rules.filter(([, names]) => Array.isArray(names)));
	return { key, prefix, places, strips: strips === true, ignoresCase: ignoresCase === true, access };
}

/** Whether something is stripped; the prefix `/` leaves nothing to strip. */
function cuts({ prefix, strips }: StrippableRoute): boolean {
	return strips && withoutSlash(prefix) !== '';
}

/**
 * Whether `theirs` admits all callers that `ours` admits. Name rules are compared as a whole: together they decide which certificates
 * are ambiguous.
 */
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

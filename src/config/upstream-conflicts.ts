import { suggest } from '../shared/suggest.ts';
import type { ConfigProblem } from './error.ts';
import { duplicateNames, problemIn, tablesOf } from './table-problems.ts';
import { upstreamKeys } from './tables/upstream-keys.ts';
import { GROUP_NAME } from './tables/upstreams.ts';
import type { TomlDocument } from './toml.ts';
import { parseUpstream } from './upstream.ts';
import { quote, show } from './wording.ts';

/**
 * What is wrong with upstreams beyond a single key. Routes that lead to one upstream and differ in what holds for the upstream itself: there is one prober and one pool of
 * connections for it, so one of the two would not get what it says. Like two routes with one prefix, all this is looked for
 * apart from the schema, so that all problems are reported at once.
 */
export function upstreamConflicts(document: TomlDocument): ConfigProblem[] {
	return [
		...duplicateNames(document, 'upstreams'),
		...sources(document),
		...idleQueues(document),
		...unknownGroups(document),
		...differentRoutes(document),
	];
}

/** Where the addresses come from: one of two. */
function sources(document: TomlDocument): ConfigProblem[] {
	return tablesOf(document, 'upstreams').flatMap((table, i) => {
		const problem = (key: string, message: string) => problemIn(document, 'upstreams', i, key, message);
		if ('addresses' in table && 'dns' in table) return problem('dns', 'stands beside addresses; keep one of the two');
		if (!('addresses' in table || 'dns' in table)) {
			return problem('addresses', 'is missing; set it to a list of addresses, or set dns to a name that has them');
		}
		if ('dns' in table) return [];
		return ['dns_refresh_secs', 'dns_server'].flatMap((key) =>
			key in table ? problem(key, 'is for dns, and there is none; set dns, or leave it out') : [],
		);
	});
}

/** A queue for nothing. */
function idleQueues(document: TomlDocument): ConfigProblem[] {
	return tablesOf(document, 'upstreams').flatMap((table, i) => {
		if ('max_requests' in table || 'max_connections' in table) return [];
		const message =
			'is for what is over max_requests or max_connections, and there is neither; set one, or leave it out';
		return ['queue', 'queue_timeout_secs'].flatMap((key) =>
			key in table ? problemIn(document, 'upstreams', i, key, message) : [],
		);
	});
}

/** Names that nobody has, and keys that stand beside a name: they belong to the table that is named. */
function unknownGroups(document: TomlDocument): ConfigProblem[] {
	const names = tablesOf(document, 'upstreams').flatMap(({ name }) => (typeof name === 'string' ? name : []));
	return tablesOf(document, 'routes').flatMap((route, i) => {
		const { upstream } = route;
		if (typeof upstream !== 'string' || !GROUP_NAME.test(upstream)) return [];
		if (!names.includes(upstream)) {
			const meant = suggest(upstream, names);
			const remedy =
				meant === undefined ? `write one, or "http://${upstream}" for an address` : `did you mean ${quote(meant)}?`;
			return problemIn(
				document,
				'routes',
				i,
				'upstream',
				`there is no [[upstreams]] with the name ${quote(upstream)}; ${remedy}`,
			);
		}
		return Object.keys(upstreamKeys).flatMap((key) => {
			if (!(key in route)) return [];
			const where = `[[upstreams]] ${quote(upstream)}`;
			return problemIn(document, 'routes', i, key, `holds for all that lead to ${where}; move it there`);
		});
	});
}

function differentRoutes(document: TomlDocument): ConfigProblem[] {
	const { routes } = document.root;
	if (!Array.isArray(routes)) return [];
	const problems: ConfigProblem[] = [];
	const first = new Map<string, number>();
	for (const [i, route] of routes.entries()) {
		const authority = authorityOf(route);
		if (authority === undefined) continue;
		const other = first.get(authority);
		if (other === undefined) {
			first.set(authority, i);
			continue;
		}
		for (const key of Object.keys(upstreamKeys) as UpstreamKey[]) {
			const [theirs, ours] = [routes[other], route].map((one) => valueFor(document, one, key));
			if (theirs === ours) continue;
			// Whichever of the two leaves the key out has no line for it, but one for its table.
			const lineOf = (n: number) => document.lineOf(['routes', n, key]) ?? document.lineOf(['routes', n]);
			const line = lineOf(i);
			problems.push({
				...(line !== undefined && { line }),
				key: `routes[${i}].${key}`,
				message:
					`is ${show(ours)} here and ${show(theirs)} for routes[${other}] on line ${lineOf(other)}, which leads to the same ` +
					`upstream ${quote(authority)}; give both routes one value, or set it at the top of the file`,
			});
		}
	}
	return problems;
}

type UpstreamKey = keyof typeof upstreamKeys;

/** What holds for the route, by the file's own words or the default. */
function valueFor({ root }: TomlDocument, route: Record<string, unknown>, key: UpstreamKey): unknown {
	return route[key] ?? root[key] ?? upstreamKeys[key].parse(undefined);
}

function authorityOf(route: unknown): string | undefined {
	if (typeof route !== 'object' || route === null || !('upstream' in route)) return undefined;
	const url = typeof route.upstream === 'string' ? parseUpstream(route.upstream) : '';
	return typeof url === 'string' ? undefined : url.address.authority;
}

import { NO_ROUTE, type Rejection } from './rejection.ts';

/**
 * Longest-prefix routing on segment boundaries (specification 2.4). Lookups touch each distinct prefix length once, so
 * neither many routes nor a long path make one dear.
 */
export class RouteTable<Route extends { readonly prefix: string }> {
	readonly #byPrefix = new Map<string, Route>();
	/** By length of their prefixes, longest first. */
	readonly #lengths: readonly (readonly Route[])[];

	/** @throws RangeError when two routes have one prefix; the configuration reports that with its lines before. */
	constructor(routes: Iterable<Route>) {
		for (const route of routes) {
			if (this.#byPrefix.has(route.prefix)) throw new RangeError(`two routes have the prefix ${route.prefix}`);
			this.#byPrefix.set(route.prefix, route);
		}
		const byLength = Map.groupBy(this.#byPrefix.values(), ({ prefix }) => prefix.length);
		this.#lengths = [...byLength].sort(([a], [b]) => b - a).map(([, routes]) => routes);
	}

	/** @param path a path without its query, begins with `/`. */
	match(path: string): Route | Rejection {
		for (const routes of this.#lengths) {
			const { length } = routes[0]!.prefix;
			if (!isBoundary(path, length)) continue;
			// To look in a map for a text that has just been cut out costs as much as some comparisons.
			const route =
				routes.length <= FEW
					? routes.find(({ prefix }) => path.startsWith(prefix))
					: this.#byPrefix.get(path.length === length ? path : path.slice(0, length));
			// The longest match is final: there is no falling through to a shorter one (specification 2.4).
			if (route !== undefined) return route;
		}
		return NO_ROUTE;
	}
}

const FEW = 8;

/** How a path stands to a route's prefix. */
export type PrefixFit = 'matches' | 'no boundary' | 'differs';

/** For whoever explains what `RouteTable.match` has chosen, and what not. */
export function fitOf(prefix: string, path: string): PrefixFit {
	if (!path.startsWith(prefix)) return 'differs';
	return isBoundary(path, prefix.length) ? 'matches' : 'no boundary';
}

/** Whether a segment ends where the first `length` characters end: `/a` matches `/a` and `/a/x`, not `/ab`. */
function isBoundary(path: string, length: number): boolean {
	return path.length === length || (path.length > length && (path[length] === '/' || path[length - 1] === '/'));
}

import { NO_ROUTE, type Rejection } from './rejection.ts';

/**
 * Longest-prefix routing on segment boundaries (specification 2.4). Lookups touch each distinct prefix length once, so
 * neither many routes nor a long path make one dear.
 */
export class RouteTable<Route extends { readonly prefix: string }> {
	readonly #byPrefix = new Map<string, Route>();
	/** Distinct prefix lengths, longest first. */
	readonly #lengths: readonly number[];

	/** @throws RangeError when two routes have one prefix; the configuration reports that with its lines before. */
	constructor(routes: Iterable<Route>) {
		for (const route of routes) {
			if (this.#byPrefix.has(route.prefix)) throw new RangeError(`two routes have the prefix ${route.prefix}`);
			this.#byPrefix.set(route.prefix, route);
		}
		this.#lengths = [...new Set([...this.#byPrefix.keys()].map((prefix) => prefix.length))].sort((a, b) => b - a);
	}

	/** @param path a path without its query, begins with `/`. */
	match(path: string): Route | Rejection {
		for (const length of this.#lengths) {
			if (!isBoundary(path, length)) continue;
			const route = this.#byPrefix.get(path.length === length ? path : path.slice(0, length));
			// The longest match is final: there is no falling through to a shorter one (specification 2.4).
			if (route !== undefined) return route;
		}
		return NO_ROUTE;
	}
}

/** Whether a segment ends where the first `length` characters end: `/a` matches `/a` and `/a/x`, not `/ab`. */
function isBoundary(path: string, length: number): boolean {
	return path.length === length || (path.length > length && (path[length] === '/' || path[length - 1] === '/'));
}

import { BAD_PATH, NO_ROUTE, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { TOO_AMBIGUOUS } from './path.ts';
import { isPlain, readingsOf } from './path-readings.ts';
import { PrefixTable } from './prefix-table.ts';

/** The part of a route that its lookup needs. */
interface Routed {
	readonly prefix: string;
	/** Its upstream ignores the letter case of paths. */
	readonly caseInsensitive?: boolean | undefined;
}

/**
 * Longest-prefix routing on segment boundaries. The path as sent decides, and every other reading of it must lead to the same
 * route. Otherwise an upstream with the other reading would serve what another route protects.
 */
export class RouteTable<Route extends Routed> {
	readonly #written: PrefixTable<Route>;
	/** By every reading of the prefixes; the same table as `#written` if there are no others. */
	readonly #read: PrefixTable<Route>;
	/** Routes whose upstreams ignore letter case. */
	readonly #folded: PrefixTable<Route> | undefined;
	/** Routes whose prefix is the beginning of another route's prefix. */
	readonly #deepened: ReadonlySet<Route>;

	/**
	 * @throws RangeError when two routes have the same prefix in any reading; the configuration has reported this earlier, with its
	 *   lines.
	 */
	constructor(routes: Iterable<Route>) {
		const list = [...routes];
		const [conflict] = prefixConflicts(list);
		if (conflict !== undefined) throw new RangeError(`two routes have the prefix ${conflict.reading}`);
		this.#written = new PrefixTable(list.map((route) => [route.prefix, route]));
		const sorted = list.toSorted((a, b) => (a.prefix < b.prefix ? -1 : 1));
		this.#deepened = new Set(sorted.filter(({ prefix }, i) => sorted[i + 1]?.prefix.startsWith(prefix)));
		const read = list.flatMap((route) => prefixReadings(route.prefix).map((reading) => [reading, route] as const));
		this.#read = read.length === list.length ? this.#written : new PrefixTable(read);
		const folded = read.filter(([, route]) => route.caseInsensitive);
		if (folded.length > 0) this.#folded = new PrefixTable(folded.map(([reading, route]) => [foldCase(reading), route]));
	}

	/** @param path a path without its query, begins with `/`. */
	match(path: string): Route | Rejection {
		const route = this.asWritten(path);
		if (route === undefined) return NO_ROUTE;
		// If the prefix has a single reading, all readings of the path begin with it: they can lead only to a longer prefix below it.
		const hasPlainPrefixes = this.#read === this.#written && this.#folded === undefined;
		if (hasPlainPrefixes && (!this.#deepened.has(route) || isPlain(path))) return route;
		return this.#refuseOther(route, path) ?? route;
	}

	/** The route of a path as it was sent, without its other readings. */
	asWritten(path: string): Route | undefined {
		return this.#written.longest(path)?.route;
	}

	/** The route of one reading of a path, in any letter case. */
	leadsTo(reading: string): Route | undefined {
		const exact = this.#read.longest(reading);
		const folded = this.#folded?.longest(foldCase(reading));
		return folded !== undefined && folded.prefix.length > (exact?.prefix.length ?? 0) ? folded.route : exact?.route;
	}

	#refuseOther(route: Route, path: string): Rejection | undefined {
		const readings = readingsOf(path);
		if (readings === undefined) return TOO_AMBIGUOUS;
		for (const reading of readings) {
			const other = this.leadsTo(reading);
			if (other !== route) return BAD_PATH.because(`leads to ${other?.prefix ?? 'no route'} by another reading`);
		}
		return undefined;
	}
}

/** Two routes that some reader cannot distinguish: every path below them would be refused. */
interface PrefixConflict<Route> {
	readonly route: Route;
	readonly other: Route;
	readonly reading: string;
}

/** At most one conflict for each route. */
export function prefixConflicts<Route extends Routed>(routes: readonly Route[]): PrefixConflict<Route>[] {
	const byReading = new Map<string, Route>();
	const byFolded = Map.groupBy(
		routes.flatMap((route) => prefixReadings(route.prefix).map((reading) => ({ route, reading }))),
		({ reading }) => foldCase(reading),
	);
	const conflicts = new Map<Route, PrefixConflict<Route>>();
	for (const entries of byFolded.values()) {
		const ignoring = entries.find(({ route }) => route.caseInsensitive)?.route;
		for (const { route, reading } of entries) {
			const same = byReading.get(reading);
			if (same === undefined) byReading.set(reading, route);
			const other = same ?? ignoring;
			if (other !== undefined && other !== route) conflicts.set(route, { route, other, reading });
		}
	}
	return [...conflicts.values()];
}

/** @throws RangeError for a prefix that has more readings than are followed; no such path passes the path gate. */
function prefixReadings(prefix: string): string[] {
	const readings = readingsOf(prefix);
	if (readings === undefined) throw new RangeError(`the prefix ${prefix} has too many readings`);
	return [...readings];
}

/**
 * Folds letter case as readers do, on the decoded text. By way of the upper case, `\u017f` becomes an `s` as well. `\u0130` becomes an
 * `i` by itself for readers that fold each character alone (Go, Java), and JavaScript adds a combining dot.
 */
function foldCase(reading: string): string {
	return Buffer.from(reading, 'latin1').toString('utf8').toUpperCase().replaceAll('\u0130', 'I').toLowerCase();
}

/**
 * Finds the longest prefix on a segment boundary. A lookup tries each distinct prefix length once, so neither many prefixes nor a
 * long path make it expensive.
 */
export class PrefixTable<Route> {
	readonly #byPrefix: ReadonlyMap<string, PrefixEntry<Route>>;
	/** Grouped by the length of the prefix, longest first. */
	readonly #lengths: readonly (readonly PrefixEntry<Route>[])[];

	/** @param entries if a prefix is repeated, its last entry counts. */
	constructor(entries: Iterable<readonly [prefix: string, route: Route]>) {
		this.#byPrefix = new Map(Array.from(entries, ([prefix, route]) => [prefix, { prefix, route }]));
		const byLength = Map.groupBy(this.#byPrefix.values(), ({ prefix }) => prefix.length);
		this.#lengths = [...byLength].sort(([a], [b]) => b - a).map(([, entries]) => entries);
	}

	longest(path: string): PrefixEntry<Route> | undefined {
		for (const entries of this.#lengths) {
			const { length } = entries[0]!.prefix;
			if (!isBoundary(path, length)) continue;
			// A map lookup of a newly cut string costs as much as a few comparisons.
			const entry =
				entries.length <= FEW
					? entries.find(({ prefix }) => path.startsWith(prefix))
					: this.#byPrefix.get(path.length === length ? path : path.slice(0, length));
			// The longest match is final: a shorter one is never tried.
			if (entry !== undefined) return entry;
		}
		return undefined;
	}
}

interface PrefixEntry<Route> {
	readonly prefix: string;
	readonly route: Route;
}

const FEW = 8;

/** The relation of a path to a route's prefix. */
type PrefixFit = 'matches' | 'no boundary' | 'differs';

/** For explanations of the choice of `PrefixTable.longest`. */
export function fitOf(prefix: string, path: string): PrefixFit {
	if (!path.startsWith(prefix)) return 'differs';
	return isBoundary(path, prefix.length) ? 'matches' : 'no boundary';
}

/** Whether a segment ends where the first `length` characters end: `/a` matches `/a` and `/a/x`, not `/ab`. */
function isBoundary(path: string, length: number): boolean {
	return path.length === length || (path.length > length && (path[length] === '/' || path[length - 1] === '/'));
}

import type { Fetches, SelfRefreshing } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';

/** A value that refreshes itself, and reports its first attempt. */
interface Refreshed extends SelfRefreshing<unknown> {
	readonly firstAttempt: Promise<unknown>;
}

interface RefresherKind<Source, Refresher> {
	/** Sources with one key have one refresher; those without a key have none. */
	readonly keyOf: (source: Source) => string | undefined;
	/** Name of the issuer or upstream, for counts. */
	readonly nameOf: (source: Source) => string;
	/** @param known the running ones. */
	readonly create: (source: Source, fetches: Fetches, known: readonly Refresher[]) => Refresher;
}

/**
 * Refreshers of issuers' keys or upstreams' addresses, for the current state and the one in preparation. They run on the main
 * thread. Workers get values, and no request ever waits for a source.
 */
export class Refreshers<Source, Refresher extends Refreshed> {
	readonly #kind: RefresherKind<Source, Refresher>;
	readonly #running = new Map<string, { readonly name: string; readonly refresher: Refresher }>();
	/** Keys of the refreshers in force; there may be others with the same names. */
	#inForce: ReadonlySet<string | undefined> = new Set();
	/** By name, for the life of the process: counters never decrease. */
	readonly #fetches = new Map<string, Fetches>();
	readonly #onChange: () => void;
	#isStopped = false;

	/** @param onChange called when a value has changed. */
	constructor(kind: RefresherKind<Source, Refresher>, onChange: () => void) {
		this.#kind = kind;
		this.#onChange = onChange;
	}

	/** Starts refreshers for new sources. @returns the new ones. */
	protected begin(sources: Iterable<Source>): Refresher[] {
		const fresh: Refresher[] = [];
		for (const source of this.#isStopped ? [] : sources) {
			const key = this.#kind.keyOf(source);
			if (key === undefined || this.#running.has(key)) continue;
			const name = this.#kind.nameOf(source);
			const known = Array.from(this.#running.values(), ({ refresher }) => refresher);
			const refresher = this.#kind.create(source, this.#fetchesOf(name), known);
			this.#running.set(key, { name, refresher });
			fresh.push(refresher);
			refresher.start(this.#onChange);
		}
		return fresh;
	}

	/** These sources are in force: ends the refreshers of all others. */
	keepOnly(sources: Iterable<Source>): void {
		this.#inForce = new Set(Array.from(sources, this.#kind.keyOf));
		for (const [key, { refresher }] of this.#running) {
			if (this.#inForce.has(key)) continue;
			refresher.stop();
			this.#running.delete(key);
		}
	}

	protected of(source: Source): Refresher | undefined {
		return this.#running.get(this.#kind.keyOf(source) ?? '')?.refresher;
	}

	/** One for each name: the current one, or the first one in preparation. */
	get all(): Iterable<Refresher> {
		return this.byName.values();
	}

	protected get byName(): ReadonlyMap<string, Refresher> {
		const byName = new Map<string, Refresher>();
		for (const [key, { name, refresher }] of this.#running) {
			if (this.#inForce.has(key) || !byName.has(name)) byName.set(name, refresher);
		}
		return byName;
	}

	/** Stops all requests to sources. The values stay: a round with the workers may still be running. */
	stop(): void {
		this.#isStopped = true;
		for (const { refresher } of this.#running.values()) refresher.stop();
	}

	#fetchesOf(name: string): Fetches {
		const fetches = this.#fetches.get(name) ?? { success: 0, failure: 0 };
		this.#fetches.set(name, fetches);
		return fetches;
	}
}

import { KeyRefresh } from '../identity/key-refresh.ts';
import { type KeySetSeed, readJwks } from '../identity/key-set.ts';
import type { Clock } from '../shared/clock.ts';
import type { Logger } from '../shared/log.ts';
import { FetchError, type FetchedKeys } from './fetch-keys.ts';
import type { RemoteIssuer } from './remote-issuer.ts';

/** Counts of fetches. */
export interface Fetches {
	success: number;
	failure: number;
}

/**
 * A value that is fetched regularly and keeps its last good state. Reload, readiness and metrics treat all such values alike.
 */
export interface SelfRefreshing<Value> {
	/** @param onChange called whenever `value` has changed. */
	start(onChange: () => void): void;
	/** Ends all fetches and callbacks. */
	stop(): void;
	/** The last good value; `undefined` if there is none yet, or it is too old. */
	readonly value: Value | undefined;
	/** Age of `value`, in ms. */
	readonly ageMs: number | undefined;
	/** How often it was fetched. */
	readonly fetches: Readonly<Fetches>;
}

export interface RefresherParts {
	/** Rejects with the cause in words. */
	readonly fetch: (issuer: RemoteIssuer, abandoned: AbortSignal, last?: FetchedKeys) => Promise<FetchedKeys>;
	/** Keeps the last good set across restarts; `undefined`: sets are not kept. */
	readonly store: KeyStore | undefined;
	/** Sets a timer, in ms. @returns a function that cancels it. */
	readonly after: (ms: number, run: () => void) => () => void;
	readonly clock: Clock;
	/** From 0 to 1. */
	readonly random: () => number;
	readonly log: Logger;
}

export interface KeyStore {
	/** Never rejects: an unreadable file leaves a line in the log. @returns `undefined` if there is none for this issuer. */
	load(issuer: RemoteIssuer, wallSeconds: number): Promise<KeptKeys | undefined>;
	/** Never rejects: a failure leaves a line in the log. */
	save(issuer: RemoteIssuer, text: string, wallSeconds: number): Promise<void>;
}

export interface KeptKeys {
	/** The JWK Set. */
	readonly text: string;
	readonly ageMs: number;
	/** Its file, for messages. */
	readonly file: string;
}

const TARGET = 'proxy::jwks';
/** Node's timers fire at once when asked to wait for more than 2³¹ - 1 ms. */
const LONGEST_WAIT_MS = 2_147_483_647;
/** Maximum number of key names of one set in a log line. */
const MAX_KIDS_SHOWN = 8;

/** Keeps the keys of one issuer fresh (`identity/key-refresh.ts` says when). */
export class KeyRefresher implements SelfRefreshing<KeySetSeed> {
	readonly issuer: RemoteIssuer;
	readonly fetches: Fetches;
	readonly #parts: RefresherParts;
	readonly #refresh: KeyRefresh;
	readonly #stopped = new AbortController();
	readonly #firstAttempt = Promise.withResolvers<string | undefined>();
	#value: KeySetSeed | undefined;
	/** The last fetch; `undefined` if it failed, so that an issuer that cannot handle validators is asked without them. */
	#last: FetchedKeys | undefined;
	#onChange: () => void = () => {};
	#cancel: () => void = () => {};

	/** @param fetches the issuer's counts, including those of earlier refreshers. */
	constructor(issuer: RemoteIssuer, parts: RefresherParts, fetches: Fetches = { success: 0, failure: 0 }) {
		this.issuer = issuer;
		this.fetches = fetches;
		this.#parts = parts;
		this.#refresh = new KeyRefresh(issuer, parts.clock.now(), parts.random);
	}

	get value(): KeySetSeed | undefined {
		return this.#value;
	}

	get ageMs(): number | undefined {
		return this.#refresh.ageAt(this.#parts.clock.now());
	}

	/** Resolves when there are keys, or with the cause when the first fetch has failed. Never rejects. */
	get firstAttempt(): Promise<string | undefined> {
		return this.#firstAttempt.promise;
	}

	start(onChange: () => void): void {
		this.#onChange = onChange;
		void this.#restore().then(() => this.#act());
	}

	stop(): void {
		this.#stopped.abort();
		this.#cancel();
	}

	/** A token of the issuer names a key that is not in the set. */
	unknownKey(): void {
		this.#refresh.unknownKey();
		this.#schedule();
	}

	async #restore(): Promise<void> {
		const { store, clock, log } = this.#parts;
		const { issuer } = this.issuer;
		const kept = await store?.load(this.issuer, clock.wallSeconds());
		if (kept === undefined || this.#stopped.signal.aborted) return;
		try {
			this.#value = readJwks(kept.text, this.issuer.algorithms).seed;
		} catch (error) {
			// The configured algorithms may have changed.
			const { message } = error as Error;
			log.warn(TARGET, 'keys in state_dir cannot be used; the next fetch replaces them', {
				issuer,
				file: kept.file,
				cause: `the file ${message}`,
			});
			return;
		}
		this.#refresh.restored(clock.now(), kept.ageMs);
		log.info(TARGET, 'keys loaded from state_dir', {
			issuer,
			age_s: Math.round(kept.ageMs / 1000),
			...shown(this.#value),
		});
		if (!this.#dropStale()) this.#changed();
	}

	/** Runs the due action, and sets the timer for the next one. */
	#act(): void {
		if (this.#stopped.signal.aborted) return;
		this.#dropStale();
		if (this.#refresh.isDue(this.#parts.clock.now())) void this.#fetch();
		this.#schedule();
	}

	#schedule(): void {
		this.#cancel();
		if (this.#stopped.signal.aborted) return;
		const wait = this.#refresh.nextAt - this.#parts.clock.now();
		if (wait === Number.POSITIVE_INFINITY) return;
		this.#cancel = this.#parts.after(Math.min(Math.max(wait, 1), LONGEST_WAIT_MS), () => this.#act());
	}

	async #fetch(): Promise<void> {
		const { fetch, clock } = this.#parts;
		this.#refresh.started(clock.now());
		try {
			const fetched = await fetch(this.issuer, this.#stopped.signal, this.#last);
			this.#last = fetched;
			if (!this.#stopped.signal.aborted) this.#succeeded(fetched);
		} catch (error) {
			this.#last = undefined;
			if (!this.#stopped.signal.aborted) this.#failed(error as Error);
		}
		this.#schedule();
	}

	#succeeded({ seed, skipped, text, maxAgeMs }: FetchedKeys): void {
		const { clock, log, store } = this.#parts;
		const { issuer } = this.issuer;
		const { failures } = this.#refresh;
		this.#refresh.succeeded(clock.now(), maxAgeMs);
		this.fetches.success++;
		void store?.save(this.issuer, text, clock.wallSeconds());
		const fields = { issuer, ...shown(seed), skipped: skipped.length || undefined };
		if (JSON.stringify(seed) === JSON.stringify(this.#value)) {
			// The end of an outage is worth a line; an unchanged set every five minutes is not.
			if (failures > 0) log.info(TARGET, 'keys fetched again, unchanged', { ...fields, failures });
			else log.debug(TARGET, 'keys fetched, unchanged', fields);
			return;
		}
		log.info(TARGET, 'keys fetched, changed', { ...fields, skipped_because: skipped[0] });
		this.#value = seed;
		this.#changed();
	}

	#failed(error: Error): void {
		const { clock, log } = this.#parts;
		const now = clock.now();
		this.#refresh.failed(now);
		this.fetches.failure++;
		const cause = error instanceof FetchError ? error.message : `internal error: ${error.message}`;
		log.warn(TARGET, this.#value === undefined ? 'keys not fetched' : 'keys not fetched; keeping old', {
			issuer: this.issuer.issuer,
			cause,
			failures: this.#refresh.failures,
			age_s: this.ageMs === undefined ? undefined : Math.round(this.ageMs / 1000),
			retry_in_ms: Math.round(this.#refresh.nextAt - now),
		});
		this.#firstAttempt.resolve(cause);
	}

	/** @returns whether keys were dropped. */
	#dropStale(): boolean {
		const { clock, log } = this.#parts;
		if (!this.#refresh.isStale(clock.now())) return false;
		const { issuer, maxStaleMs } = this.issuer;
		this.#refresh.dropped();
		this.#value = undefined;
		log.error(TARGET, 'keys are older than max_stale_secs; dropping them', { issuer, max_stale_s: maxStaleMs / 1000 });
		this.#onChange();
		return true;
	}

	#changed(): void {
		this.#firstAttempt.resolve(undefined);
		this.#onChange();
	}
}

/** Key names are not secret, but there may be many. */
function shown({ keys }: KeySetSeed) {
	const kids = keys.slice(0, MAX_KIDS_SHOWN).map(({ kid = '' }) => kid.slice(0, 64));
	return { keys: keys.length, kids };
}

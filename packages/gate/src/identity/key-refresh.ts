/**
 * Decides when to fetch an issuer's keys, and how long to trust them while fetches fail. Pure: time is an argument, in milliseconds
 * of a monotonic clock; nothing is fetched here.
 */

interface RefreshRules {
	/** Time between two fetches, unless the response says otherwise; at most half of `maxStaleMs`. */
	readonly refreshMs: number;
	/** Maximum age of the last good set. */
	readonly maxStaleMs: number;
}

/** Limit for a whole fetch: name lookups, connections, metadata and set. */
export const FETCH_LIMIT_MS = 10_000;
/** Least time from one fetch to an early one for an unknown key, however many tokens name such keys. */
export const EARLY_MS = 10_000;
/** The same without any keys. It is shorter, because every token of the issuer is refused then. */
export const EARLY_WITHOUT_KEYS_MS = 1_000;
/** Bounds for the `max-age` of `Cache-Control`; a `refreshMs` outside them extends them. */
const SHORTEST_MS = 10_000;
const LONGEST_MS = 3_600_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * Warns about two durations that are allowed but doubtful: keys would be fetched more often than every `refreshMs`, or one fetch
 * that runs into its limit would lose all keys.
 *
 * @returns the warning; `undefined` if there is none.
 */
export function refreshDoubt({ refreshMs, maxStaleMs }: RefreshRules): string | undefined {
	const leastMs = refreshMs + Math.max(refreshMs, FETCH_LIMIT_MS);
	if (maxStaleMs >= leastMs) return undefined;
	return (
		`is ${maxStaleMs / 1000} with refresh_secs of ${refreshMs / 1000}: a single failed fetch can leave the proxy without keys, ` +
		`because a fetch may take ${FETCH_LIMIT_MS / 1000} s; set it to at least ${leastMs / 1000}, preferably hours`
	);
}

export class KeyRefresh {
	readonly #rules: RefreshRules;
	readonly #random: () => number;
	/** When the next fetch is due. */
	#dueAt: number;
	#startedAt = Number.NEGATIVE_INFINITY;
	#fetching = false;
	/** An unknown key was reported during a fetch, whose answer may be older than the key. */
	#askedMeanwhile = false;
	#goodAt: number | undefined;
	#failures = 0;

	/** @param random from 0 to 1, for jitter: replicas that start together must not fetch together for ever. */
	constructor(rules: RefreshRules, now: number, random: () => number) {
		this.#rules = rules;
		this.#random = random;
		this.#dueAt = now;
	}

	/** The time of the next action: a fetch, or dropping stale keys. During a fetch only the latter. */
	get nextAt(): number {
		return Math.min(this.#fetching ? Number.POSITIVE_INFINITY : this.#dueAt, this.#staleAt);
	}

	isDue(now: number): boolean {
		return !this.#fetching && now >= this.#dueAt;
	}

	/** Whether the last good set is too old to trust. */
	isStale(now: number): boolean {
		return now >= this.#staleAt;
	}

	/** Consecutive failed fetches. */
	get failures(): number {
		return this.#failures;
	}

	/** Age of the last good set, in ms; `undefined` if there is none. */
	ageAt(now: number): number | undefined {
		return this.#goodAt === undefined ? undefined : now - this.#goodAt;
	}

	/** A good set from before the start of the process was found. @param ageMs its age. */
	restored(now: number, ageMs: number): void {
		this.#goodAt = now - ageMs;
	}

	/** A fetch begins. */
	started(now: number): void {
		this.#startedAt = now;
		this.#fetching = true;
	}

	/** @param maxAgeMs `max-age` of the response's `Cache-Control`, if it has any. */
	succeeded(now: number, maxAgeMs: number | undefined): void {
		this.#goodAt = now;
		this.#failures = 0;
		this.#ended(now + spread(this.#interval(maxAgeMs), 0.9, this.#random));
	}

	failed(now: number): void {
		this.#failures++;
		const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#failures - 1, 20), LONGEST_PAUSE_MS);
		// Retries come early enough that an issuer which recovers shortly before keys become stale is asked in time.
		const inTime = Math.max(FIRST_PAUSE_MS, (this.#staleAt - now) / 2);
		this.#ended(now + spread(Math.min(pause, inTime), 0.5, this.#random));
	}

	/** The set is too old and has been dropped. */
	dropped(): void {
		this.#goodAt = undefined;
	}

	/**
	 * A token names a key that is not in the set. The next fetch is moved forward, but not before `EARLY_MS` after the start of the
	 * last one, or `EARLY_WITHOUT_KEYS_MS` without any keys.
	 */
	unknownKey(): void {
		if (this.#fetching) this.#askedMeanwhile = true;
		else if (this.#goodAt === undefined) this.#dueBy(this.#startedAt + EARLY_WITHOUT_KEYS_MS);
		// While fetches fail, the old keys stay in use and the pause between retries is kept.
		else if (this.#failures === 0) this.#dueBy(this.#startedAt + EARLY_MS);
	}

	#dueBy(time: number): void {
		this.#dueAt = Math.min(this.#dueAt, time);
	}

	get #staleAt(): number {
		return this.#goodAt === undefined ? Number.POSITIVE_INFINITY : this.#goodAt + this.#rules.maxStaleMs;
	}

	/** Reserves half of `maxStaleMs` for the fetch and its retries, whatever the response says. */
	#interval(maxAgeMs: number | undefined): number {
		const { refreshMs, maxStaleMs } = this.#rules;
		const least = Math.min(SHORTEST_MS, refreshMs);
		const most = Math.max(LONGEST_MS, refreshMs);
		const wanted = maxAgeMs === undefined ? refreshMs : Math.min(Math.max(maxAgeMs, least), most);
		return Math.min(wanted, maxStaleMs / 2);
	}

	#ended(dueAt: number): void {
		this.#fetching = false;
		this.#dueAt = dueAt;
		if (this.#askedMeanwhile) this.unknownKey();
		this.#askedMeanwhile = false;
	}
}

/** A random duration from `least * ms` to `ms`. */
function spread(ms: number, least: number, random: () => number): number {
	return ms * (least + (1 - least) * random());
}

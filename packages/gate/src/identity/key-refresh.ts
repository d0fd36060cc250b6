/**
 * When an issuer is asked for its keys, and how long they are believed without it. Pure: time arrives as an argument, in
 * milliseconds of a monotonic clock; nothing is fetched here.
 */

export interface RefreshRules {
	/** Between two fetches, unless the answer says otherwise, and at most half of `maxStaleMs`. */
	readonly refreshMs: number;
	/** How old the last good set may become. */
	readonly maxStaleMs: number;
}

/** For all that one fetch takes: names, connections, metadata and set. */
export const FETCH_LIMIT_MS = 10_000;
/** Between a fetch and an early one, for a key that is not known: however many strangers ask for such. */
export const EARLY_MS = 10_000;
/** The same without any keys: every token of the issuer is refused then, so a fetch is worth more than an issuer's rest. */
export const EARLY_WITHOUT_KEYS_MS = 1_000;
/** What `Cache-Control` can say counts within these bounds, unless `refreshMs` lies outside them. */
const SHORTEST_MS = 10_000;
const LONGEST_MS = 3_600_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * A warning about two durations that are allowed: keys would be fetched more often than every `refreshMs`, or one fetch
 * that lasts to its limit would cost all keys.
 *
 * @returns in words; `undefined` where nothing is.
 */
export function refreshDoubt({ refreshMs, maxStaleMs }: RefreshRules): string | undefined {
	const leastMs = refreshMs + Math.max(refreshMs, FETCH_LIMIT_MS);
	if (maxStaleMs >= leastMs) return undefined;
	return (
		`is ${maxStaleMs / 1000} with refresh_secs of ${refreshMs / 1000}: one fetch that fails can leave the proxy without keys, ` +
		`since a fetch may take ${FETCH_LIMIT_MS / 1000} s; give at least ${leastMs / 1000}, better hours`
	);
}

export class KeyRefresh {
	readonly #rules: RefreshRules;
	readonly #random: () => number;
	/** When the next fetch is due. */
	#dueAt: number;
	#startedAt = Number.NEGATIVE_INFINITY;
	#fetching = false;
	/** Somebody has asked while a fetch was under way, whose answer may be from before the key was there. */
	#askedMeanwhile = false;
	#goodAt: number | undefined;
	#failures = 0;

	/** @param random from 0 to 1, for jitter: a fleet that was started at once is not to ask at once for ever. */
	constructor(rules: RefreshRules, now: number, random: () => number) {
		this.#rules = rules;
		this.#random = random;
		this.#dueAt = now;
	}

	/** The time of the next action: a fetch, or the drop of stale keys. During a fetch only the latter. */
	get nextAt(): number {
		return Math.min(this.#fetching ? Number.POSITIVE_INFINITY : this.#dueAt, this.#staleAt);
	}

	isDue(now: number): boolean {
		return !this.#fetching && now >= this.#dueAt;
	}

	/** Whether the last good set is too old to be believed. */
	isStale(now: number): boolean {
		return now >= this.#staleAt;
	}

	/** Fetches in a row that have failed. */
	get failures(): number {
		return this.#failures;
	}

	/** Of the last good set, in ms; `undefined` where there is none. */
	ageAt(now: number): number | undefined {
		return this.#goodAt === undefined ? undefined : now - this.#goodAt;
	}

	/** A set was found that was good before the process began. @param ageMs how old it is. */
	restored(now: number, ageMs: number): void {
		this.#goodAt = now - ageMs;
	}

	/** A fetch begins. */
	started(now: number): void {
		this.#startedAt = now;
		this.#fetching = true;
	}

	/** @param maxAgeMs what the answer's `Cache-Control` says, if it says anything. */
	succeeded(now: number, maxAgeMs: number | undefined): void {
		this.#goodAt = now;
		this.#failures = 0;
		this.#ended(now + spread(this.#interval(maxAgeMs), 0.9, this.#random));
	}

	failed(now: number): void {
		this.#failures++;
		const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#failures - 1, 20), LONGEST_PAUSE_MS);
		// An issuer that recovers shortly before keys become stale is asked while they are still believed.
		const inTime = Math.max(FIRST_PAUSE_MS, (this.#staleAt - now) / 2);
		this.#ended(now + spread(Math.min(pause, inTime), 0.5, this.#random));
	}

	/** The set is too old and has been dropped. */
	dropped(): void {
		this.#goodAt = undefined;
	}

	/**
	 * A token names a key that is not in the set. The fetch comes early, but never sooner than `EARLY_MS` after the last one began;
	 * without any keys `EARLY_WITHOUT_KEYS_MS`.
	 */
	unknownKey(): void {
		if (this.#fetching) this.#askedMeanwhile = true;
		else if (this.#goodAt === undefined) this.#dueBy(this.#startedAt + EARLY_WITHOUT_KEYS_MS);
		// While fetches fail, keys are still believed: the pause between fetches is the limit.
		else if (this.#failures === 0) this.#dueBy(this.#startedAt + EARLY_MS);
	}

	#dueBy(time: number): void {
		this.#dueAt = Math.min(this.#dueAt, time);
	}

	get #staleAt(): number {
		return this.#goodAt === undefined ? Number.POSITIVE_INFINITY : this.#goodAt + this.#rules.maxStaleMs;
	}

	/** Half of the time for which keys are believed is left to the fetch and its repetitions, whatever the answer says. */
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

/** Between `least` and the whole of a duration. */
function spread(ms: number, least: number, random: () => number): number {
	return ms * (least + (1 - least) * random());
}

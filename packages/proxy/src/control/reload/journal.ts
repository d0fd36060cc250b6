/** The results of reloads, for metrics and the status page. */

/** Parts that are reloaded independently of each other. */
export const RELOADED_PARTS = ['tls', 'identity', 'routes'] as const;
export type ReloadedPart = (typeof RELOADED_PARTS)[number];
type ReloadResult = 'success' | 'failure';

/** One part of one reload. */
interface ReloadEntry {
	readonly part: ReloadedPart;
	/** After `failure` the old state stays. */
	readonly result: ReloadResult;
	/** Seconds since the epoch. */
	readonly atSeconds: number;
	/** The cause: a signal's name, or `files changed`. */
	readonly asked: string;
	/** Why it failed, in words for operators. Names files and keys, and never quotes a secret. */
	readonly cause: string | undefined;
	/** Number of the configuration that was in force afterwards. */
	readonly generation: number;
}

/** The last reloads, and for each part its last success and its last failure. */
export class ReloadJournal {
	readonly #wallSeconds: () => number;
	readonly #last: Record<ReloadResult, Map<ReloadedPart, number>>;
	readonly #recent: ReloadEntry[] = [];

	/** The start counts as a successful reload. */
	constructor(wallSeconds: () => number) {
		this.#wallSeconds = wallSeconds;
		const start = wallSeconds();
		this.#last = { success: new Map(RELOADED_PARTS.map((part) => [part, start])), failure: new Map() };
	}

	add(entry: Omit<ReloadEntry, 'atSeconds'>): void {
		const atSeconds = this.#wallSeconds();
		this.#last[entry.result].set(entry.part, atSeconds);
		this.#recent.unshift({ ...entry, atSeconds });
		this.#recent.length = Math.min(this.#recent.length, MAX_RECENT);
	}

	/** Seconds since the epoch; `undefined`: it has never happened. */
	last(part: ReloadedPart, result: ReloadResult): number | undefined {
		return this.#last[result].get(part);
	}

	/** The newest first, at most 30: ten reloads of all parts. */
	get recent(): readonly ReloadEntry[] {
		return this.#recent;
	}
}

const MAX_RECENT = 30;

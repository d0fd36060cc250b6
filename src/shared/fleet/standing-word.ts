/** How workers are to limit, told by the main thread. */
export interface StandingMemory {
	/** Mode, replicas. */
	readonly words: SharedArrayBuffer;
}

/** Leases and allowances are spent; who has none is refused. The main thread fills leases up from the store, or with this replica's share. */
export const LEASED = 0;
/** The same while the store is away: slots of concurrency are divided. */
export const SHARED = 1;
/** Each replica by itself. */
export const LOCAL = 2;
/** Nobody that has a limit. */
export const REFUSING = 3;

export type Mode = typeof LEASED | typeof SHARED | typeof LOCAL | typeof REFUSING;

export function createStandingMemory(): StandingMemory {
	const memory: StandingMemory = { words: new SharedArrayBuffer(8) };
	new StandingWord(memory).set(LEASED, 1);
	return memory;
}

export class StandingWord {
	readonly #words: Int32Array;

	constructor({ words }: StandingMemory) {
		this.#words = new Int32Array(words);
	}

	get mode(): Mode {
		return Atomics.load(this.#words, 0) as Mode;
	}

	/** At least 1. */
	get replicas(): number {
		return Atomics.load(this.#words, 1);
	}

	set(mode: Mode, replicas: number): void {
		Atomics.store(this.#words, 0, mode);
		Atomics.store(this.#words, 1, Math.max(1, replicas));
	}
}

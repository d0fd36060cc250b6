import type { TransitionReason } from './breaker-cell.ts';

/** The states of a circuit, as metrics and logs name them; by the numbers of `gates/breaker.ts`. */
export const CIRCUIT_NAMES = ['closed', 'open', 'half-open'] as const;
export type CircuitName = (typeof CIRCUIT_NAMES)[number];

/** What a circuit can become, and why; each has a cell. */
export const TRANSITIONS = [
	{ to: 'open', reason: 'status' },
	{ to: 'open', reason: 'connect' },
	{ to: 'open', reason: 'timeout' },
	{ to: 'open', reason: 'broken' },
	{ to: 'open', reason: 'health' },
	{ to: 'open', reason: 'probe' },
	{ to: 'half-open', reason: 'probe' },
	{ to: 'closed', reason: 'probe' },
	{ to: 'closed', reason: 'health' },
] as const satisfies readonly { to: CircuitName; reason: TransitionReason }[];

/** The last change of a circuit. */
export interface LastTransition {
	/** Monotonic milliseconds, by which those of several threads are ordered. */
	readonly at: number;
	/** Seconds since the epoch. */
	readonly wallSeconds: number;
	readonly to: CircuitName;
	readonly reason: TransitionReason;
	/** In words, for operators; may be empty, and is cut off after some 100 bytes. */
	readonly cause: string;
}

/** Behind the counts: which transition was the last, when, and how many bytes of words follow. */
const LAST = { index: 0, at: 1, wallSeconds: 2, bytes: 3, words: 4 } as const;
const WORDS_BYTES = 96;
export const TRANSITION_CELLS = TRANSITIONS.length + LAST.words + WORDS_BYTES / 8;

/** How often one thread has changed one upstream's circuit, by `TRANSITIONS`, and what it did last. */
export class TransitionCounts {
	readonly cells: Float64Array;
	readonly #last: Float64Array;
	readonly #words: Uint8Array;

	/** @param memory of `TRANSITION_CELLS`; by default the thread's own. */
	constructor(memory: Float64Array = new Float64Array(TRANSITION_CELLS)) {
		this.cells = memory.subarray(0, TRANSITIONS.length);
		this.#last = memory.subarray(TRANSITIONS.length);
		this.#words = new Uint8Array(memory.buffer, memory.byteOffset + (TRANSITIONS.length + LAST.words) * 8, WORDS_BYTES);
	}

	/**
	 * @param now monotonic milliseconds.
	 * @param wallSeconds seconds since the epoch.
	 */
	count(to: CircuitName, reason: TransitionReason, cause = '', now = 0, wallSeconds = 0): void {
		const index = TRANSITIONS.findIndex((one) => one.to === to && one.reason === reason);
		this.cells[index]! += 1;
		const last = this.#last;
		// Not a number during a write: readers skip it then.
		last[LAST.at] = Number.NaN;
		last[LAST.index] = index;
		last[LAST.wallSeconds] = wallSeconds;
		const { written } = new TextEncoder().encodeInto(cause, WORDS);
		this.#words.set(WORDS.subarray(0, written));
		last[LAST.bytes] = written;
		last[LAST.at] = now;
	}

	/** `undefined` before the first one, or while a thread is just writing it. */
	get last(): LastTransition | undefined {
		const last = this.#last;
		const [at, wallSeconds] = [last[LAST.at]!, last[LAST.wallSeconds]!];
		const transition = TRANSITIONS[last[LAST.index]!];
		// Not every decoder takes memory that threads share.
		const cause = new TextDecoder().decode(Uint8Array.from(this.#words.subarray(0, last[LAST.bytes])));
		if (wallSeconds === 0 || transition === undefined || at !== last[LAST.at]) return undefined;
		return { ...transition, at, wallSeconds, cause };
	}
}

const WORDS = new Uint8Array(WORDS_BYTES);

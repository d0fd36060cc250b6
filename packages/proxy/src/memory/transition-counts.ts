import type { TransitionReason } from './breaker-cell.ts';

/** Names of a circuit's states in metrics and logs, by their numbers in `gates/breaker.ts`. */
export const CIRCUIT_NAMES = ['closed', 'open', 'half-open'] as const;
export type CircuitName = (typeof CIRCUIT_NAMES)[number];

/** All transitions with their reasons; each has a cell. */
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
	/** Monotonic milliseconds: orders the transitions of several threads. */
	readonly at: number;
	/** Seconds since the epoch. */
	readonly wallSeconds: number;
	readonly to: CircuitName;
	readonly reason: TransitionReason;
	/** In words, for operators; may be empty, and is cut after `WORDS_BYTES`. */
	readonly cause: string;
}

/** Cells after the counts: the last transition, its times, and the length of its cause, which follows. */
const LAST = { index: 0, at: 1, wallSeconds: 2, bytes: 3, words: 4 } as const;
const WORDS_BYTES = 96;
export const TRANSITION_CELLS = TRANSITIONS.length + LAST.words + WORDS_BYTES / 8;

/** How often one thread has changed the circuit of one endpoint, by `TRANSITIONS`, and its last change. */
export class TransitionCounts {
	readonly cells: Float64Array;
	readonly #last: Float64Array;
	readonly #words: Uint8Array;

	/** @param memory `TRANSITION_CELLS` cells; by default private to the thread. */
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
		// NaN during a write: it differs from itself, so readers skip the transition.
		last[LAST.at] = Number.NaN;
		last[LAST.index] = index;
		last[LAST.wallSeconds] = wallSeconds;
		const { written } = new TextEncoder().encodeInto(cause, WORDS);
		this.#words.set(WORDS.subarray(0, written));
		last[LAST.bytes] = written;
		last[LAST.at] = now;
	}

	/** `undefined` before the first transition, or during a write. */
	get last(): LastTransition | undefined {
		const last = this.#last;
		const [at, wallSeconds] = [last[LAST.at]!, last[LAST.wallSeconds]!];
		const transition = TRANSITIONS[last[LAST.index]!];
		// A copy, since some decoders refuse shared memory.
		const cause = new TextDecoder().decode(Uint8Array.from(this.#words.subarray(0, last[LAST.bytes])));
		if (wallSeconds === 0 || transition === undefined || at !== last[LAST.at]) return undefined;
		return { ...transition, at, wallSeconds, cause };
	}
}

const WORDS = new Uint8Array(WORDS_BYTES);

import type { Timers } from '../timers.ts';

type Vote =
	| { readonly type: 'yes' }
	| { readonly type: 'no'; readonly cause: string }
	/** Its thread ended before it answered. */
	| { readonly type: 'gone' }
	/** It did not answer within the limit. */
	| { readonly type: 'silent' };

/** One question put to several workers at once, and their answers; it ends when all are known, or at its limit. */
export class Ballot {
	/** By worker; never rejects. */
	readonly result: Promise<ReadonlyMap<number, Vote>>;
	readonly #votes = new Map<number, Vote>();
	readonly #open: Set<number>;
	readonly #end: () => void;

	/** @param limitMs from now. */
	constructor(voters: Iterable<number>, limitMs: number, timers: Timers) {
		this.#open = new Set(voters);
		const { promise, resolve } = Promise.withResolvers<ReadonlyMap<number, Vote>>();
		this.result = promise;
		const cancelLimit = timers.after(limitMs, () => {
			for (const voter of [...this.#open]) this.cast(voter, { type: 'silent' });
		});
		this.#end = () => {
			cancelLimit();
			resolve(this.#votes);
		};
		if (this.#open.size === 0) this.#end();
	}

	/** Only the first vote of a worker counts; workers that were not asked are ignored. */
	cast(voter: number, vote: Vote): void {
		if (!this.#open.delete(voter)) return;
		this.#votes.set(voter, vote);
		if (this.#open.size === 0) this.#end();
	}
}

/** The first reason against, in words; `undefined` when all have said yes. */
export function objection(votes: ReadonlyMap<number, Vote>, limitMs: number): string | undefined {
	for (const [worker, vote] of votes) {
		if (vote.type === 'no') return `worker ${worker} refused: ${vote.cause}`;
		if (vote.type === 'gone') return diedWhileApplying(worker);
		if (vote.type === 'silent') return `worker ${worker} did not answer within ${limitMs / 1000} s`;
	}
	return undefined;
}

export function diedWhileApplying(worker: number): string {
	return `worker ${worker} died while applying it`;
}

import type { Timers } from '../timers.ts';

export interface TakeOverParts {
	/** Has all workers take over what there is now, or none; rejects with the reason. */
	readonly run: () => Promise<void>;
	/** It is tried again in a second. */
	readonly onFailure: (cause: string) => void;
	readonly timers: Timers;
}

/** Until a round that has failed is tried again. */
const RETRY_MS = 1_000;

/** Brings to the workers what refreshes itself on the main thread: one round at a time, and once more for what has changed meanwhile. */
export class TakeOver {
	readonly #parts: TakeOverParts;
	#serving = false;
	#stopped = false;
	#changed = false;
	#running: Promise<void> | undefined;

	constructor(parts: TakeOverParts) {
		this.#parts = parts;
	}

	/** There are workers: from here on they get what changes, and what has changed since they were started. */
	serve(): void {
		this.#serving = true;
		if (this.#changed) this.changed();
	}

	stop(): void {
		this.#stopped = true;
	}

	/** Something is other than what the workers have. */
	changed(): void {
		this.#changed = true;
		if (this.#serving) this.#running ??= this.#runWhileChanged();
	}

	async #runWhileChanged(): Promise<void> {
		const { run, onFailure, timers } = this.#parts;
		while (this.#changed && !this.#stopped) {
			this.#changed = false;
			try {
				await run();
			} catch (error) {
				if (this.#stopped) break;
				this.#changed = true;
				onFailure((error as Error).message);
				await new Promise<void>((resolve) => timers.after(RETRY_MS, resolve));
			}
		}
		this.#running = undefined;
	}
}

/** Resolves with the promise, at the latest after `ms`. */
export function within(promise: Promise<unknown>, ms: number, timers: Timers): Promise<void> {
	return new Promise((resolve) => {
		const cancel = timers.after(ms, resolve);
		void promise.then(() => {
			cancel();
			resolve();
		});
	});
}

/**
 * Runs a task, never twice at the same time. All callers during a run share the next one. It begins after their calls, so no caller
 * gets an older result, and each waits for at most two runs.
 */
export class SharedRuns<Result> {
	readonly #run: () => Promise<Result>;
	#running: Promise<Result> | undefined;
	#next: Promise<Result> | undefined;

	constructor(run: () => Promise<Result>) {
		this.#run = run;
	}

	ask(): Promise<Result> {
		if (this.#running === undefined) return this.#begin();
		const begin = () => {
			this.#next = undefined;
			return this.#begin();
		};
		this.#next ??= this.#running.then(begin, begin);
		return this.#next;
	}

	#begin(): Promise<Result> {
		const running = this.#run().finally(() => {
			if (this.#running === running) this.#running = undefined;
		});
		this.#running = running;
		return running;
	}
}

/**
 * Runs a task, never twice at a time. All callers that ask during a run share the next one, which begins after they asked, so that no
 * caller gets an older result. Any number of callers wait for at most two runs.
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

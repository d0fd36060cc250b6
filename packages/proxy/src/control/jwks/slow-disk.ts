/**
 * Runs file operations in a folder that may hang, such as one on a network. One at a time: each call that hangs holds one of libuv's
 * four threads, which also resolve names and read `/proc`. An operation that takes too long is given up; while it still hangs,
 * further ones fail at once.
 */
export class SlowDisk {
	readonly #limitMs: number;
	/** The current operation, and whether it has been given up. */
	#last: Promise<unknown> = Promise.resolve();
	#hangs = false;

	/** @param limitMs for one operation. */
	constructor(limitMs = LIMIT_MS) {
		this.#limitMs = limitMs;
	}

	/** @throws Error if the work, or other work before it, takes too long. */
	run<Result>(work: () => Promise<Result>): Promise<Result> {
		const result = this.#last.then(() => {
			if (this.#hangs) throw new Error(HANGS);
			return this.#bounded(work());
		});
		this.#last = result.catch(() => {});
		return result;
	}

	#bounded<Result>(working: Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.#hangs = true;
				reject(new Error(HANGS));
			}, this.#limitMs);
			working
				.finally(() => {
					clearTimeout(timer);
					this.#hangs = false;
				})
				.then(resolve, reject);
		});
	}
}

const LIMIT_MS = 5_000;
const HANGS = 'the file system does not respond';

/** The source of the control plane's timers, so that tests can move time by hand. Durations are milliseconds. */
export interface Timers {
	/** @returns calls it off. */
	after(ms: number, run: () => void): () => void;
	/** @returns calls it off. */
	every(ms: number, run: () => void): () => void;
}

export const systemTimers: Timers = {
	after: (ms, run) => {
		const timer = setTimeout(run, ms);
		return () => clearTimeout(timer);
	},
	every: (ms, run) => {
		const timer = setInterval(run, ms);
		return () => clearInterval(timer);
	},
};

/** Resolves with the promise's result, at the latest after `ms` with `undefined`. */
export function within<Result>(
	promise: Promise<Result>,
	ms: number,
	timers: Pick<Timers, 'after'>,
): Promise<Result | undefined> {
	return new Promise((resolve) => {
		const cancel = timers.after(ms, () => resolve(undefined));
		void promise.then((result) => {
			cancel();
			resolve(result);
		});
	});
}

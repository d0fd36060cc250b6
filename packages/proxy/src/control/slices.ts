import { setImmediate as nextTurn } from 'node:timers/promises';

/** Longest slice in one turn of the event loop. */
const SLICE_MS = 4;

/** Called between two steps of long work. @returns a promise to await before the next step, if any. */
export type Pause = () => Promise<void> | undefined;

/**
 * Pauses for long work on the main thread: after each slice the event loop gets a turn, so that health probes, signals and the
 * workers' messages wait for one slice at most. The work begins with a turn, so that each of several in a row has its own.
 */
export function pauses(): Pause {
	let sliceEnds = Number.NEGATIVE_INFINITY;
	return () => {
		if (performance.now() < sliceEnds) return undefined;
		return nextTurn().then(() => {
			sliceEnds = performance.now() + SLICE_MS;
		});
	};
}

/** Runs a generator to its end, with pauses between its steps. @returns the generator's result. */
export async function inSlices<Result>(steps: Iterator<void, Result>): Promise<Result> {
	const pause = pauses();
	for (;;) {
		const paused = pause();
		if (paused !== undefined) await paused;
		const { done, value } = steps.next();
		if (done) return value;
	}
}

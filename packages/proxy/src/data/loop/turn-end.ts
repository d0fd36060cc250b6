import { endOwner, type FaultOwner, type FaultReport, uncaught } from './faults.ts';

/**
 * In this order: requests begin that wait for the end of the turn, they go to their upstreams, answers go out, connections are read
 * that had to wait.
 */
export const STEP = { begin: 0, dispatch: 1, write: 2, read: 3 } as const;

/**
 * What a turn of the event loop has put together is done at its end. Between the first and the last read of a turn nothing is
 * written: writes that follow each other at once find their readers awake, while each one by itself would wake one up (a fifth
 * of what a write costs), and one step done for all requests in a row stays in the processor's caches.
 */
export class TurnEnd {
	#scheduled = false;
	/** The step that is being done. */
	#step: number = NONE;
	readonly #tasks: (() => void)[][] = [[], [], [], []];
	readonly #report: FaultReport;

	constructor(report: FaultReport = uncaught) {
		this.#report = report;
	}

	/** Has the task called once: at the end of this turn, or while that is under way, if its step is still to come. */
	add(step: (typeof STEP)[keyof typeof STEP], task: () => void): void {
		this.#tasks[step]!.push(task);
		if (this.#scheduled || step > this.#step) return;
		this.#scheduled = true;
		setImmediate(this.#end);
	}

	readonly #end = (): void => {
		this.#scheduled = false;
		for (this.#step = 0; this.#step < NONE; this.#step++) {
			const tasks = this.#tasks[this.#step]!;
			if (tasks.length === 0) continue;
			this.#tasks[this.#step] = [];
			for (const task of tasks) {
				try {
					task();
				} catch (error) {
					this.#report(error);
				}
			}
		}
	};

	/** A task calls this where one of those that it does something for has thrown, and goes on with the others. */
	onFault(owner: FaultOwner, error: unknown): void {
		endOwner(owner, error, this.#report);
	}
}

/** No step is being done. */
const NONE = 4;

/** Flushes its members in the order of `add`. */
export class FlushQueue {
	readonly #turnEnd: TurnEnd;
	#waiting: Flushed[] = [];

	constructor(turnEnd: TurnEnd) {
		this.#turnEnd = turnEnd;
	}

	/** Has it flushed at the end of the turn. */
	add(flushed: Flushed): void {
		if (this.#waiting.length === 0) this.#turnEnd.add(STEP.write, this.#flush);
		this.#waiting.push(flushed);
	}

	readonly #flush = (): void => {
		const waiting = this.#waiting;
		this.#waiting = [];
		for (const flushed of waiting) {
			try {
				flushed.flush();
			} catch (error) {
				this.#turnEnd.onFault(flushed, error);
			}
		}
	};
}

export interface Flushed extends FaultOwner {
	flush(): void;
}

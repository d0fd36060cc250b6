import type { Clock } from './clock.ts';
import type { Level, LogFields, Logger } from './log.ts';

/**
 * Log lines that clients can trigger: at most a few of each kind in a period, so that a flood costs neither disk nor CPU
 * time. The first line of the next period says how many were left out; the metrics count every one.
 */
export class RateLimitedLog {
	readonly #log: Logger;
	readonly #clock: Clock;
	readonly #kinds = new Map<string, Kind>();

	constructor(log: Logger, clock: Clock) {
		this.#log = log;
		this.#clock = clock;
	}

	/**
	 * @param kind what the limit counts by: a fixed word such as a refusal's reason, never text from a client.
	 * @param fields called only if the line is written.
	 */
	write(level: Exclude<Level, 'trace'>, target: string, message: string, kind: string, fields: () => LogFields): void {
		const now = this.#clock.now();
		const id = `${target} ${kind}`;
		let counted = this.#kinds.get(id);
		if (counted === undefined || now >= counted.until) {
			counted = { until: now + PERIOD_MS, lines: 0, suppressed: counted?.suppressed ?? 0 };
			this.#kinds.set(id, counted);
		}
		if (counted.lines === LINES) {
			counted.suppressed++;
			return;
		}
		counted.lines++;
		const suppressed = counted.suppressed || undefined;
		counted.suppressed = 0;
		this.#log[level](target, message, { ...fields(), suppressed });
	}
}

interface Kind {
	/** Monotonic milliseconds at which the period ends. */
	readonly until: number;
	lines: number;
	/** Lines left out since the last one that was written. */
	suppressed: number;
}

/** Maximum number of lines of one kind per thread and period, and the period in ms. */
export const LINES = 5;
export const PERIOD_MS = 10_000;

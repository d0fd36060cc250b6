import type { Logger } from '../shared/log.ts';
import type { Timers } from './timers.ts';

export interface DrainParts {
	/** Tells the workers; resolves when the last one has ended its last request. */
	readonly drainWorkers: () => Promise<void>;
	/** `shutdown_drain_secs`, in ms. */
	readonly limitMs: number;
	readonly timers: Timers;
	readonly log: Logger;
	/** Ends the process. */
	readonly exit: (code: number) => void;
}

const TARGET = 'proxy';

/**
 * What SIGTERM and SIGINT do (specification 3.3, decisions "Process"): the first one drains and then exits with 0, the
 * second one exits at once with 1. However many connections will not end, it is over when the limit is reached.
 */
export class Drain {
	readonly #parts: DrainParts;
	#draining = false;

	constructor(parts: DrainParts) {
		this.#parts = parts;
	}

	signal(name: string): void {
		if (this.#draining) this.#abandon(name);
		else void this.#drain(name);
	}

	async #drain(name: string): Promise<void> {
		const { drainWorkers, limitMs, timers, log, exit } = this.#parts;
		this.#draining = true;
		log.info(TARGET, 'draining', { signal: name, limit_ms: limitMs });
		const outOfTime = Promise.withResolvers<'out of time'>();
		timers.after(limitMs, () => outOfTime.resolve('out of time'));
		const end = await Promise.race([drainWorkers(), outOfTime.promise]);
		if (end === 'out of time') log.warn(TARGET, 'drain limit reached; dropping the connections that are left');
		else log.info(TARGET, 'drained');
		exit(0);
	}

	#abandon(name: string): void {
		this.#parts.log.warn(TARGET, 'second signal during the drain; exiting at once', { signal: name });
		this.#parts.exit(1);
	}
}

import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { type Timers, within } from './timers.ts';

interface DrainParts {
	/** Drains the workers; resolves when the last one has finished its last request. */
	readonly drainWorkers: () => Promise<void>;
	/** Ends the requests that are left, so that `drainWorkers` resolves soon. */
	readonly cutWorkers: () => void;
	/** `shutdown_delay_secs`, in ms; 0 for none. */
	readonly delayMs: number;
	/** `shutdown_drain_secs`, in ms; it counts from the end of the delay. */
	readonly limitMs: number;
	readonly timers: Timers;
	readonly log: Logger;
	readonly exit: (code: number) => void;
}

const TARGET = 'proxy';
/** Time for the workers to end the requests that are left, ms. */
const CUT_LIMIT_MS = 1_000;

/**
 * What SIGTERM and SIGINT do: the first signal drains and then exits with 0, the
 * second exits at once with 1. At its limit the drain ends the requests that are left, so that each has its access line.
 *
 * Load balancers learn with a delay that an instance is no longer ready, and send it connections until then. So a drain can be
 * delayed for that time (`shutdown_delay_secs`), in which everything is served as before.
 */
export class Drain {
	readonly #parts: DrainParts;
	#phase: 'serving' | 'shutdown delay' | 'drain' = 'serving';

	constructor(parts: DrainParts) {
		this.#parts = parts;
	}

	signal(name: string): void {
		if (this.#phase !== 'serving') this.#abandon(name);
		else if (this.#parts.delayMs > 0) this.#delay(name);
		else void this.#drain(name);
	}

	#delay(name: string): void {
		const { delayMs, timers, log } = this.#parts;
		this.#phase = 'shutdown delay';
		log.info(TARGET, 'not ready any more; still serving until the drain', { signal: name, delay_ms: delayMs });
		timers.after(delayMs, () => void this.#drain(name));
	}

	async #drain(name: string): Promise<void> {
		const { drainWorkers, cutWorkers, limitMs, timers, log, exit } = this.#parts;
		this.#phase = 'drain';
		log.info(TARGET, 'draining', { signal: name, limit_ms: limitMs });
		const drained = drainWorkers().then(() => true);
		if (await within(drained, limitMs, timers)) {
			log.info(TARGET, 'drained');
		} else {
			log.warn(TARGET, 'drain limit reached; closing the remaining connections');
			cutWorkers();
			await within(drained, CUT_LIMIT_MS, timers);
		}
		exit(0);
	}

	#abandon(name: string): void {
		this.#parts.log.warn(TARGET, `second signal during the ${this.#phase}; exiting at once`, { signal: name });
		this.#parts.exit(1);
	}
}

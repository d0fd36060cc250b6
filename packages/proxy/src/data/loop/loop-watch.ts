import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { LoopReading } from '../../memory/worker-stats.ts';

/** Measurements of the event loop, by the names of `node:perf_hooks`. */
export interface LoopFacts {
	/** Milliseconds since the thread began. */
	utilization(): { readonly idle: number; readonly active: number };
	/** Milliseconds of the active time that the thread has rested (`Rests`). */
	restedMs(): number;
	/** Intervals between the ticks of a timer of `RESOLUTION_MS`, in nanoseconds. */
	readonly delays: { readonly max: number; percentile(p: number): number; reset(): void };
}

/**
 * Samples this thread's event loop four times a second, and passes the readings on. It costs nothing for each request: a timer
 * measures delays, and libuv keeps the utilization anyway.
 */
export function watchLoop(
	clock: Clock,
	counts: { loopSampled(reading: LoopReading): void },
	rests: { readonly totalMs: number },
): void {
	const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
	delays.enable();
	const sampler = new LoopSampler(
		{ utilization: () => performance.eventLoopUtilization(), restedMs: () => rests.totalMs, delays },
		clock,
	);
	setInterval(() => counts.loopSampled(sampler.sample()), SAMPLE_MS).unref();
}

/** Turns measurements into readings. Delays cover the last one or two periods of `WINDOW_MS`. */
export class LoopSampler {
	readonly #loop: LoopFacts;
	readonly #clock: Clock;
	#before: { readonly idle: number; readonly active: number } = { idle: 0, active: 0 };
	#window: Delays = NO_DELAYS;
	#windowEnds: number;

	constructor(loop: LoopFacts, clock: Clock) {
		this.#loop = loop;
		this.#clock = clock;
		this.#windowEnds = clock.now() + WINDOW_MS;
	}

	/** @returns `activeMs` and `idleMs` since the last sample. */
	sample(): LoopReading {
		const now = this.#clock.now();
		const rested = this.#loop.restedMs();
		const reading = this.#loop.utilization();
		const [idle, active] = [reading.idle + rested, reading.active - rested];
		const idleMs = Math.max(0, idle - this.#before.idle);
		const activeMs = Math.max(0, active - this.#before.active);
		this.#before = { idle, active };
		const current = readDelays(this.#loop.delays);
		const delays = larger(this.#window, current);
		if (now >= this.#windowEnds) {
			this.#loop.delays.reset();
			this.#window = current;
			this.#windowEnds = now + WINDOW_MS;
		}
		const all = idleMs + activeMs;
		return { sampledAt: now, utilization: all === 0 ? 0 : activeMs / all, activeMs, idleMs, ...delays };
	}
}

type Delays = Pick<LoopReading, 'delayP50' | 'delayP99' | 'delayMax'>;
const NO_DELAYS: Delays = { delayP50: 0, delayP99: 0, delayMax: 0 };

function readDelays(delays: LoopFacts['delays']): Delays {
	const late = (ns: number) => Math.max(0, ns / 1e6 - RESOLUTION_MS);
	return {
		delayP50: late(delays.percentile(50)),
		delayP99: late(delays.percentile(99)),
		delayMax: late(delays.max),
	};
}

function larger(a: Delays, b: Delays): Delays {
	return {
		delayP50: Math.max(a.delayP50, b.delayP50),
		delayP99: Math.max(a.delayP99, b.delayP99),
		delayMax: Math.max(a.delayMax, b.delayMax),
	};
}

export const RESOLUTION_MS = 20;
export const SAMPLE_MS = 250;
export const WINDOW_MS = 10_000;

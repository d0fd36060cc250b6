import type { LoopReading } from '../../memory/stats.ts';

/** A worker's event loop, as operators see it. */
export type LoopFact = Pick<LoopReading, 'utilization' | 'delayP50' | 'delayP99' | 'delayMax'>;

/**
 * What a worker's last sample says now. A loop that is stuck takes no samples, so one that is overdue is itself the news: the loop is
 * busy, and at least so late.
 *
 * @param now monotonic milliseconds.
 * @returns `undefined` where there is no sample: the thread has just begun, or has ended.
 */
export function loopFact(reading: LoopReading, now: number): LoopFact | undefined {
	const { sampledAt, utilization, delayP50, delayP99, delayMax } = reading;
	if (sampledAt === 0) return undefined;
	const overdue = now - sampledAt - OVERDUE_MS;
	if (overdue <= 0) return { utilization, delayP50, delayP99, delayMax };
	return { utilization: 1, delayP50, delayP99: Math.max(delayP99, overdue), delayMax: Math.max(delayMax, overdue) };
}

/** Samples are taken four times a second; the next one may be late by as much again without meaning anything, ms. */
const OVERDUE_MS = 500;

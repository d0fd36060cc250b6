import type { LoopReading } from '../../memory/worker-stats.ts';

/** A worker's event loop, as operators see it. */
type LoopFact = Pick<LoopReading, 'utilization' | 'delayP50' | 'delayP99' | 'delayMax'>;

/**
 * What a worker's last sample means now. A stuck loop takes no samples, so an overdue sample shows that the loop is busy, and late by
 * at least that much.
 *
 * @param now monotonic milliseconds.
 * @returns `undefined` if there is no sample: the thread has just begun, or has ended.
 */
export function loopFact(reading: LoopReading, now: number): LoopFact | undefined {
	const { sampledAt, utilization, delayP50, delayP99, delayMax } = reading;
	if (sampledAt === 0) return undefined;
	const overdue = now - sampledAt - OVERDUE_MS;
	if (overdue <= 0) return { utilization, delayP50, delayP99, delayMax };
	return { utilization: 1, delayP50, delayP99: Math.max(delayP99, overdue), delayMax: Math.max(delayMax, overdue) };
}

/** Samples are taken four times a second; a sample that is late by as much again means nothing, ms. */
const OVERDUE_MS = 500;

/** Reading `/proc` takes a descriptor. If none is left, returns the last reading: it is needed most then. */
export function readMemory(): NodeJS.MemoryUsage {
	try {
		lastMemory = process.memoryUsage();
	} catch {
		// As above.
	}
	return lastMemory;
}

let lastMemory = process.memoryUsage();

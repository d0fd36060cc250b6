import type { ConfigInForce } from '../reload/config-in-force.ts';
import { readProcStat } from './proc-stat.ts';

/**
 * What `/process` on the metrics listener says, for `proxy reload` and `proxy drain`: which process this is, and what came of
 * its reloads. It tells and takes no orders: the signal needs the rights of the process's user.
 */
export interface ProcessFacts {
	readonly pid: number;
	/** With it a reader on another machine, or in another pid namespace, finds out that its process of that number is another one. */
	readonly startTicks: number | null;
	readonly generation: number;
	readonly reloads: { readonly success: number; readonly failure: number };
	/** Whether one is running or waits for its turn. */
	readonly reloading: boolean;
}

export function processFacts({
	generation,
	reloads: { success, failure },
	reloading,
}: Pick<ConfigInForce, 'generation' | 'reloads' | 'reloading'>): ProcessFacts {
	return { pid: process.pid, startTicks, generation, reloads: { success, failure }, reloading };
}

const startTicks = readProcStat('self')?.startTicks ?? null;

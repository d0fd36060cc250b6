import type { InForce } from '../state/in-force.ts';
import { readProcStat } from './proc-stat.ts';
import type { Phase } from './readiness.ts';

/**
 * What `/process` on the metrics listener tells `proxy reload` and `proxy drain`: which process this is, and how its reloads ended.
 * It takes no orders: the signal needs the rights of the process's user.
 */
export interface ProcessFacts {
	readonly pid: number;
	/** Shows a reader on another machine, or in another pid namespace, that its process of that number is another one. */
	readonly startTicks: number | null;
	readonly phase: Phase;
	readonly generation: number;
	readonly reloads: { readonly success: number; readonly failure: number };
	/** Why the last reload failed; empty if it did not. */
	readonly failures: readonly string[];
	/** Changed settings that only a restart applies: `tenant_rps (config.toml:3)`. */
	readonly needsRestart: readonly string[];
	/** Whether a reload is running or waiting. */
	readonly reloading: boolean;
}

export function processFacts(
	{
		generation,
		reloads: { success, failure },
		failures,
		needsRestart,
		reloading,
	}: Pick<InForce, 'generation' | 'reloads' | 'failures' | 'needsRestart' | 'reloading'>,
	phase: Phase,
): ProcessFacts {
	return {
		pid: process.pid,
		startTicks,
		phase,
		generation,
		reloads: { success, failure },
		failures: failures.slice(0, MAX_CAUSES).map((cause) => cause.slice(0, MAX_CAUSE_LENGTH)),
		needsRestart: needsRestart?.settings.map(({ words }) => words) ?? [],
		reloading,
	};
}

/** Limit of causes: readers accept 64 KiB, and a configuration may be wrong in thousands of lines. */
const MAX_CAUSES = 3;
const MAX_CAUSE_LENGTH = 4_000;

const startTicks = readProcStat('self')?.startTicks ?? null;

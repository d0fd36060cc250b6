import type { InForce } from '../state/in-force.ts';
import { readProcStat } from './proc-stat.ts';
import type { Phase } from './readiness.ts';

/**
 * What `/process` on the metrics listener says, for `proxy reload` and `proxy drain`: which process this is, and what came of
 * its reloads. It tells and takes no orders: the signal needs the rights of the process's user.
 */
export interface ProcessFacts {
	readonly pid: number;
	/** With it a reader on another machine, or in another pid namespace, finds out that its process of that number is another one. */
	readonly startTicks: number | null;
	readonly phase: Phase;
	readonly generation: number;
	readonly reloads: { readonly success: number; readonly failure: number };
	/** Why the last of them has failed; none: it has not. */
	readonly failures: readonly string[];
	/** What the file says and only a restart takes over: `tenant_rps (config.toml:3)`. */
	readonly needsRestart: readonly string[];
	/** Whether one is running or waits for its turn. */
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

/** Its readers take 64 KiB; a configuration may be wrong in thousands of lines. */
const MAX_CAUSES = 3;
const MAX_CAUSE_LENGTH = 4_000;

const startTicks = readProcStat('self')?.startTicks ?? null;

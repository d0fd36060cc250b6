import { readFileSync } from 'node:fs';
import type { InForce } from '../state/in-force.ts';
import type { Phase } from './readiness.ts';

export type ProcessFacts = ReturnType<typeof processFacts>;

/**
 * What `/process` on the metrics listener tells `proxy reload` and `proxy drain`: which process this is, and how its reloads ended.
 * It takes no orders: the signal needs the rights of the process's user.
 */
export function processFacts(
	inForce: Pick<InForce, 'generation' | 'reloads' | 'failures' | 'needsRestart' | 'reloading'>,
	phase: Phase,
) {
	const { generation, reloads, failures, needsRestart, reloading } = inForce;
	return {
		pid: process.pid,
		/** Shows a reader on another machine, or in another pid namespace, that its process of that number is another one. */
		startTicks,
		phase,
		generation,
		reloads: { success: reloads.success, failure: reloads.failure },
		/** Why the last reload failed; empty if it did not. */
		failures: failures.slice(0, MAX_CAUSES).map((cause) => cause.slice(0, MAX_CAUSE_LENGTH)),
		/** Changed settings that only a restart applies: `tenant_rps (config.toml:3)`. */
		needsRestart: needsRestart?.settings.map(({ words }) => words) ?? [],
		/** Whether a reload is running or waiting. */
		reloading,
	};
}

/** Limit of causes: readers accept 64 KiB, and a configuration may be wrong in thousands of lines. */
const MAX_CAUSES = 3;
const MAX_CAUSE_LENGTH = 4_000;

const startTicks = readProcStat('self')?.startTicks ?? null;

/** The fields of `/proc/PID/stat` (proc_pid_stat(5)) that tell a process from a later one with the same number. */
interface ProcStat {
	/** `Z` is a zombie: it has ended, and its parent has not waited for it. */
	readonly state: string;
	/** Clock ticks from the machine's boot to the start of the process. */
	readonly startTicks: number;
}

/** @returns `undefined` if there is no such process, or no `/proc`. */
export function readProcStat(pid: number | 'self'): ProcStat | undefined {
	try {
		return parseProcStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
	} catch {
		return undefined;
	}
}

export function parseProcStat(text: string): ProcStat {
	// The second field is the program's name in brackets, which may hold blanks and brackets of its own.
	const [state = '', ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ');
	return { state, startTicks: Number(rest[18]) };
}

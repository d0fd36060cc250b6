import { readFileSync } from 'node:fs';

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

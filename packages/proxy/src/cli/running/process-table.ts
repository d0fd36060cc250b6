import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { basename } from 'node:path';
import { readProcStat } from '../../control/admin/process-facts.ts';
import { PROGRAMS } from '../command.ts';

/** The system's data on a live process. Without `/proc`, no members are known. */
export interface ProcessEntry {
	/** As in `ProcessFacts`. */
	readonly startTicks?: number;
	/** ms since the epoch. Changes when the machine's clock is set. */
	readonly startedMs?: number;
	/** The command line. */
	readonly args?: readonly string[];
}

/**
 * @returns `undefined` if no process has this number any more; a zombie counts as ended. Processes of other users count as ended
 *   if `/proc` hides them (`hidepid`, systemd's `ProtectProc=`).
 */
export function readProcess(pid: number): ProcessEntry | undefined {
	const stat = readProcStat(pid);
	if (stat === undefined) return readProcStat('self') === undefined && isAlive(pid) ? {} : undefined;
	if (stat.state === 'Z' || stat.state === 'X') return undefined;
	const { startTicks } = stat;
	// Not from `btime` of /proc/stat, which systemd's `ProcSubset=pid` hides.
	const bootedMs = Date.now() - uptime() * 1_000;
	return { startTicks, startedMs: bootedMs + startTicks * TICK_MS, args: commandLine(pid) };
}

/**
 * Whether a process can be a proxy: a word of its command line is the module of the command, or one of the command's installed
 * names. True if the command line is unknown.
 */
export function mayBeProxy({ args }: ProcessEntry, mainPath: string): boolean {
	const names: readonly string[] = [...PROGRAMS, basename(mainPath)];
	return args === undefined || args.some((arg) => names.includes(basename(arg)));
}

/** `USER_HZ` is 100 on every architecture that Node runs on. */
const TICK_MS = 10;

function commandLine(pid: number): string[] {
	try {
		return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
	} catch {
		return [];
	}
}

function isAlive(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		return (error as NodeJS.ErrnoException).code === 'EPERM';
	}
}

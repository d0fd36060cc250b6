import { CommandError } from '../command.ts';
import type { Found } from './find.ts';
import type { Machine } from './machine.ts';

/** @throws CommandError if the process has ended or belongs to another user. */
export function sendSignal({ pid }: Found, signal: NodeJS.Signals, machine: Machine): void {
	try {
		machine.signal(pid, signal);
	} catch (error) {
		const { code, message } = error as NodeJS.ErrnoException;
		if (code === 'ESRCH') throw new CommandError(`process ${pid} is gone`);
		if (code !== 'EPERM') throw new CommandError(`process ${pid}: ${message}`);
		throw new CommandError(`process ${pid} belongs to another user (EPERM); run the command as that user, or as root`);
	}
}

/** Whether the process has ended; another process may have its number by then. */
export function hasGone({ pid, startTicks }: Found, machine: Machine): boolean {
	const entry = machine.readProcess(pid);
	return entry === undefined || entry.startTicks !== startTicks;
}

/** For example `3.2 s`. */
export function seconds(ms: number): string {
	return `${(ms / 1_000).toFixed(1)} s`;
}

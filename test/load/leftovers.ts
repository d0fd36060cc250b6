/** What the proxy must not have kept when all its clients have left, and what it must not have said meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises';
import { openFiles, residentBytes } from '../fixtures/proc.ts';
import type { ProxyProcess } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { disagreements, notAtRest } from './agreement.ts';
import type { FaultRun } from './fault-run.ts';

export interface ProcessLeft {
	/** Resident, bytes. */
	readonly memory: number;
	readonly descriptors: number;
}

export function processLeft({ pid }: ProxyProcess): ProcessLeft {
	return { memory: residentBytes(pid), descriptors: openFiles(pid) };
}

/**
 * Environment of a process that is to give memory back: by default glibc keeps large blocks that have been freed for the
 * next time, and what stays resident says nothing of leaks (`mallopt(3)`, M_MMAP_THRESHOLD).
 */
export const GIVES_MEMORY_BACK = { MALLOC_MMAP_THRESHOLD_: '131072' };

/** Well above the 4 s for which an idle upstream connection is kept, on a busy machine too. */
const SETTLED_MS = 60_000;
/** Health probes come and go all the time, and there is one for each upstream. */
const PROBES = 2;
/** Opened once by each thread, when it first needs it: random numbers, name look-ups. */
const LATE = 8;

/**
 * @param before with no client there.
 * @param expected messages of errors that the run has caused on purpose.
 * @returns all that is still there, in words. The clients are gone.
 */
export async function faultsLeft(run: FaultRun, before: ProcessLeft, expected: string[] = []): Promise<string[]> {
	const { proxy } = run;
	const left = ['the gauges could not be read'];
	const look = async () => {
		const { descriptors } = processLeft(proxy);
		left.splice(0, left.length, ...notAtRest(await proxy.metrics()));
		if (descriptors > before.descriptors + PROBES * run.lanes.length + LATE) {
			left.push(`${descriptors} descriptors are open, ${before.descriptors} before`);
		}
		if (left.length > 0) await sleep(200);
		return left.length === 0;
	};
	await until(look, 'the connections to go', SETTLED_MS).catch(() => {});
	return [...left, ...disagreements(await proxy.metrics(), run.ledger, run.talks), ...complaints(proxy, expected)];
}

/** What a proxy in good health does not say. */
export function complaints({ logs, strayLines, stderr }: ProxyProcess, expected: readonly string[] = []): string[] {
	const errors = logs
		.filter(({ level, message }) => level.toLowerCase() === 'error' && !expected.includes(message))
		.map((line) => JSON.stringify(line));
	const lines = stderr.split('\n').filter((line) => line !== '' && !INSPECTOR.test(line));
	return [...errors, ...strayLines, ...lines].map((line) => `the proxy said ${line}`);
}

const INSPECTOR = /^(Debugger|For help, see: https:\/\/nodejs)/;

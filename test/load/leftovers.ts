/** What the proxy must not keep after its clients have left, and must not log meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises';
import { openFiles, residentBytes } from '../fixtures/proc.ts';
import type { ProxyProcess } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { disagreements, notAtRest } from './agreement.ts';
import type { FaultRun } from './fault-run.ts';

export interface ProcessLeft {
	/** Resident memory, bytes. */
	readonly memory: number;
	readonly descriptors: number;
}

export function processLeft({ pid }: ProxyProcess): ProcessLeft {
	return { memory: residentBytes(pid), descriptors: openFiles(pid) };
}

/**
 * Environment of a process that must return memory. By default glibc keeps large freed blocks, and then resident memory shows nothing about
 * leaks (`mallopt(3)`, M_MMAP_THRESHOLD).
 */
export const GIVES_MEMORY_BACK = { MALLOC_MMAP_THRESHOLD_: '131072' };

/** Well above the 4 s idle timeout of upstream connections, even on a busy machine. */
const SETTLED_MS = 60_000;
/** Health probes come and go; each upstream has one. */
const PROBES = 2;
/** Each thread opens these once, when it first needs them: random numbers, name lookups. */
const LATE = 8;

/**
 * @param before measured without clients.
 * @param expected error messages that the run causes on purpose.
 * @returns everything that is left after the clients have gone, as text.
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

/** Log lines that a healthy proxy does not write. */
export function complaints({ logs, strayLines, stderr }: ProxyProcess, expected: readonly string[] = []): string[] {
	const errors = logs
		.filter(({ level, message }) => level.toLowerCase() === 'error' && !expected.includes(message))
		.map((line) => JSON.stringify(line));
	const lines = stderr.split('\n').filter((line) => line !== '' && !INSPECTOR.test(line));
	return [...errors, ...strayLines, ...lines].map((line) => `the proxy said ${line}`);
}

const INSPECTOR = /^(Debugger|For help, see: https:\/\/nodejs)/;

import { readdir, readFile } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openFilesLimit } from '../descriptor-limit.ts';
import { readMemory } from '../facts/process.ts';
import type { Exposition } from './exposition.ts';
import { FAMILIES } from './family-table.ts';

/** Facts about the process that take time to read. */
interface ProcessReading {
	/** Seconds for one turn of the main thread's event loop. Workers have their own loops. */
	readonly eventLoopLag: number;
	/** `undefined` if the system has no `/proc`. */
	readonly openFiles: number | undefined;
	/** Bytes; `undefined` likewise. */
	readonly virtualMemory: number | undefined;
}

export async function readProcess(): Promise<ProcessReading> {
	const start = performance.now();
	await nextTurn();
	const eventLoopLag = (performance.now() - start) / 1000;
	// Reading the folder opens a descriptor, which is counted.
	const openFiles = await readdir('/proc/self/fd').then(
		(entries) => entries.length - 1,
		({ code }: NodeJS.ErrnoException) => (code === 'EMFILE' ? maxOpenFiles : undefined),
	);
	return { eventLoopLag, openFiles, virtualMemory: await readVirtualMemory() };
}

/** `VmSize` (proc(5)). */
async function readVirtualMemory(): Promise<number | undefined> {
	const status = await readFile('/proc/self/status', 'latin1').catch(() => '');
	const kib = /^VmSize:\s+(\d+) kB$/m.exec(status)?.[1];
	return kib === undefined ? undefined : Number(kib) * 1024;
}

/** The basics, under the names that every dashboard knows. They cover the whole process with all its threads. */
export function writeProcessFamilies(page: Exposition, reading: ProcessReading): void {
	const { eventLoopLag, openFiles, virtualMemory } = reading;
	const cpu = process.cpuUsage();
	const memory = readMemory();
	const [major, minor, patch] = process.versions.node.split('.') as [string, string, string];
	const one = (family: (typeof FAMILIES)[keyof typeof FAMILIES], value: number | undefined) => {
		if (value !== undefined) page.family(family).sample(value, {}, startSeconds);
	};
	one(FAMILIES.processCpu, (cpu.user + cpu.system) / 1e6);
	one(FAMILIES.processCpuUser, cpu.user / 1e6);
	one(FAMILIES.processCpuSystem, cpu.system / 1e6);
	one(FAMILIES.processResident, memory.rss);
	one(FAMILIES.processVirtual, virtualMemory);
	one(FAMILIES.processStart, startSeconds);
	one(FAMILIES.processOpenFds, openFiles);
	one(FAMILIES.processMaxFds, maxOpenFiles);
	page.family(FAMILIES.nodeVersion).sample(1, { version: process.version, major, minor, patch });
	one(FAMILIES.nodeLoopLag, eventLoopLag);
	one(FAMILIES.nodeHeapUsed, memory.heapUsed);
	one(FAMILIES.nodeHeapTotal, memory.heapTotal);
	one(FAMILIES.nodeExternal, memory.external);
}

const startSeconds = performance.timeOrigin / 1000;
/** It does not change under a running Node. */
const maxOpenFiles = openFilesLimit();

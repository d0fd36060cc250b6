import { readdir } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openFilesLimit } from '../descriptor-limit.ts';
import type { Exposition } from './exposition.ts';

/** What of the process takes time to find out. */
export interface ProcessReading {
	/** Seconds that the main thread's event loop took to come round once; the workers have loops of their own. */
	readonly eventLoopLag: number;
	/** `undefined` where the system has no `/proc`. */
	readonly openFiles: number | undefined;
}

export async function readProcess(): Promise<ProcessReading> {
	const start = performance.now();
	await nextTurn();
	const eventLoopLag = (performance.now() - start) / 1000;
	// The folder's own reading is open meanwhile, and counted.
	const openFiles = await readdir('/proc/self/fd').then(
		(entries) => entries.length - 1,
		({ code }: NodeJS.ErrnoException) => (code === 'EMFILE' ? maxOpenFiles : undefined),
	);
	return { eventLoopLag, openFiles };
}

/** The basics under the names that every dashboard knows; they are the whole process's, all threads included. */
export function writeProcessFamilies(page: Exposition, { eventLoopLag, openFiles }: ProcessReading): void {
	const cpu = process.cpuUsage();
	const memory = readMemory();
	const gauge = (name: string, help: string, value: number) => page.family(name, 'gauge', help).sample(value);
	page
		.family('process_cpu_seconds_total', 'counter', 'User and system CPU time, in seconds.')
		.sample((cpu.user + cpu.system) / 1e6);
	gauge('process_resident_memory_bytes', 'Resident memory, in bytes.', memory.rss);
	gauge('process_start_time_seconds', 'Start of the process, in seconds since the epoch.', startSeconds);
	if (openFiles !== undefined) gauge('process_open_fds', 'Open file descriptors.', openFiles);
	gauge('process_max_fds', 'Soft limit of open file descriptors.', maxOpenFiles);
	gauge('nodejs_eventloop_lag_seconds', "Delay of the main thread's event loop at this scrape.", eventLoopLag);
	gauge('nodejs_heap_size_used_bytes', 'Heap of the main thread in use, in bytes.', memory.heapUsed);
	gauge('nodejs_heap_size_total_bytes', 'Heap of the main thread, in bytes.', memory.heapTotal);
	gauge(
		'nodejs_external_memory_bytes',
		"Memory outside the heap that the main thread's objects hold, in bytes.",
		memory.external,
	);
}

/** Takes a descriptor, to read `/proc`; and where there is none left, a scrape is wanted more than ever. */
function readMemory(): NodeJS.MemoryUsage {
	try {
		lastMemory = process.memoryUsage();
	} catch {
		// What was read last will do.
	}
	return lastMemory;
}
let lastMemory = process.memoryUsage();

const startSeconds = performance.timeOrigin / 1000;
/** It does not change under a running Node. */
const maxOpenFiles = openFilesLimit();

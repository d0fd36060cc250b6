import { setFlagsFromString } from 'node:v8';

/**
 * How V8 keeps the workers' heaps (`bench/RESULTS.md` has what each was measured to do). To be called before the first worker
 * starts: the settings are the process's, and a heap takes them up when it is made.
 */
export function configureHeaps(): void {
	for (const flag of HEAP_FLAGS) setFlagsFromString(flag);
}

export const HEAP_FLAGS = [
	// MiB of each half of the young generation. What a request leaves behind dies at once, so little is copied however often
	// it is collected; and what is used again that soon stays in the processor's caches, and takes less memory.
	'--max-semi-space-size=4',
	// The memory of new buffers counts against a limit of its own, which grows with what is in use. Otherwise it counts as
	// growth of the old generation, and 25 MiB of uploads, each piece of them a new buffer of Node's, are a full collection.
	'--external-memory-accounted-in-global-limit',
] as const;

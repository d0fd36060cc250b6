import { setFlagsFromString } from 'node:v8';

/**
 * How V8 keeps the workers' heaps (`bench/RESULTS.md` has what each was measured to do). To be called before the first worker
 * starts: the settings are the process's, and a heap takes them up when it is made.
 */
export function configureHeaps(): void {
	for (const flag of HEAP_FLAGS) setFlagsFromString(flag);
}

export const HEAP_FLAGS = [
	// V8 makes objects in the old generation at once if those of their kind have often lived long. Ours live as long as a
	// request, so now and then one is misjudged, and as garbage of the old generation keeps alive all it points to.
	'--no-allocation-site-pretenuring',
	// Per cent by which the old generation grows before a full collection; V8's own choice is up to 300. What has got there
	// waits for it, and the more there is the longer is the pause.
	'--heap-growing-percent=100',
	// The memory of new buffers counts against a limit of its own, which grows with what is in use. Otherwise it counts as
	// growth of the old generation, and 25 MiB of uploads, each piece of them a new buffer of Node's, are a full collection.
	'--external-memory-accounted-in-global-limit',
] as const;

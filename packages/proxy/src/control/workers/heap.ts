import { setFlagsFromString } from 'node:v8';

/**
 * How V8 keeps the workers' heaps (`bench/RESULTS.md` has what each was measured to do). To be called before the first worker
 * starts: the settings are the process's, and a heap takes them up when it is made.
 *
 * @param bodyMode of this build.
 */
export function configureHeaps(bodyMode: string): void {
	for (const flag of heapFlags(bodyMode)) setFlagsFromString(flag);
}

export function heapFlags(bodyMode: string): readonly string[] {
	// Bodies that pass through are buffers of Node's that outlive collections which come too soon, and uploads cost a tenth more.
	return bodyMode === 'streaming' ? [BUFFERS_APART] : [BUFFERS_APART, SMALL_YOUNG_GENERATION];
}

/**
 * The memory of new buffers counts against a limit of its own, which grows with the memory in use. Otherwise it counts as growth
 * of the old generation, and 25 MiB of uploads, each piece of them a new buffer of Node's, are a full collection.
 */
const BUFFERS_APART = '--external-memory-accounted-in-global-limit';
/**
 * MiB of each half of the young generation, of which V8 takes up to 16. What a request leaves behind dies at once, so hardly
 * anything is copied however often it is collected, and memory that is reused so soon stays in the processor's caches.
 */
const SMALL_YOUNG_GENERATION = '--max-semi-space-size=4';

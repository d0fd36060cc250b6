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
	const both = [BUFFERS_APART, ROOM_FOR_BUFFERS];
	return bodyMode === 'streaming' ? both : [...both, SMALL_YOUNG_GENERATION];
}

/**
 * The memory of new buffers counts against a limit of its own, which grows with the memory in use. Otherwise it counts as growth
 * of the old generation, and 25 MiB of uploads, each piece of them a new buffer of Node's, are a full collection.
 */
const BUFFERS_APART = '--external-memory-accounted-in-global-limit';
/**
 * MiB to which a heap and its buffers may grow before V8 collects garbage in all of it. About 14 MiB are in use, and V8's own limit is a
 * few MiB above that. Buffers of reads die with the next collection of the young generation, but before it they reach that limit, under
 * a flood several times a second. Each full collection then stops a worker for 5 to 15 ms, and frees nothing.
 */
const ROOM_FOR_BUFFERS = '--initial-old-space-size=64';
/**
 * MiB of each half of the young generation, of which V8 takes up to 16. What a request leaves behind dies at once, so hardly
 * anything is copied however often it is collected, and memory that is reused so soon stays in the processor's caches.
 */
const SMALL_YOUNG_GENERATION = '--max-semi-space-size=4';

import { setFlagsFromString } from 'node:v8';

/**
 * Sets V8's flags for the workers' heaps (measured effects: `bench/DECISIONS.md`). Call it before the first worker starts: the
 * settings belong to the process, and a heap reads them when it is created.
 */
export function configureHeaps(): void {
	for (const flag of HEAP_FLAGS) setFlagsFromString(flag);
}

/**
 * The memory of new buffers counts against a limit of its own, which grows with the memory in use. Otherwise it counts as growth
 * of the old generation, and every 25 MiB of new buffers cause a full collection.
 */
const BUFFERS_APART = '--external-memory-accounted-in-global-limit';
/**
 * MiB to which a heap and its buffers may grow before V8 collects garbage in all of it. About 14 MiB are in use, and V8's own limit is a
 * few MiB above that. Short-lived buffers and remembered fields reach that limit, under a flood several times a second. Each full
 * collection then stops a worker for 5 to 15 ms, and frees nothing.
 */
const ROOM_FOR_BUFFERS = '--initial-old-space-size=64';
/**
 * MiB of each half of the young generation; V8's own maximum is 16. The garbage of a request dies at once, so frequent
 * collections copy hardly anything, and memory that is reused so soon stays in the processor's caches.
 */
const SMALL_YOUNG_GENERATION = '--max-semi-space-size=8';

export const HEAP_FLAGS: readonly string[] = [BUFFERS_APART, ROOM_FOR_BUFFERS, SMALL_YOUNG_GENERATION];

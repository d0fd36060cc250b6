import { setFlagsFromString } from 'node:v8';

/**
 * How V8 keeps the workers' heaps; all of it was measured (`bench/RESULTS.md`). To be called before the first worker
 * starts: the settings are the process's, and a heap takes them up when it is made.
 */
export function configureHeaps(): void {
	for (const flag of HEAP_FLAGS) setFlagsFromString(flag);
}

export const HEAP_FLAGS = [
	// V8 makes objects in the old generation at once if those of their kind have often lived long. Ours live as long as a
	// request, so now and then one is misjudged, and as garbage of the old generation keeps alive all it points to.
	'--no-allocation-site-pretenuring',
	// Per cent by which the old generation grows before a full collection; V8's own choice is up to 300. Each request field
	// of HTTP/2 is a string there, whose bytes lie outside of the heap, until then: more of them cost more memory and a
	// longer pause at once.
	'--heap-growing-percent=100',
] as const;

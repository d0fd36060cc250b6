/** Reading `/proc` takes a descriptor. If none is left, returns the last reading: it is needed most then. */
export function readMemory(): NodeJS.MemoryUsage {
	try {
		lastMemory = process.memoryUsage();
	} catch {
		// As above.
	}
	return lastMemory;
}

let lastMemory = process.memoryUsage();

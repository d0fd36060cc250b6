/** Takes a descriptor, to read `/proc`. Where there is none left what was read last will do: then it is wanted more than ever. */
export function readMemory(): NodeJS.MemoryUsage {
	try {
		lastMemory = process.memoryUsage();
	} catch {
		// As above.
	}
	return lastMemory;
}

let lastMemory = process.memoryUsage();

/** Stops this thread for about so many milliseconds. Linux may add 0.05 ms (timer slack). */
export function sleep(ms: number): void {
	Atomics.wait(CELL, 0, 0, ms);
}

const CELL = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

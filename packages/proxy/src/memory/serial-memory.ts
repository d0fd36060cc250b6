import { type SerialMemory, SerialTable, serialMemorySizes } from '../identity/serial-table.ts';

/**
 * Puts serial numbers into memory that all threads share.
 *
 * @param serials contents of DER INTEGERs.
 * @param pause called after each, since there may be hundreds of thousands; returns a promise when it is time to yield.
 */
export async function shareSerials(
	serials: readonly Uint8Array[],
	pause: () => Promise<void> | undefined,
): Promise<SerialMemory> {
	const sizes = serialMemorySizes(
		serials.length,
		serials.reduce((sum, { length }) => sum + length, 0),
	);
	const memory = {
		places: new Uint32Array(new SharedArrayBuffer(4 * sizes.places)),
		octets: new Uint8Array(new SharedArrayBuffer(sizes.octets)),
	};
	const table = new SerialTable(memory);
	for (const serial of serials) {
		table.add(serial);
		const paused = pause();
		if (paused) await paused;
	}
	return memory;
}

/**
 * A set of serial numbers in two pieces of memory. Hundreds of thousands of entries need no objects, and threads that share the
 * memory need no copies. It is filled once, before other threads get it, and only read from then on.
 */
export interface SerialMemory {
	/** Open addressing: the number of places is a power of two. Each holds the offset of a serial number in `octets`, or 0 if it is free. */
	readonly places: Uint32Array<ArrayBufferLike>;
	/** The serial numbers one after the other, each as its length and octets; the first octet is unused. */
	readonly octets: Uint8Array<ArrayBufferLike>;
}

/** Sizes of the two, with at most half of the places taken. @param octets of all serial numbers together. */
export function serialMemorySizes(
	serials: number,
	octets: number,
): { readonly places: number; readonly octets: number } {
	return { places: 2 ** Math.ceil(Math.log2(2 * serials + 1)), octets: 1 + serials + octets };
}

/** RFC 5280 section 4.1.2.2 allows 20 octets; longer than this is refused. */
export const MAX_SERIAL_OCTETS = 255;

export class SerialTable {
	readonly #memory: SerialMemory;
	/** The offset after the last one that this object has added. */
	#end = 1;

	constructor(memory: SerialMemory) {
		this.#memory = memory;
	}

	/** @param serial content of its DER INTEGER. */
	has(serial: Uint8Array): boolean {
		return this.#memory.places[this.#placeOf(serial)] !== 0;
	}

	add(serial: Uint8Array): void {
		const { places, octets } = this.#memory;
		const place = this.#placeOf(serial);
		if (places[place] !== 0) return;
		octets[this.#end] = serial.length;
		octets.set(serial, this.#end + 1);
		places[place] = this.#end;
		this.#end += 1 + serial.length;
	}

	/** The place of a serial number, or the free place where it would be. */
	#placeOf(serial: Uint8Array): number {
		const { places } = this.#memory;
		const mask = places.length - 1;
		for (let place = hash(serial) & mask; ; place = (place + 1) & mask) {
			if (places[place] === 0 || this.#isAt(places[place]!, serial)) return place;
		}
	}

	#isAt(offset: number, serial: Uint8Array): boolean {
		const { octets } = this.#memory;
		if (octets[offset] !== serial.length) return false;
		for (let i = 0; i < serial.length; i++) if (octets[offset + 1 + i] !== serial[i]) return false;
		return true;
	}
}

/** FNV-1a, without a key: the CA chooses the numbers, and has no reason to attack its own list. */
function hash(bytes: Uint8Array): number {
	let value = 0x811c9dc5;
	for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193);
	return value ^ (value >>> 15);
}

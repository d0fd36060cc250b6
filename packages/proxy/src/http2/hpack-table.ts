/** The tables of HPACK (RFC 7541 section 2.3 and appendix A). */

/** Appendix A, names and values. The first entry has index 1. */
export const STATIC_TABLE: readonly (readonly [name: string, value: string])[] = (
	':authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204|' +
	':status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|' +
	'accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|' +
	'content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|' +
	'cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|' +
	'last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|' +
	'server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate'
)
	.split('|')
	.map((entry) => {
		const space = entry.indexOf(' ');
		return space === -1 ? [entry, ''] : [entry.slice(0, space), entry.slice(space + 1)];
	});

/** Initial size of a table, bytes (RFC 9113 section 6.5.2). */
export const INITIAL_TABLE_SIZE = 4096;
/** Bytes that an entry counts in addition to its name and value (RFC 7541 section 4.1). */
export const ENTRY_OVERHEAD = 32;

export interface TableEntry {
	readonly name: string;
	readonly value: string;
}

/**
 * The dynamic table of one direction: a ring, newest entry first. An entry is an object, or only its text in `#text`. Objects that wait here to be
 * evicted survive collections of the young generation, which copy them: a worker stands still for up to 13 ms.
 */
export class DynamicTable<Entry extends TableEntry> {
	/** Changes with every new entry and every new size. */
	version = 0;
	readonly #make: (name: string, value: string) => Entry;
	/** `undefined`: there is no entry, or only its text. */
	#entries: (Entry | undefined)[] = [];
	/** Texts of entries, and where they are: begin, length of the name, length of the value. Both are empty until the first text comes. */
	#text: Buffer = NOTHING;
	#places: Uint16Array = NO_PLACES;
	#textEnd = 0;
	/** Index of the newest entry. */
	#newest = 0;
	#count = 0;
	#size = 0;
	#maxSize = INITIAL_TABLE_SIZE;

	/** @param make makes an entry of its text. */
	constructor(make: (name: string, value: string) => Entry) {
		this.#make = make;
	}

	get length(): number {
		return this.#count;
	}

	/** @param index 0 is the newest. An entry of text becomes an object: a block may refer to it thousands of times. */
	at(index: number): Entry | undefined {
		if (index >= this.#count) return undefined;
		const slot = (this.#newest + index) & (this.#entries.length - 1);
		return this.#entries[slot] ?? this.#fromText(slot);
	}

	/**
	 * RFC 7541 section 4.4: a new entry may evict all others, and may itself be too large to be added.
	 *
	 * @param keeps the object is kept, otherwise its text.
	 */
	add(entry: Entry, keeps: boolean): void {
		this.version++;
		const size = entry.name.length + entry.value.length + ENTRY_OVERHEAD;
		this.#evictTo(this.#maxSize - size);
		if (size > this.#maxSize) return;
		if (!keeps && this.#text === NOTHING) this.#makeRoomForText();
		if (this.#count === this.#entries.length) this.#grow(Math.max(8, 2 * this.#count));
		this.#newest = (this.#newest - 1) & (this.#entries.length - 1);
		if (keeps) this.#entries[this.#newest] = entry;
		else this.#write(entry, this.#newest);
		this.#count++;
		this.#size += size;
	}

	/** RFC 7541 section 4.3. @param size bytes. */
	resize(size: number): void {
		this.version++;
		this.#maxSize = size;
		this.#evictTo(size);
	}

	#evictTo(size: number): void {
		while (this.#count > 0 && this.#size > size) {
			const oldest = (this.#newest + --this.#count) & (this.#entries.length - 1);
			const entry = this.#entries[oldest];
			this.#size -= ENTRY_OVERHEAD;
			if (entry !== undefined) this.#size -= entry.name.length + entry.value.length;
			else this.#size -= this.#places[3 * oldest + 1]! + this.#places[3 * oldest + 2]!;
			this.#entries[oldest] = undefined;
		}
	}

	/** The capacity is a power of two, and small at first: most connections repeat a few fields. */
	#grow(capacity: number): void {
		const entries: (Entry | undefined)[] = new Array(capacity).fill(undefined);
		for (let i = 0; i < this.#count; i++) entries[i] = this.at(i);
		this.#entries = entries;
		this.#newest = 0;
	}

	/** From now on the capacity is the largest, so places do not change any more. */
	#makeRoomForText(): void {
		this.#grow(MAX_ENTRIES);
		this.#places = new Uint16Array(3 * MAX_ENTRIES);
		this.#text = Buffer.allocUnsafeSlow(TEXT_BYTES);
	}

	#write({ name, value }: Entry, slot: number): void {
		// Less than half of the memory is in use, in one piece, so its other end is free.
		const begin = this.#textEnd + name.length + value.length <= TEXT_BYTES ? this.#textEnd : 0;
		this.#textEnd = put(value, this.#text, put(name, this.#text, begin));
		this.#places[3 * slot] = begin;
		this.#places[3 * slot + 1] = name.length;
		this.#places[3 * slot + 2] = value.length;
	}

	#fromText(slot: number): Entry {
		const begin = this.#places[3 * slot]!;
		const middle = begin + this.#places[3 * slot + 1]!;
		const end = middle + this.#places[3 * slot + 2]!;
		const entry = this.#make(this.#text.toString('latin1', begin, middle), this.#text.toString('latin1', middle, end));
		this.#entries[slot] = entry;
		return entry;
	}
}

/** Most texts are short: a call of `Buffer.write` would cost more. @returns where it ends. */
function put(text: string, bytes: Buffer, at: number): number {
	for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
	return at + text.length;
}

const NOTHING = Buffer.alloc(0);
const NO_PLACES = new Uint16Array(0);
const MAX_ENTRIES = INITIAL_TABLE_SIZE / ENTRY_OVERHEAD;
/** Twice what all entries have. */
const TEXT_BYTES = 2 * INITIAL_TABLE_SIZE;

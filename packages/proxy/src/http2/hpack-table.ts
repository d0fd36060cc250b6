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

/** An entry of a table. */
export interface TableEntry {
	readonly name: string;
	readonly value: string;
}

/** The dynamic table of one direction: a ring, newest entry first. */
export class DynamicTable<Entry extends TableEntry> {
	/** Changes with every new entry and every new size. */
	version = 0;
	#entries: (Entry | undefined)[] = [];
	/** Index of the newest entry. */
	#newest = 0;
	#count = 0;
	#size = 0;
	#maxSize = INITIAL_TABLE_SIZE;

	get length(): number {
		return this.#count;
	}

	/** @param index 0 is the newest. */
	at(index: number): Entry | undefined {
		if (index >= this.#count) return undefined;
		return this.#entries[(this.#newest + index) & (this.#entries.length - 1)];
	}

	/** RFC 7541 section 4.4: a new entry may evict all others, and may itself be too large to be added. */
	add(entry: Entry): void {
		this.version++;
		const size = entry.name.length + entry.value.length + ENTRY_OVERHEAD;
		this.#evictTo(this.#maxSize - size);
		if (size > this.#maxSize) return;
		if (this.#count === this.#entries.length) this.#grow();
		this.#newest = (this.#newest - 1) & (this.#entries.length - 1);
		this.#entries[this.#newest] = entry;
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
			const { name, value } = this.#entries[oldest]!;
			this.#size -= name.length + value.length + ENTRY_OVERHEAD;
			this.#entries[oldest] = undefined;
		}
	}

	/** The capacity is a power of two, and small at first: most connections repeat a few fields. */
	#grow(): void {
		const entries: (Entry | undefined)[] = new Array(Math.max(8, 2 * this.#entries.length)).fill(undefined);
		for (let i = 0; i < this.#count; i++) entries[i] = this.at(i);
		this.#entries = entries;
		this.#newest = 0;
	}
}

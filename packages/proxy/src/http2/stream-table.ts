/**
 * Values by stream identifier: a hash table with open addressing, at most half full. Identifiers of a client are consecutive odd
 * numbers (RFC 9113 section 5.1.1), so half the number is a good hash. Deleted values are not retained. A `Map` retains them: V8
 * keeps its outgrown tables alive, with the streams that were open at that time, until it collects the old generation. Streams are
 * then copied twice before they die (`bench/DECISIONS.md`).
 */
export class StreamTable<Stream> {
	size = 0;
	/** Zero: the place is free. No stream has that identifier. */
	#ids = new Int32Array(MIN_CAPACITY);
	#streams = new Array<Stream | undefined>(MIN_CAPACITY).fill(undefined);

	get(id: number): Stream | undefined {
		return this.#streams[this.#find(id)];
	}

	set(id: number, stream: Stream): this {
		let at = this.#find(id);
		if (this.#ids[at] === 0) {
			if (++this.size * 2 > this.#ids.length) {
				this.#grow();
				at = this.#find(id);
			}
			this.#ids[at] = id;
		}
		this.#streams[at] = stream;
		return this;
	}

	/** Moves later entries of the same run up, so that no search ends too early. */
	delete(id: number): boolean {
		const ids = this.#ids;
		const mask = ids.length - 1;
		let hole = this.#find(id);
		if (ids[hole] === 0) return false;
		for (let at = (hole + 1) & mask; ids[at] !== 0; at = (at + 1) & mask) {
			const fromHome = (at - (ids[at]! >>> 1)) & mask;
			if (fromHome < ((at - hole) & mask)) continue;
			ids[hole] = ids[at]!;
			this.#streams[hole] = this.#streams[at];
			hole = at;
		}
		ids[hole] = 0;
		this.#streams[hole] = undefined;
		this.size--;
		return true;
	}

	/** @param callback may delete entries. */
	forEach(callback: (stream: Stream) => void): void {
		for (const stream of this.#streams.filter((stream) => stream !== undefined)) callback(stream);
	}

	/** The place of an identifier, or the free place where it would be. */
	#find(id: number): number {
		const ids = this.#ids;
		const mask = ids.length - 1;
		let at = (id >>> 1) & mask;
		while (ids[at] !== id && ids[at] !== 0) at = (at + 1) & mask;
		return at;
	}

	#grow(): void {
		const ids = this.#ids;
		const streams = this.#streams;
		this.#ids = new Int32Array(ids.length * 2);
		this.#streams = new Array<Stream | undefined>(ids.length * 2).fill(undefined);
		for (let i = 0; i < ids.length; i++) {
			if (ids[i] === 0) continue;
			const at = this.#find(ids[i]!);
			this.#ids[at] = ids[i]!;
			this.#streams[at] = streams[i];
		}
	}
}

const MIN_CAPACITY = 16;

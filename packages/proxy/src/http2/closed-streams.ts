/** How a stream was closed. That decides whether a late frame on it is an error (RFC 9113 section 5.1, "closed"). */
export const ENDED = 1;
/** By RST_STREAM from the client. */
export const RESET_BY_CLIENT = 2;
/** By RST_STREAM from this side: frames that were on their way are ignored. */
export const RESET_BY_US = 3;
/** No longer remembered, or skipped by a higher stream (section 5.1.1). */
export const FORGOTTEN = 0;

/**
 * The last closed streams, each kind in its own ring: thousands of normal ends do not push out the few streams that this side has
 * reset, on which late frames are not errors.
 */
export class ClosedStreams {
	readonly #rings: (Ring | undefined)[] = [undefined, undefined, undefined, undefined];
	readonly #resets: number;

	/** @param maxConcurrent streams: as many may be reset before the client learns of the first one. */
	constructor(maxConcurrent: number) {
		this.#resets = Math.min(MOST_RESETS, Math.max(LEAST_RESETS, maxConcurrent));
	}

	add(id: number, how: number): void {
		this.#rings[how] ??= new Ring(how === ENDED ? 16 : this.#resets);
		this.#rings[how].add(id);
	}

	how(id: number): number {
		for (const how of [RESET_BY_US, RESET_BY_CLIENT, ENDED]) if (this.#rings[how]?.has(id)) return how;
		return FORGOTTEN;
	}
}

/** Bounds on the remembered streams of each kind of reset. */
const LEAST_RESETS = 128;
const MOST_RESETS = 16_384;

class Ring {
	readonly #ids: Int32Array;
	#next = 0;

	constructor(capacity: number) {
		this.#ids = new Int32Array(capacity);
	}

	add(id: number): void {
		this.#ids[this.#next] = id;
		this.#next = (this.#next + 1) % this.#ids.length;
	}

	has(id: number): boolean {
		return this.#ids.includes(id);
	}
}

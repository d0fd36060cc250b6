/** How a stream was closed, which decides what a late frame on it is (RFC 9113 section 5.1, "closed"). */
export const ENDED = 1;
/** By an RST_STREAM of the client's. */
export const RESET_BY_CLIENT = 2;
/** By one of ours: what was on its way is ignored. */
export const RESET_BY_US = 3;
/** Longer ago than is remembered, or passed over by a higher stream (section 5.1.1). */
export const FORGOTTEN = 0;

/**
 * The streams that were closed last, each kind by itself: thousands that end as they should do not make a late frame on the
 * few that we have reset look like a fault.
 */
export class ClosedStreams {
	readonly #rings: (Ring | undefined)[] = [undefined, undefined, undefined, undefined];
	readonly #resets: number;

	/** @param maxConcurrent streams. As many may be reset before the client hears of the first one. */
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

/** Streams that are remembered of each kind of reset. */
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

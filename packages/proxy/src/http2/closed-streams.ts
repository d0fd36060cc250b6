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

	/** @param maxConcurrent streams: as many may be reset before the peer learns of the first one. */
	constructor(maxConcurrent: number) {
		this.#resets = Math.min(MOST_RESETS, Math.max(LEAST_RESETS, maxConcurrent));
	}

	/** @param window bytes that the peer was still allowed to send on it. */
	add(id: number, how: number, window = 0): void {
		this.#rings[how] ??= new Ring(how === ENDED ? 16 : this.#resets);
		this.#rings[how].add(id, window);
	}

	/** A stream that may be one of the resets of ours that are forgotten counts as one: late frames of an honest peer are no error. */
	how(id: number): number {
		for (const how of [RESET_BY_US, RESET_BY_CLIENT, ENDED]) if (this.#rings[how]?.has(id)) return how;
		return id <= (this.#rings[RESET_BY_US]?.highestForgotten ?? 0) ? RESET_BY_US : FORGOTTEN;
	}

	/**
	 * DATA has come on a stream that we have reset.
	 *
	 * @returns whether the peer may have sent it before it heard of the reset: it fits into the window that it had then.
	 */
	takesLate(id: number, bytes: number): boolean {
		return this.#rings[RESET_BY_US]?.takes(id, bytes) === true;
	}

	/** The same for a header block: a whole message has at most `LATE_HEADS`. */
	takesLateHead(id: number): boolean {
		return this.#rings[RESET_BY_US]?.takesHead(id) === true;
	}
}

/** Bounds on the remembered streams of each kind of reset. */
const LEAST_RESETS = 128;
const MOST_RESETS = 16_384;
/** An interim response, a final head and trailers. */
const LATE_HEADS = 3;

class Ring {
	/** Of all streams that have made room for newer ones. */
	highestForgotten = 0;
	readonly #ids: Int32Array;
	/** What is left of their windows, bytes. */
	readonly #windows: Int32Array;
	/** How many header blocks have come since. */
	readonly #heads: Uint8Array;
	#next = 0;

	constructor(capacity: number) {
		this.#ids = new Int32Array(capacity);
		this.#windows = new Int32Array(capacity);
		this.#heads = new Uint8Array(capacity);
	}

	add(id: number, window: number): void {
		const at = this.#next;
		this.highestForgotten = Math.max(this.highestForgotten, this.#ids[at]!);
		this.#ids[at] = id;
		this.#windows[at] = window;
		this.#heads[at] = 0;
		this.#next = (at + 1) % this.#ids.length;
	}

	has(id: number): boolean {
		return this.#ids.includes(id);
	}

	takes(id: number, bytes: number): boolean {
		const at = this.#ids.indexOf(id);
		if (at === -1 || bytes > this.#windows[at]!) return false;
		this.#windows[at]! -= bytes;
		return true;
	}

	takesHead(id: number): boolean {
		const at = this.#ids.indexOf(id);
		if (at === -1 || this.#heads[at]! === LATE_HEADS) return false;
		this.#heads[at]!++;
		return true;
	}
}

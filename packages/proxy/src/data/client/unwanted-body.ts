/**
 * The rest of a request's body after its response was given. Clients that send their whole body before they read never see the response
 * if their upload is cut, so the rest is read and dropped, with limits on bytes and time.
 */
export class UnwantedBody {
	#dropped = 0;
	#seen: number;
	#looks = 0;

	/** @param seen bytes at the last look; below zero: there was none, so the next look may come at any time. */
	constructor(seen = 0) {
		this.#seen = seen;
	}

	/** Bytes. */
	get dropped(): number {
		return this.#dropped;
	}

	/** @returns whether it is still within its bound in bytes. */
	drop(bytes: number): boolean {
		this.#dropped += bytes;
		return this.#dropped <= MAX_DROPPED;
	}

	/**
	 * Call at intervals of `plane.deadlines.linger`.
	 *
	 * @param isEnding the connection takes no new requests.
	 * @returns whether the client has sent nothing since, or for too long.
	 */
	isOverdue(isEnding = false): boolean {
		const stands = this.#dropped === this.#seen;
		this.#seen = this.#dropped;
		return stands || ++this.#looks >= (isEnding ? LAST_LOOKS : LOOKS);
	}
}

/** The most bytes of one body that are read and dropped. */
export const MAX_DROPPED = 67_108_864;
/** Intervals of 2 s during which a client may go on sending: half a minute. */
const LOOKS = 15;
/** The same in a drain, which does not wait for unwanted bytes: 2 to 4 s after the response. */
const LAST_LOOKS = 2;

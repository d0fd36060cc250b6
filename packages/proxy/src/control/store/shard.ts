/** A shard is away when a call fails after this long without a good answer, ms. */
export const AWAY_MS = 750;
/** A shard is back after nothing but good answers for this long, ms: a store that alternates counts as away. */
export const BACK_MS = 500;

/** The reliability of one shard of the store, and the calls to it. Time is an argument, monotonic milliseconds. */
export class Shard {
	/** A shard begins as away: the store has not answered yet. */
	isAway = true;
	/** The last call failed, or there was none yet. */
	isFailing = true;
	underWay = 0;
	/** The main thread was held up, so the next requests to collect are old. */
	isLate = false;
	/** When the requests of the calls under way began. */
	lookedBefore: number;
	#lookedAt: number;
	#failingSince: number | undefined;
	#goodSince: number | undefined;

	constructor(now: number) {
		this.lookedBefore = now;
		this.#lookedAt = now;
	}

	/** The store has answered for the first time: shards without a call so far count as good. */
	begin(): void {
		this.isAway = false;
	}

	/** @returns whether it has come back. */
	answered(now: number): boolean {
		this.isFailing = false;
		this.#failingSince = undefined;
		if (!this.isAway) return false;
		this.#goodSince ??= now;
		if (now - this.#goodSince < BACK_MS) return false;
		this.isAway = false;
		return true;
	}

	/** @returns whether it has gone away. */
	failed(now: number): boolean {
		this.isFailing = true;
		this.#goodSince = undefined;
		this.#failingSince ??= now;
		if (this.isAway || now - this.#failingSince < AWAY_MS) return false;
		this.isAway = true;
		return true;
	}

	looked(now: number): void {
		this.lookedBefore = this.#lookedAt;
		this.#lookedAt = now;
	}

	/** @param isFull not all requests fitted into the calls: the rest keep their age. */
	collected(isFull: boolean): void {
		this.isLate = false;
		if (isFull) this.#lookedAt = this.lookedBefore;
	}

	/** Requests of that time are not charged, so their age is no delay; the call under way had been sent before. */
	heldUp(now: number): void {
		this.isLate = true;
		this.lookedBefore = now;
		this.#lookedAt = now;
	}
}

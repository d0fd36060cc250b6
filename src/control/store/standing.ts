/** After a failure without a good answer for so long a shard is away, ms. */
export const AWAY_MS = 750;
/** Good answers for so long, and none else, and it is back, ms: a store that comes and goes is away. */
export const BACK_MS = 500;

/** Whether one shard of the store can be relied on. Time is an argument. It begins away: the store has not answered yet. */
export class ShardStanding {
	isAway = true;
	#failingSince: number | undefined;
	#goodSince: number | undefined;

	/** @returns whether it has come back. */
	answered(now: number): boolean {
		this.#failingSince = undefined;
		if (!this.isAway) return false;
		this.#goodSince ??= now;
		if (now - this.#goodSince < BACK_MS) return false;
		this.isAway = false;
		return true;
	}

	/** @returns whether it has gone away. */
	failed(now: number): boolean {
		this.#goodSince = undefined;
		this.#failingSince ??= now;
		if (this.isAway || now - this.#failingSince < AWAY_MS) return false;
		this.isAway = true;
		return true;
	}

	/** The store has answered for the first time: what nobody has asked yet is taken for good. */
	begin(): void {
		this.isAway = false;
	}
}

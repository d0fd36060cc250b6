/**
 * The operations of the store that all replicas share. `test/models/ledger.ts` is the same in TypeScript, for tests and the
 * simulation.
 *
 * A tenant's rate is one moment at the store, by the store's own clock: the one at which the bucket of the whole fleet is full again (GCRA's
 * theoretical arrival time). Replicas add what they have admitted. Only durations travel, so their clocks do not matter.
 */
export interface FleetStore {
	/** A sign of life, once a second. @param delayMs how long this replica takes to settle. */
	register(leaving: boolean, delayMs: number): Promise<Registry>;

	/**
	 * Adds what was admitted, each key in one atomic step.
	 *
	 * @returns for each in turn how far the moment lies ahead of the store's own time, microseconds; `undefined` if something else has
	 *   that key. Rejects with a `StoreFailure` when there is no answer.
	 */
	settle(spendings: readonly Spending[]): Promise<readonly (number | undefined)[]>;

	/** Reports this replica's requests in flight. @returns for each in turn the total of the others; `undefined` as above. */
	report(reports: readonly SlotReport[]): Promise<readonly (number | undefined)[]>;
}

export interface Registry {
	/** Replicas that have given a sign of life in the last `REPLICA_MS`, this one included. */
	readonly replicas: number;
	/** The longest of their delays, ms. */
	readonly delayMs: number;
}

/** The moment becomes the later one of `moment + costMicros` and `now + aheadMicros`. All of a batch have one shard. */
export interface Spending {
	readonly key: bigint;
	/** What was admitted since the last time, in microseconds of the rate. */
	readonly costMicros: number;
	/** How far ahead the bucket of this replica is full again, by no more than the cost; below 0: it was full so long ago. */
	readonly aheadMicros: number;
}

export interface SlotReport {
	readonly key: bigint;
	readonly underWay: number;
}

/** A replica and its reports are forgotten this long after its last sign of life or report. */
export const REPLICA_MS = 3_000;
/** Keys are spread over this many shards in a Cluster. A tenant's rate and its slots share one. */
export const SHARDS = 64;

/** 0 to `SHARDS - 1`. */
export function shardOf(key: bigint): number {
	return Number(BigInt.asUintN(6, key));
}

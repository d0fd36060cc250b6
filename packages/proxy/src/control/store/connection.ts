/** One connection to the store, to any of its servers; a library (`redis.ts`) or a test implements it. */
export interface StoreConnection {
	/**
	 * Sends one command.
	 *
	 * @param key one of its keys, which selects the node in a Cluster; `undefined` if any node can answer.
	 * @returns the answer as RESP2 has it: text, numbers, lists of these, null.
	 */
	send(key: string | undefined, args: readonly string[]): Promise<unknown>;
	/** Closes at once; calls in flight fail. */
	close(): void;
}

/**
 * @param abandoned aborts the attempt, and closes what it has opened.
 * @param onBroken called at most once, with the cause, when the connection is known to be unusable.
 */
export type OpenStore = (abandoned: AbortSignal, onBroken: (cause: unknown) => void) => Promise<StoreConnection>;

/** A script for the store, known to it by its SHA-1 (`EVALSHA`). */
export interface StoreScript {
	readonly text: string;
	readonly sha1: string;
}

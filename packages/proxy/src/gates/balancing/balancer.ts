/**
 * Balancing: which address of an upstream gets a request. Pure: the state of the addresses, the time and the randomness are
 * arguments. Each algorithm is a file next to this one.
 */

/** The addresses of an upstream at one moment, by their index. */
export interface Candidates {
	/** Whether the address may be chosen: its breaker would admit a request. The call has no side effects. */
	admits(i: number): boolean;
	/** Requests in flight at the address, across all threads. */
	load(i: number): number;
	/** Its share relative to the others: above 0, at most its weight in the configuration. */
	weight(i: number): number;
	/** The address that the last request of the same turn of the loop went to; -1: there is none. Its load includes that request. */
	readonly latest: number;
}

export interface Balancer {
	/**
	 * @param tenant that sends the request.
	 * @returns the index of a candidate that admits; -1: none does.
	 */
	choose(candidates: Candidates, tenant: string): number;
}

/** From 0 to below 1, as `Math.random`. */
export type Random = () => number;

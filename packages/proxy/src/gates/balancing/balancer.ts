/**
 * Balancing: which address of a group gets a request. Pure: what is known of the addresses, the time and the randomness are
 * arguments. Each kind of balancing is a file next to this one.
 */

/** The addresses of a group at one moment, by their index. */
export interface Candidates {
	/** Whether it may be chosen: its breaker would admit a request. Asking changes nothing. */
	admits(i: number): boolean;
	/** Requests under way there in the whole process. */
	load(i: number): number;
	/** How much it is to get, compared with the others: above 0, at most its weight in the configuration. */
	weight(i: number): number;
}

export interface Balancer {
	/**
	 * @param tenant whose request it is.
	 * @returns an index of a candidate that admits; -1: none does.
	 */
	choose(candidates: Candidates, tenant: string): number;
}

/** From 0 to below 1, as `Math.random`. */
export type Random = () => number;

/** How requests are spread over the addresses of an `[[upstreams]]`. */
export const BALANCES = ['least-requests', 'round-robin', 'hash'] as const;
export type Balance = (typeof BALANCES)[number];

export interface BalancingSettings {
	readonly balance: Balance;
	/** Slow start: how long a recovered address gets less than its weight, ms; 0: it gets its full weight at once. */
	readonly slowStartMs: number;
	/** Retries of one request, at most. */
	readonly retries: number;
}

/** For the URL of a route, and for an `[[upstreams]]` without keys of its own. */
export const DEFAULT_BALANCING: BalancingSettings = { balance: 'least-requests', slowStartMs: 0, retries: 1 };

export const MAX_WEIGHT = 256;
export const MAX_RETRIES = 10;

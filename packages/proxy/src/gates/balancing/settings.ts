/** How requests are spread over the addresses of an `[[upstreams]]`. */
export const BALANCES = ['least-requests', 'round-robin', 'hash'] as const;
export type Balance = (typeof BALANCES)[number];

export interface BalancingSettings {
	readonly balance: Balance;
	/** How long an address that has come back gets less than its weight, ms; 0: it gets all of it at once. */
	readonly slowStartMs: number;
	/** How often one request may be sent again. */
	readonly retries: number;
}

/** Of a route's URL, and of an `[[upstreams]]` that says nothing else. */
export const DEFAULT_BALANCING: BalancingSettings = { balance: 'least-requests', slowStartMs: 0, retries: 1 };

export const MAX_WEIGHT = 256;
export const MAX_RETRIES = 10;

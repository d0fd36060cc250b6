import type { Rate } from './tenant-limit.ts';

/** What holds for the requests of one tenant. */
export interface Quota {
	/** `undefined`: no limit. */
	readonly rate: Rate | undefined;
	/** `undefined`: no limit. */
	readonly slots: RequestSlots | undefined;
}

/** The requests that a tenant may have under way at once. */
export interface RequestSlots {
	readonly limit: number;
	/** At the moment, over all threads. */
	readonly taken: number;
	/** @returns whether there was one; if so, exactly one has to be given back. */
	tryClaim(): boolean;
	release(): void;
}

export const UNLIMITED: Quota = { rate: undefined, slots: undefined };

/** Which limit a request was over: the label of a metric. */
export const RATE_LIMIT_REASONS = ['tenant', 'route', 'concurrency'] as const;
export type RateLimitReason = (typeof RATE_LIMIT_REASONS)[number];

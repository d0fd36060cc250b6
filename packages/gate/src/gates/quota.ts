import type { Rate } from './tenant-limit.ts';

/** The limits of one tenant. */
export interface Quota {
	/** `undefined`: no limit. */
	readonly rate: Rate | undefined;
	/** `undefined`: no limit. */
	readonly slots: RequestSlots | undefined;
}

/** A tenant's limit on requests in flight. */
export interface RequestSlots {
	readonly limit: number;
	/** The current number, across all threads. */
	readonly taken: number;
	/** @returns whether a slot was free; if so, release it exactly once. */
	tryClaim(): boolean;
	release(): void;
}

export const UNLIMITED: Quota = { rate: undefined, slots: undefined };

/** Which limit a request exceeded; also a metric label. */
export const RATE_LIMIT_REASONS = ['tenant', 'route', 'concurrency'] as const;
export type RateLimitReason = (typeof RATE_LIMIT_REASONS)[number];

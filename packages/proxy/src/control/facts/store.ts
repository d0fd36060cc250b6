import type { OnStoreFailure } from '../../config/config.ts';
import type { StoreFailureReason } from '../store/failure.ts';

/** The state of the store for shared limits, as operators see it. */
export interface StoreFacts {
	/** Whether the store, or a part of it, is away. */
	readonly isAway: boolean;
	/** In a Cluster: how many of its shards are away, if not all. */
	readonly part: { readonly shards: number; readonly of: number } | undefined;
	/** While it is away: why, in one word and in a sentence. */
	readonly reason: StoreFailureReason | undefined;
	readonly cause: string | undefined;
	/** How long it has been in this state, ms. */
	readonly forMs: number;
	readonly onStoreFailure: OnStoreFailure;
	/** Replicas last seen, including this one. */
	readonly replicas: number;
	/** The longest time from a request until the store's answer to it was in force, over the last seconds, ms. */
	readonly delayMs: number;
	/** Calls by outcome. */
	readonly calls: { readonly success: number; readonly failures: ReadonlyMap<StoreFailureReason, number> };
	/** Entries in force that came from the store; `undefined`: it is not asked for any. */
	readonly revocations: number | undefined;
}

/** What holds while the store is away. */
export const MEANWHILE: Readonly<Record<OnStoreFailure, string>> = {
	share: 'each replica allows its share of the limits',
	local: 'each replica allows the whole limits by itself',
	refuse: 'requests under a limit are refused',
};

/** For the body of `/readyz`: a proxy without its store is still ready. */
export function storeInWords({ isAway, part, reason, onStoreFailure, replicas }: StoreFacts): string {
	if (!isAway) return `limits shared by ${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`;
	const which = part === undefined ? 'the store' : `a part of the store (${part.shards} of ${part.of} shards)`;
	return `limits not shared, ${which} is away (${reason ?? 'no answer yet'}): ${MEANWHILE[onStoreFailure]}`;
}

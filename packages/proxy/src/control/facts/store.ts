import type { OnStoreFailure } from '../../config/config.ts';
import type { StoreFailureReason } from '../store/failure.ts';

/** What an operator may know of the store of the shared limits, at any time. */
export interface StoreFacts {
	/** Or a part of it. */
	readonly isAway: boolean;
	/** Of a Cluster: how many of its shards are away, if not all. */
	readonly part: { readonly shards: number; readonly of: number } | undefined;
	/** While it is away: why, in one word and in a sentence. */
	readonly reason: StoreFailureReason | undefined;
	readonly cause: string | undefined;
	/** For how long it has been as it is, ms. */
	readonly forMs: number;
	readonly onStoreFailure: OnStoreFailure;
	/** As last seen, this one included. */
	readonly replicas: number;
	/** The longest time of the last seconds from a request until the store's answer to it was in force, ms. */
	readonly delayMs: number;
	/** Calls by what became of them. */
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

/** For the body of `/readyz`: being without the store is no reason to get no requests. */
export function storeInWords({ isAway, part, reason, onStoreFailure, replicas }: StoreFacts): string {
	if (!isAway) return `limits shared by ${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`;
	const which = part === undefined ? 'the store' : `a part of the store (${part.shards} of ${part.of} shards)`;
	return `limits not shared, ${which} is away (${reason ?? 'no answer yet'}): ${MEANWHILE[onStoreFailure]}`;
}

import type { OnStoreFailure } from '../../config/config.ts';
import type { StoreFailureReason } from '../store/failure.ts';

/** The state of the store for shared limits, as operators see it. */
export interface StoreFacts {
	/** Whether the store, or a part of it, is unavailable. */
	readonly isAway: boolean;
	/** In a Cluster: how many of its shards are unavailable, if not all. */
	readonly part: { readonly shards: number; readonly of: number } | undefined;
	/** While it is unavailable: the reason. */
	readonly reason: StoreFailureReason | undefined;
	readonly cause: string | undefined;
	/** How long it has been in this state, ms. */
	readonly forMs: number;
	readonly onStoreFailure: OnStoreFailure;
	/** Replicas last seen, including this one. */
	readonly replicas: number;
	/** The longest time from a request until the store's answer applied here, over the last seconds, ms. */
	readonly delayMs: number;
	/** Calls by outcome. */
	readonly calls: { readonly success: number; readonly failures: ReadonlyMap<StoreFailureReason, number> };
	/** Current revocations from the store; `undefined`: revocations are not read from it. */
	readonly revocations: number | undefined;
}

/** The limits that apply while the store is unavailable. */
export const MEANWHILE: Readonly<Record<OnStoreFailure, string>> = {
	share: 'each replica allows its share of the limits',
	local: 'each replica allows the whole limit independently',
	refuse: 'requests that have a limit are refused',
};

/** For the body of `/readyz`: a proxy without its store is still ready. */
export function storeInWords({ isAway, part, reason, onStoreFailure, replicas }: StoreFacts): string {
	if (!isAway) return `limits shared by ${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`;
	const which = part === undefined ? 'the store' : `a part of the store (${part.shards} of ${part.of} shards)`;
	return `limits not shared, ${which} is unavailable (${reason ?? 'no reply yet'}): ${MEANWHILE[onStoreFailure]}`;
}

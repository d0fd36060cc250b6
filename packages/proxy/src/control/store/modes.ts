import {
	cellOf,
	DIVIDED,
	LOCAL,
	type Mode,
	REFUSED,
	SHARED,
	type StoreHealth,
} from '@mtls-edge-proxy/gate/memory/fleet/store-health.ts';
import type { OnStoreFailure } from '../../config/config.ts';

/** Limit for keys that something else has, and that are tried again. */
const MAX_FOREIGN = 1_000;

const AWAY_MODES: Readonly<Record<OnStoreFailure, Mode>> = { share: DIVIDED, local: LOCAL, refuse: REFUSED };

/** Tells workers how to limit: per shard, and per key if something else has that key at the store. */
export class Modes {
	/** Keys of limits that something else has at the store. */
	readonly foreign = new Set<bigint>();
	readonly #storeHealth: StoreHealth;
	readonly #shards: number;
	readonly #away: Mode;

	/** The store counts as away for all keys at first. */
	constructor(storeHealth: StoreHealth, shards: number, onFailure: OnStoreFailure) {
		this.#storeHealth = storeHealth;
		this.#shards = shards;
		this.#away = AWAY_MODES[onFailure];
		storeHealth.setAll(0, 1, this.#away);
	}

	shardIsAway(shard: number): void {
		this.#storeHealth.setAll(shard, this.#shards, this.#away);
	}

	shardIsBack(shard: number): void {
		this.#storeHealth.setAll(shard, this.#shards, SHARED);
		for (const key of this.foreign) this.#storeHealth.set(cellOf(key), this.#away);
	}

	/** Keys of a shard that is away keep its mode. @param isOurs whether the store had nothing else under that key. */
	keyWas(key: bigint, isOurs: boolean, shardIsAway: boolean): void {
		if (isOurs === !this.foreign.has(key)) return;
		if (isOurs) this.foreign.delete(key);
		else if (this.foreign.size < MAX_FOREIGN) this.foreign.add(key);
		else return;
		if (!shardIsAway) this.#storeHealth.set(cellOf(key), isOurs ? SHARED : this.#away);
	}
}

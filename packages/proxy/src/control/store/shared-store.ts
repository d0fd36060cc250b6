import { createHmac, randomBytes } from 'node:crypto';
import type { LimiterConfig } from '../../config/config.ts';
import type { StoreFacts } from '../facts/store.ts';
import type { StoreFiles } from '../files/store-files.ts';
import type { Timers } from '../timers.ts';
import { StoreClient } from './client.ts';
import type { OpenStore } from './connection.ts';
import type { FleetSettings } from './fleet-limits.ts';
import { redisStore } from './redis.ts';
import { RedisFleetStore } from './redis-fleet-store.ts';
import { SharedRevocations, type SharedRevocationsParts } from './shared-revocations.ts';

/**
 * The store of `[limiter]`, on the main thread: one client, through which limits are settled (`fleet-limits.ts`) and revocations are read
 * (`shared-revocations.ts`). No request and no worker ever waits for it.
 */
export class SharedStore {
	/** The replicas that share limits. */
	readonly fleet: FleetSettings;
	readonly #config: LimiterConfig;
	readonly #client: StoreClient;

	/** @param open default: the store that the configuration names. */
	constructor(config: LimiterConfig, files: StoreFiles, timers: Timers, open: OpenStore = redisStore(config, files)) {
		this.#config = config;
		this.#client = new StoreClient({ open, timeoutMs: config.timeoutMs, timers, random: Math.random });
		this.fleet = {
			store: new RedisFleetStore(this.#client, config.prefix, randomBytes(8).toString('hex')),
			onFailure: config.onStoreFailure,
			cluster: config.cluster,
			expected: config.replicas,
			secret: fleetSecret(config.prefix, files.secret),
		};
	}

	/** Resolves when the first attempt to connect has succeeded or failed. */
	connect(): Promise<void> {
		return this.#client.start();
	}

	close(): void {
		this.#client.stop();
	}

	/** `undefined` without `revocations`. */
	revocations(parts: Omit<SharedRevocationsParts, 'client' | 'prefix'>): SharedRevocations | undefined {
		const { revocations, prefix } = this.#config;
		return revocations ? new SharedRevocations({ ...parts, client: this.#client, prefix }) : undefined;
	}

	/** Calls by outcome. */
	get calls(): StoreFacts['calls'] {
		return this.#client.counts;
	}
}

/**
 * Keys tenants in the memory of all replicas and in the store. Without a secret of their own anybody can compute keys: then a person who
 * chooses names of tenants can choose some that collide in the limiter.
 */
function fleetSecret(prefix: string, secret: string | undefined): Uint8Array {
	return createHmac('sha256', secret ?? '')
		.update(`mtls-edge-proxy limits ${prefix}`)
		.digest();
}

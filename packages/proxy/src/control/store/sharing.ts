import { randomBytes } from 'node:crypto';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import type { LimiterConfig } from '../../config/config.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { type StoreFacts, storeInWords } from '../facts/store.ts';
import type { StoreFiles } from '../files/store-files.ts';
import type { ProcessMemory } from '../process-memory.ts';
import { type Timers, within } from '../timers.ts';
import { type OpenStore, StoreClient } from './client.ts';
import { FleetLimits } from './fleet-limits.ts';
import { redisStore } from './redis.ts';
import { RedisFleetStore } from './redis-fleet-store.ts';
import { SharedRevocations } from './shared-revocations.ts';

interface SharingParts {
	readonly config: LimiterConfig;
	readonly files: StoreFiles;
	/** With the memory of shared limits. */
	readonly memory: Pick<ProcessMemory, 'limiter' | 'concurrency' | 'fleet'>;
	/** The store's revocations have changed, and with them the result of `withRevoked`. */
	readonly onRevoked: () => void;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
}

/** Limits for the first connection and then the first answer, ms: together 2 s, as long as the listener waits for probes. */
const FIRST_CONNECTION_MS = 1_000;
const FIRST_ANSWER_MS = 1_000;

/**
 * What this process shares with other replicas, on the main thread: one client of the store of `[limiter]`, through which limits are
 * settled (`fleet-limits.ts`) and revocations are read (`shared-revocations.ts`). No request and no worker ever waits for it.
 */
export class Sharing {
	readonly #timers: Timers;
	readonly #client: StoreClient;
	readonly #fleet: FleetLimits;
	readonly #revocations: SharedRevocations | undefined;

	/** @param open default: the store that the configuration names. */
	constructor(parts: SharingParts, open: OpenStore = redisStore(parts.config, parts.files)) {
		const { config, memory, onRevoked: onChange, timers, clock, log } = parts;
		const { prefix, timeoutMs, onStoreFailure: onFailure, cluster, replicas: expected } = config;
		this.#timers = timers;
		const client = new StoreClient({ open, timeoutMs, timers, random: Math.random });
		this.#client = client;
		const store = new RedisFleetStore(client, prefix, randomBytes(8).toString('hex'));
		const limits = { onFailure, cluster, expected };
		this.#fleet = new FleetLimits({ store, ...memory, fleet: memory.fleet!, ...limits, timers, clock, log });
		const limitedLog = new RateLimitedLog(log, clock);
		this.#revocations = config.revocations
			? new SharedRevocations({ client, prefix, onChange, timers, log, limitedLog })
			: undefined;
	}

	/** Resolves when the store has answered, or its time is up. Waits for its revocations as long as they are being read. */
	async start(): Promise<void> {
		// Goes on without a connection if there is none in time.
		await within(this.#client.start(), FIRST_CONNECTION_MS, this.#timers);
		await Promise.all([this.#fleet.start(FIRST_ANSWER_MS), this.#revocations?.start()]);
	}

	/** The same material, with the store's revocations. */
	withRevoked(tls: TlsMaterial): TlsMaterial {
		return this.#revocations?.withShared(tls) ?? tls;
	}

	get facts(): StoreFacts {
		return { ...this.#fleet.facts, calls: this.#client.counts, revocations: this.#revocations?.size };
	}

	get inWords(): string {
		return storeInWords(this.facts);
	}

	/** Settles the last admissions within the time that is left. */
	async leave(): Promise<void> {
		this.#revocations?.stop();
		await this.#fleet.stop();
		this.close();
	}

	close(): void {
		this.#client.stop();
	}
}

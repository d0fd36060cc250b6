import { randomBytes } from 'node:crypto';
import type { LimiterConfig } from '../../config/config.ts';
import type { Clock } from '../../shared/clock.ts';
import type { Logger } from '../../shared/log.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import { RateLimitedLog } from '../../shared/rate-limited-log.ts';
import { MEANWHILE, type StoreFacts } from '../facts/store.ts';
import type { StoreFiles } from '../files/store-files.ts';
import type { Timers } from '../timers.ts';
import { StoreClient } from './client.ts';
import type { OpenStore } from './connection.ts';
import type { LeaseBatch, LeaseStore } from './contract.ts';
import { type Leasing, TICK_MS } from './leasing.ts';
import { redisStore } from './redis.ts';
import { RedisLeaseStore } from './redis-lease-store.ts';
import { SharedRevocations } from './shared-revocations.ts';

export interface SharedLimitsParts {
	readonly config: LimiterConfig;
	readonly files: StoreFiles;
	/** Begins with leases for the memory that the workers share. */
	readonly createLeasing: (replica: string, now: number) => Leasing;
	/** Has all workers take over the TLS material of the moment, or none; rejects with the reason. */
	readonly takeOverRevocations: () => Promise<void>;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
	/** Default: what the configuration names. */
	readonly open?: OpenStore;
}

const TARGET = 'proxy::store';
/** So long after the start a store that has not answered is not news, ms. */
const START_MS = 2_000;

/**
 * The store on the main thread: leases are kept up by ticks, revocations by polls, both through one client. No request and no worker ever
 * waits for anything here.
 */
export class SharedLimits {
	readonly #parts: SharedLimitsParts;
	readonly #client: StoreClient;
	readonly #store: LeaseStore;
	readonly #leasing: Leasing;
	readonly #revocations: SharedRevocations | undefined;
	readonly #limitedLog: RateLimitedLog;
	readonly #startedAt: number;
	#said: 'up' | 'away' | undefined;
	#cancelTicks: () => void = () => {};

	constructor(parts: SharedLimitsParts) {
		const { config, files, timers, clock, log } = parts;
		this.#parts = parts;
		this.#startedAt = clock.now();
		this.#limitedLog = new RateLimitedLog(log, clock);
		this.#client = new StoreClient({
			open: parts.open ?? redisStore(config, files),
			timeoutMs: config.timeoutMs,
			timers,
			random: Math.random,
		});
		this.#store = new RedisLeaseStore(this.#client, config.prefix);
		this.#leasing = parts.createLeasing(randomBytes(8).toString('hex'), clock.now());
		this.#revocations = config.revocations
			? new SharedRevocations({
					client: this.#client,
					prefix: config.prefix,
					takeOver: parts.takeOverRevocations,
					timers,
					log,
					limitedLog: this.#limitedLog,
				})
			: undefined;
	}

	/** Resolves when the store has been asked for revocations, and has answered or has not in time. */
	async start(): Promise<void> {
		await this.#client.start();
		this.#cancelTicks = this.#parts.timers.every(TICK_MS, () => this.#tick());
		await this.#revocations?.start();
	}

	/** There are workers. */
	serve(): void {
		this.#revocations?.serve();
	}

	/** The same material, with what is revoked in the store in addition. */
	withRevoked(tls: TlsMaterial): TlsMaterial {
		return this.#revocations?.withShared(tls) ?? tls;
	}

	/** What is left over goes back. Resolves when that is done, at the latest after so many ms. */
	async leave(limitMs: number): Promise<void> {
		const { timers, clock } = this.#parts;
		this.#cancelTicks();
		this.#revocations?.stop();
		const { promise, resolve } = Promise.withResolvers<void>();
		const cancel = timers.after(limitMs, resolve);
		void Promise.allSettled(this.#leasing.leave(clock.now()).map((batch) => this.#store.lease(batch))).then(() =>
			resolve(),
		);
		await promise;
		cancel();
		this.#client.stop();
	}

	get facts(): StoreFacts {
		const { standing } = this.#leasing;
		const { state, counts } = this.#client;
		const reason = state.type === 'away' ? state.failure.reason : undefined;
		return {
			isAway: standing.isAway,
			cause: standing.isAway ? this.#cause : undefined,
			reason: standing.isAway ? reason : undefined,
			forMs: this.#parts.clock.now() - standing.since,
			onStoreFailure: this.#parts.config.onStoreFailure,
			replicas: standing.replicas,
			leases: this.#leasing.size,
			calls: counts,
			revocations: this.#revocations?.size,
		};
	}

	get #cause(): string | undefined {
		const { state } = this.#client;
		return state.type === 'away' ? state.failure.message : this.#leasing.standing.cause;
	}

	#tick(): void {
		for (const batch of this.#leasing.tick(this.#parts.clock.now())) void this.#send(batch);
		this.#sayChange();
	}

	async #send(batch: LeaseBatch): Promise<void> {
		const { clock } = this.#parts;
		try {
			const answer = await this.#store.lease(batch);
			this.#leasing.answered(batch, answer, clock.now());
		} catch (error) {
			this.#leasing.failed(batch, (error as Error).message, clock.now());
		}
	}

	/** Each change is said, no failure by itself. */
	#sayChange(): void {
		const { isAway, replicas } = this.#leasing.standing;
		if (isAway && this.#said === undefined && this.#parts.clock.now() - this.#startedAt < START_MS) return;
		const state = isAway ? 'away' : 'up';
		if (this.#said === state) return;
		const isBack = this.#said === 'away';
		this.#said = state;
		if (!isAway) {
			const message = isBack ? 'the store is back; limits are shared' : 'limits are shared through the store';
			this.#limitedLog.write('info', TARGET, message, state, () => ({ replicas }));
			return;
		}
		const { onStoreFailure, reason, cause } = this.facts;
		this.#limitedLog.write('warn', TARGET, `the store is away; ${MEANWHILE[onStoreFailure]}`, state, () => ({
			reason,
			cause,
			replicas,
			on_store_failure: onStoreFailure,
		}));
	}
}

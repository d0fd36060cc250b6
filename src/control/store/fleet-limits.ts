import { randomBytes } from 'node:crypto';
import type { Clock } from '../../shared/clock.ts';
import type { ConcurrencyMemory } from '../../shared/concurrency.ts';
import type { LeaseMemory } from '../../shared/fleet/leases.ts';
import type { Logger } from '../../shared/log.ts';
import type { Timers } from '../timers.ts';
import type { LeaseBatch, LeaseStore } from './contract.ts';
import { Leasing, TICK_MS } from './leasing.ts';
import type { OnStoreFailure } from './standing.ts';

/** With whom a process shares its limits, and how. */
export interface FleetSettings {
	readonly store: LeaseStore;
	readonly onFailure: OnStoreFailure;
	/** Replicas to divide by before the store has said how many there are, at least 1. */
	readonly expectedReplicas: number;
	/** 32 bytes, the same in all replicas: keys tenants, in their memory and in the store. */
	readonly secret: Uint8Array;
}

export interface FleetLimitsOptions extends Omit<FleetSettings, 'secret'> {
	readonly leases: LeaseMemory;
	readonly concurrency: ConcurrencyMemory;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
	/** For tests; 16 hexadecimal digits. */
	readonly replica?: string;
}

/** What operators are told of it: gauges, `/readyz`, the status page. */
export interface FleetFacts {
	/** Whether limits are kept by leases of the store; otherwise as `on_store_failure` says. */
	readonly isLeasing: boolean;
	readonly onFailure: OnStoreFailure;
	/** As last seen. */
	readonly replicas: number;
	/** Leases there are. */
	readonly leases: number;
	/** Since the last good answer, ms; `undefined`: there has been none. */
	readonly ageMs: number | undefined;
	/** Since it is as it is, ms. */
	readonly sinceMs: number;
	/** In all, and in a row. */
	readonly failures: number;
	readonly failuresInRow: number;
	/** How often the store has gone away. */
	readonly outages: number;
	/** Of the last failure, in words. */
	readonly cause: string | undefined;
}

const TARGET = 'proxy::limiter';

/**
 * The limits that this process shares with others, on the main thread: lets `Leasing` look at its leases, and carries its batches to the
 * store and the answers back. No request waits for any of it.
 */
export class FleetLimits {
	readonly #options: FleetLimitsOptions;
	readonly #leasing: Leasing;
	#stopTicks: (() => void) | undefined;
	#wasAway = true;
	#onBack: (() => void) | undefined;
	#isStopped = false;

	constructor(options: FleetLimitsOptions) {
		const { leases, concurrency, onFailure, expectedReplicas, clock } = options;
		this.#options = options;
		this.#leasing = new Leasing({
			replica: options.replica ?? randomBytes(8).toString('hex'),
			leases,
			concurrency,
			onFailure,
			expected: expectedReplicas,
			now: clock.now(),
		});
	}

	/** Begins; resolves when the store has answered, at the latest after `limitMs`: then it goes on as if it had gone away. */
	async start(limitMs: number): Promise<void> {
		const { timers, log } = this.#options;
		this.#stopTicks = timers.every(TICK_MS, () => this.#tick());
		await new Promise<void>((resolve) => {
			const cancel = timers.after(limitMs, resolve);
			this.#onBack = () => {
				cancel();
				resolve();
			};
			this.#tick();
		});
		this.#onBack = undefined;
		const { isLeasing, onFailure, replicas, cause } = this.facts;
		if (isLeasing) return log.info(TARGET, 'limits are shared with the other replicas', { replicas });
		log.warn(TARGET, 'limiter store away', { on_store_failure: onFailure, replicas, cause: cause ?? 'no answer yet' });
	}

	/** Gives back what is left over. Resolves when that has been said, or could not be, at the latest after `limitMs`. */
	async stop(limitMs = 500): Promise<void> {
		if (this.#isStopped) return;
		this.#isStopped = true;
		this.#stopTicks?.();
		const { store, timers } = this.#options;
		const said = Promise.allSettled(this.#leasing.leave(this.#now).map((batch) => store.lease(batch)));
		await new Promise<void>((resolve) => {
			const cancel = timers.after(limitMs, resolve);
			void said.then(() => {
				cancel();
				resolve();
			});
		});
	}

	/** Once the thread has ended. */
	workerDied(): void {
		this.#leasing.workerDied(this.#now);
	}

	get facts(): FleetFacts {
		const { standing, size } = this.#leasing;
		const now = this.#now;
		return {
			isLeasing: !standing.isAway,
			onFailure: this.#options.onFailure,
			replicas: standing.replicas,
			leases: size,
			ageMs: standing.answeredAt === undefined ? undefined : now - standing.answeredAt,
			sinceMs: now - standing.since,
			failures: standing.failures,
			failuresInRow: standing.failuresInRow,
			outages: standing.outages,
			cause: standing.cause,
		};
	}

	get #now(): number {
		return this.#options.clock.now();
	}

	#tick(): void {
		if (this.#isStopped) return;
		for (const batch of this.#leasing.tick(this.#now)) void this.#carry(batch);
		this.#report();
	}

	async #carry(batch: LeaseBatch): Promise<void> {
		try {
			const answer = await this.#options.store.lease(batch);
			this.#leasing.answered(batch, answer, this.#now);
		} catch (error) {
			this.#leasing.failed(batch, (error as Error).message, this.#now);
		}
		this.#report();
	}

	/** Once for each change. */
	#report(): void {
		const { isAway, replicas, cause } = this.#leasing.standing;
		if (isAway === this.#wasAway) return;
		this.#wasAway = isAway;
		if (!isAway && this.#onBack !== undefined) return this.#onBack();
		const { log, onFailure } = this.#options;
		if (isAway) log.warn(TARGET, 'limiter store away', { on_store_failure: onFailure, replicas, cause });
		else log.info(TARGET, 'limiter store is back', { replicas });
	}
}

import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { StoreFacts } from '../facts/store.ts';
import { type Timers, within } from '../timers.ts';
import type { FleetStore } from './contract.ts';
import { failureOf, type StoreFailure } from './failure.ts';
import { keyInHex } from './redis-fleet-store.ts';
import { type Call, INTERVAL_MS, Settlement, type SettlementOptions } from './settlement.ts';

interface FleetLimitsOptions extends Omit<SettlementOptions, 'now'> {
	readonly store: FleetStore;
	readonly timers: Timers;
	readonly clock: Clock;
	readonly log: Logger;
}

const TARGET = 'proxy::limiter';
/** Answers then take longer than an interval. */
export const SLOW_MS = 2 * INTERVAL_MS;
const LAST_ANSWER_MS = 500;

/**
 * The limits that this process shares with others, on the main thread: passes spent requests to `Settlement`, and its calls to the
 * store and back. No request waits for that.
 */
export class FleetLimits {
	readonly #options: FleetLimitsOptions;
	readonly #settlement: Settlement;
	#stopTicks: (() => void) | undefined;
	/** The state that was logged last. */
	#wasAway = true;
	#wasSlow = false;
	#hadForeign = false;
	#since: number;
	#failure: StoreFailure | undefined;
	#onBegin: (() => void) | undefined;
	#isRegistering = false;
	#isStopped = false;

	constructor(options: FleetLimitsOptions) {
		this.#options = options;
		this.#since = options.clock.now();
		this.#settlement = new Settlement({ ...options, now: this.#since });
	}

	/** Starts; resolves when the store has answered, at the latest after `limitMs`: the store counts as away then. */
	async start(limitMs: number): Promise<void> {
		const { timers, log, onFailure } = this.#options;
		this.#stopTicks = timers.every(INTERVAL_MS, () => this.#tick());
		const { promise, resolve } = Promise.withResolvers<void>();
		this.#onBegin = resolve;
		this.#tick();
		await within(promise, limitMs, timers);
		this.#onBegin = undefined;
		const { replicas } = this.facts;
		if (!this.#wasAway) return log.info(TARGET, 'limits are shared with the other replicas', { replicas });
		const cause = this.#failure?.message ?? 'no reply yet';
		log.warn(TARGET, 'limiter store is unavailable', { on_store_failure: onFailure, replicas, cause });
	}

	/** Settles the rest. Resolves with its success or failure, at the latest after half a second. */
	async stop(): Promise<void> {
		if (this.#isStopped) return;
		this.#isStopped = true;
		this.#stopTicks?.();
		const { store, timers } = this.#options;
		const { calls } = this.#settlement.tick(this.#now);
		const said = Promise.allSettled([...calls.map((call) => this.#carry(call)), store.register(true, 0)]);
		await within(said, LAST_ANSWER_MS, timers);
	}

	get facts(): Omit<StoreFacts, 'calls' | 'revocations'> {
		const { away, delayMs, storeHealth } = this.#settlement;
		const isAway = away.shards > 0;
		return {
			isAway,
			part: isAway && away.shards < away.of ? away : undefined,
			reason: isAway ? this.#failure?.reason : undefined,
			cause: isAway ? this.#failure?.message : undefined,
			forMs: this.#now - this.#since,
			onStoreFailure: this.#options.onFailure,
			replicas: storeHealth.replicas,
			delayMs,
		};
	}

	get #now(): number {
		return this.#options.clock.now();
	}

	#tick(): void {
		const { calls, register } = this.#settlement.tick(this.#now);
		for (const call of calls) void this.#carry(call);
		if (register && !this.#isRegistering) void this.#register();
		this.#report();
	}

	async #carry(call: Call): Promise<void> {
		const { store } = this.#options;
		const { spendings, reports } = call;
		try {
			const answers = await (spendings.length > 0 ? store.settle(spendings) : store.report(reports));
			this.#settlement.answered(call, answers, this.#now);
		} catch (error) {
			this.#failure = failureOf(error);
			this.#settlement.failed(call, this.#failure.reason !== 'timeout', this.#now);
		}
		this.#report();
	}

	async #register(): Promise<void> {
		const { store } = this.#options;
		this.#isRegistering = true;
		try {
			this.#settlement.registered(await store.register(false, this.#settlement.delayMs), this.#now);
		} catch (error) {
			this.#failure = failureOf(error);
			this.#settlement.notRegistered(this.#now);
		}
		this.#isRegistering = false;
		this.#report();
	}

	/** Logs each change once. */
	#report(): void {
		if (this.#isStopped) return;
		const { log, onFailure } = this.#options;
		const { isAway, part, replicas, delayMs, cause } = this.facts;
		if (isAway !== this.#wasAway) {
			this.#wasAway = isAway;
			this.#since = this.#now;
			const shards = part && { shards: `${part.shards} of ${part.of}` };
			if (this.#onBegin !== undefined) this.#onBegin();
			else if (isAway)
				log.warn(TARGET, 'limiter store is unavailable', { on_store_failure: onFailure, replicas, cause, ...shards });
			else log.info(TARGET, 'limiter store is back', { replicas });
		}
		const isSlow = delayMs > SLOW_MS;
		if (isSlow !== this.#wasSlow) {
			this.#wasSlow = isSlow;
			const fields = { delay_ms: Math.round(delayMs), interval_ms: INTERVAL_MS };
			if (isSlow) log.warn(TARGET, 'limiter store is slow: replicas learn of each other late', fields);
			else log.info(TARGET, 'limiter store is fast again', fields);
		}
		const [foreign] = this.#settlement.foreign;
		if ((foreign !== undefined) !== this.#hadForeign) {
			this.#hadForeign = foreign !== undefined;
			const fields = { key: foreign !== undefined && keyInHex(foreign), on_store_failure: onFailure };
			if (this.#hadForeign) log.warn(TARGET, 'a key of the limiter has another type in the store', fields);
		}
	}
}

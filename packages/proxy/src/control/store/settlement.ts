import type { ConcurrencyMemory } from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import { StoreHealth } from '@mtls-edge-proxy/gate/memory/fleet/store-health.ts';
import type { LimiterMemory } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import type { OnStoreFailure } from '../../config/config.ts';
import type { FleetMemory } from '../../memory/fleet/fleet-limiter.ts';
import { SpendingTable, type Spent } from '../../memory/fleet/spending.ts';
import { type Registry, SHARDS, type SlotReport, type Spending, shardOf } from './contract.ts';
import { Modes } from './modes.ts';
import { Shard } from './shard.ts';
import { SlotReports } from './slot-reports.ts';

/** Interval between calls of `tick`, ms; no shard gets more than one batch each time. */
export const INTERVAL_MS = 200;
/** Ticks between two signs of life. */
const REGISTER_TICKS = 5;
/** Keys of one script: it keeps the store busy for about a millisecond. */
const KEYS_A_CALL = 256;
/** Calls of one tick, across all shards: the rest waits for the next one. */
const CALLS_A_TICK = 128;
/** If the main thread was delayed this long, ms, its requests may be paid already: their buckets have refilled. */
const LATE_MS = 1_000;
/** Settlements of two replicas may be out of order by at least this, ms. */
export const LEAST_SLACK_MS = INTERVAL_MS + 50;
/** Upper bound of the slack, ms. */
const MOST_SLACK_MS = 10_000;
/** The count of replicas is the highest within this time, ms: those that lose the store first are not gone. */
const SEEN_MS = 10_000;
/** A bucket's debt is taken to be at most all bursts and this, ms. */
const MOST_DEBT_MS = 60_000;
/** One call for the store: spendings or reports. All keys are of one shard. */
export interface Call {
	readonly shard: number;
	readonly spendings: readonly Settling[];
	readonly reports: readonly SlotReport[];
	/** Monotonic milliseconds. */
	readonly sentAt: number;
}

interface Settling extends Spending {
	/** What it settles; `undefined`: it only asks. */
	readonly spent?: Spent;
}

export interface SettlementOptions {
	readonly limiter: LimiterMemory;
	readonly fleet: FleetMemory;
	readonly concurrency: ConcurrencyMemory | undefined;
	readonly onFailure: OnStoreFailure;
	/** Whether shards can fail one by one. */
	readonly cluster: boolean;
	/** Number of replicas, until the store has reported it. */
	readonly expected: number;
	/** Monotonic milliseconds. */
	readonly now: number;
}

/**
 * What one replica sends to the store, and how it applies the answers. Without I/O and without a clock.
 *
 * The bucket of this replica is raised to the moment of an answer minus `slackMs`. The store may settle another replica's requests
 * before older ones of this replica, and then counts a time with requests as idle, by at most the time of a settlement. With the
 * slack, no bucket is emptier than a single limiter would have it, so a tenant within its limit is admitted
 * (docs/internals/shared-rate-limits.md).
 */
export class Settlement {
	readonly storeHealth: StoreHealth;
	readonly #table: SpendingTable;
	readonly #slots: SlotReports | undefined;
	readonly #shards: readonly Shard[];
	readonly #modes: Modes;
	readonly #delay: LongestDelay;
	#fleetDelayMs = 0;
	#seen: { readonly at: number; readonly replicas: number }[] = [];
	#ticks = 0;
	#tickedAt: number;
	#hasBegun = false;

	constructor(options: SettlementOptions) {
		const { limiter, fleet, concurrency, onFailure, cluster, expected, now } = options;
		this.storeHealth = new StoreHealth(fleet.storeHealth);
		this.storeHealth.replicas = expected;
		this.#table = new SpendingTable(fleet.spending, limiter);
		this.#slots = concurrency && new SlotReports(concurrency);
		this.#shards = Array.from({ length: cluster ? SHARDS : 1 }, () => new Shard(now));
		this.#delay = new LongestDelay(now);
		this.#tickedAt = now;
		this.#modes = new Modes(this.storeHealth, this.#shards.length, onFailure);
	}

	/** Unreliable shards, and the number of all shards. */
	get away(): { readonly shards: number; readonly of: number } {
		return { shards: this.#shards.filter(({ isAway }) => isAway).length, of: this.#shards.length };
	}

	/** Keys of limits that something else has at the store. */
	get foreign(): ReadonlySet<bigint> {
		return this.#modes.foreign;
	}

	/** The longest time from a request here until the store's answer was in force here, over the last seconds, ms. */
	get delayMs(): number {
		return this.#delay.ms;
	}

	/** @returns calls to send at once, each `answered` or `failed` later; and whether to `register`. */
	tick(now: number): { readonly calls: readonly Call[]; readonly register: boolean } {
		if (now - this.#tickedAt > LATE_MS) for (const shard of this.#shards) shard.heldUp(now);
		this.#tickedAt = now;
		const register = this.#ticks++ % REGISTER_TICKS === 0 || this.#shards[0]!.isFailing;
		const batches = new Map<number, Batch>();
		for (const [i, shard] of this.#shards.entries()) {
			if (shard.underWay > 0) continue;
			batches.set(i, { spendings: [], reports: [], room: (CALLS_A_TICK / this.#shards.length) * KEYS_A_CALL });
			shard.looked(now);
		}
		this.#collect(batches, now);
		const calls = [...batches].flatMap(([shard, batch]) => this.#callsOf(shard, batch, now));
		return { calls, register };
	}

	#collect(batches: ReadonlyMap<number, Batch>, now: number): void {
		const batchOf = (key: bigint) => batches.get(this.#shardOf(key));
		this.#table.collect(
			(key) => {
				const batch = batchOf(key);
				return batch !== undefined && batch.room-- > 0;
			},
			(spent) => {
				const { isLate } = this.#shards[this.#shardOf(spent.key)]!;
				batchOf(spent.key)!.spendings.push(settling(spent, isLate, now));
			},
		);
		for (const [shard, { room }] of batches) this.#shards[shard]!.collected(room < 0);
		for (const key of this.#modes.foreign) batchOf(key)?.spendings.push(probe(key));
		for (const [shard, { spendings }] of batches) {
			// A probe notices the store's return. Its key belongs to no tenant.
			if (this.#shards[shard]!.isAway && spendings.length === 0) spendings.push(probe(BigInt(shard)));
		}
		this.#slots?.collect(now, (report) => {
			const batch = batchOf(report.key);
			const isTaken = batch !== undefined && batch.room-- > 0;
			if (isTaken) batch.reports.push(report);
			return isTaken;
		});
	}

	#callsOf(shard: number, { spendings, reports }: Batch, sentAt: number): Call[] {
		const calls = [
			...portions(spendings).map((some) => ({ shard, spendings: some, reports: [], sentAt })),
			...portions(reports).map((some) => ({ shard, spendings: [], reports: some, sentAt })),
		];
		this.#shards[shard]!.underWay = calls.length;
		return calls;
	}

	/** @param answers one for each spending or report. */
	answered(
		{ shard: at, spendings, reports, sentAt }: Call,
		answers: readonly (number | undefined)[],
		now: number,
	): void {
		const shard = this.#shards[at]!;
		shard.underWay--;
		this.#delay.add(now - shard.lookedBefore, now);
		if (shard.answered(now)) this.#modes.shardIsBack(at);
		for (const [i, spending] of spendings.entries()) {
			const ahead = answers[i];
			this.#modes.keyWas(spending.key, ahead !== undefined, shard.isAway);
			if (ahead !== undefined && spending.spent !== undefined) this.#raise(spending.spent, ahead, sentAt);
		}
		for (const [i, { key }] of reports.entries()) this.#slots?.tell(key, answers[i] ?? 0);
	}

	/** @param isKnown the store has certainly done nothing; otherwise it may have, and no tenant is charged twice. */
	failed({ shard: at, spendings }: Call, isKnown: boolean, now: number): void {
		const shard = this.#shards[at]!;
		shard.underWay--;
		if (shard.failed(now)) this.#modes.shardIsAway(at);
		if (!isKnown) return;
		for (const { spent, costMicros } of spendings) {
			if (spent !== undefined && costMicros > 0) this.#table.putBack(spent);
		}
	}

	registered({ replicas, delayMs }: Registry, now: number): void {
		this.#seen = this.#seen.filter(({ at, replicas: seen }) => now - at < SEEN_MS && seen > replicas);
		this.#seen.push({ at: now, replicas });
		this.storeHealth.replicas = this.#seen[0]!.replicas;
		this.#fleetDelayMs = delayMs;
		this.#shards[0]!.isFailing = false;
		if (this.#hasBegun) return;
		this.#hasBegun = true;
		for (const [i, shard] of this.#shards.entries()) {
			shard.begin();
			this.#modes.shardIsBack(i);
		}
	}

	/** The registry is in shard 0; only this class asks for it. */
	notRegistered(now: number): void {
		if (this.#shards[0]!.failed(now)) this.#modes.shardIsAway(0);
	}

	get slackMs(): number {
		return Math.min(MOST_SLACK_MS, Math.max(LEAST_SLACK_MS, this.#fleetDelayMs, this.delayMs));
	}

	/**
	 * The store has counted until it answered, which was not before the call was sent. It lacks what this replica has admitted since the
	 * call; without adding that, a burst during each call would hide what the other replicas admit.
	 */
	#raise(spent: Spent, aheadMicros: number, sentAt: number): void {
		const most = MOST_DEBT_MS + (spent.burst * 1000 * this.storeHealth.replicas) / spent.rps;
		const aheadMs = Math.min(aheadMicros / 1000 + this.#table.costMs(spent.slot) - this.slackMs, most);
		if (aheadMs > 0) this.#table.slots.raise(spent.slot, spent.key, sentAt + aheadMs);
	}

	#shardOf(key: bigint): number {
		return shardOf(key) % this.#shards.length;
	}
}

interface Batch {
	readonly spendings: Settling[];
	readonly reports: SlotReport[];
	/** Spendings that still fit. */
	room: number;
}

/** @param isLate others have gone on meanwhile: it would be added to what they have spent since, though it may be long paid. */
function settling(spent: Spent, isLate: boolean, now: number): Settling {
	const { key, requests, rps, fullAtMs } = spent;
	const costMicros = isLate ? 0 : Math.floor((requests * 1e6) / rps);
	// What the bucket had before is settled, or was charged to this replica only, while the store was away.
	const aheadMicros = Math.min(costMicros, Math.floor((fullAtMs - now) * 1000));
	return { key, costMicros, aheadMicros, spent };
}

function portions<T>(all: readonly T[]): T[][] {
	const count = Math.ceil(all.length / KEYS_A_CALL);
	return Array.from({ length: count }, (_, i) => all.slice(i * KEYS_A_CALL, (i + 1) * KEYS_A_CALL));
}

function probe(key: bigint): Settling {
	return { key, costMicros: 0, aheadMicros: -1 };
}

/** A delay is kept at least this long, and at most twice as long, ms. */
const KEPT_MS = 10_000;

/** The longest delay of the last seconds. Time is an argument. */
class LongestDelay {
	#now = 0;
	#before = 0;
	#since: number;

	constructor(now: number) {
		this.#since = now;
	}

	get ms(): number {
		return Math.max(this.#now, this.#before);
	}

	add(ms: number, now: number): void {
		if (now - this.#since >= KEPT_MS) {
			this.#before = now - this.#since < 2 * KEPT_MS ? this.#now : 0;
			this.#now = 0;
			this.#since = now;
		}
		this.#now = Math.max(this.#now, ms);
	}
}

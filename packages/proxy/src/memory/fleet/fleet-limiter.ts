import { Rate } from '@mtls-edge-proxy/gate/gates/tenant-limit.ts';
import {
	cellOf,
	DIVIDED,
	REFUSED,
	SHARED,
	StoreHealth,
	type StoreHealthMemory,
} from '@mtls-edge-proxy/gate/memory/fleet/store-health.ts';
import { type LimiterMemory, TenantLimiter } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import { SpendingCounts, type SpendingMemory } from './spending.ts';

/** Memory for the limiters of a process that shares its limits with other replicas. */
export interface FleetMemory {
	readonly spending: SpendingMemory;
	readonly storeHealth: StoreHealthMemory;
}

/**
 * The limiter of a replica. A request is counted in this process's memory, as without other replicas, and recorded for the store.
 * The bucket already contains what other replicas have admitted: the main thread adds it.
 */
export class FleetLimiter extends TenantLimiter {
	readonly #spending: SpendingCounts;
	readonly #storeHealth: StoreHealth;
	/** This replica's parts of rates, while the store is unavailable. */
	#parts = new WeakMap<Rate, Rate>();
	#partsFor = 0;

	/** @param worker index of this thread, unique in the process. */
	constructor(memory: LimiterMemory, worker: number, { spending, storeHealth }: FleetMemory) {
		super(memory, worker);
		this.#spending = new SpendingCounts(spending);
		this.#storeHealth = new StoreHealth(storeHealth);
	}

	override admit(key: bigint, nowMs: number, rate: Rate): boolean {
		const mode = this.#storeHealth.mode(cellOf(key));
		if (mode === REFUSED) {
			this.bucket.debt = rate.depth;
			return false;
		}
		if (!super.admit(key, nowMs, mode === DIVIDED ? this.#part(rate) : rate)) return false;
		if (mode === SHARED) this.#spending.add(this.slot, rate.rps, rate.burst);
		return true;
	}

	/** A slot is not free while admissions of its tenant are not settled. */
	protected override isFree(slot: number): boolean {
		return this.#spending.isEmpty(slot);
	}

	#part(rate: Rate): Rate {
		const { replicas } = this.#storeHealth;
		if (replicas !== this.#partsFor) {
			this.#parts = new WeakMap();
			this.#partsFor = replicas;
		}
		let part = this.#parts.get(rate);
		if (part === undefined) {
			part = new Rate(rate.rps, rate.burst, replicas);
			this.#parts.set(rate, part);
		}
		return part;
	}
}

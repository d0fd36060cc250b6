import { createHmac, randomBytes } from 'node:crypto';
import {
	ConcurrencyCounts,
	type ConcurrencyMemory,
	MAX_LIMITED_TENANTS,
} from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import { SharedSlots } from '@mtls-edge-proxy/gate/memory/fleet/shared-slots.ts';
import { StoreHealth } from '@mtls-edge-proxy/gate/memory/fleet/store-health.ts';
import { type LimiterMemory, TenantLimiter } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import { BucketCounts } from '../memory/bucket-counts.ts';
import { Budget, type BudgetMemory } from '../memory/budget.ts';
import type { FleetMemory } from '../memory/fleet/fleet-limiter.ts';
import { SpendingCounts } from '../memory/fleet/spending.ts';
import { TenantShares, type TenantSharesMemory } from '../memory/tenant-shares.ts';
import { WorkerStats } from '../memory/worker-stats.ts';
import type { HistogramsSeed, WorkerSeed } from '../shared/messages.ts';

/** Bodies are counted in KiB, so that 2 TiB fit a 32-bit word. */
const BODY_UNIT = 1024;
/** Units of a budget stay below this, so that its word cannot overflow while threads try to take more. */
const MAX_UNITS = 2 ** 30;

export interface MemorySizes {
	readonly workers: number;
	readonly maxBufferedBytes: number;
	/** The part of `maxBufferedBytes` for each tenant. */
	readonly maxBufferedBytesPerTenant: number;
	readonly maxConnections: number;
	readonly histograms: HistogramLayouts;
	readonly fleetSecret?: Uint8Array | undefined;
}

export type HistogramLayouts = Pick<HistogramsSeed, 'upstream' | 'handshake' | 'gate'>;

/** The shared memory of all workers. It lives as long as the process, even if workers die. */
export class ProcessMemory {
	/** Keys the tenants in `limiter`, `concurrency` and `tenantShares`. */
	readonly tenantSecret: Uint8Array;
	/** Exists even without limits: a reload may bring some. Untouched memory is free. */
	readonly limiter: LimiterMemory;
	readonly concurrency: ConcurrencyMemory;
	/** `undefined` if limits are not shared with other replicas. */
	readonly fleet: FleetMemory | undefined;
	readonly bufferedBytes: BudgetMemory;
	/** `undefined` if one tenant may hold all. */
	readonly tenantShares: TenantSharesMemory | undefined;
	readonly connections: BudgetMemory;
	/** By worker. `stats` reads the same regions. */
	readonly statsRegions: readonly WorkerSeed['stats'][];
	readonly stats: readonly WorkerStats[];
	readonly histograms: HistogramsSeed;

	constructor(sizes: MemorySizes) {
		const { workers, maxBufferedBytes, maxBufferedBytesPerTenant, maxConnections, fleetSecret } = sizes;
		this.tenantSecret = fleetSecret ?? randomBytes(32);
		this.limiter = TenantLimiter.allocate(this.tenantSecret);
		this.fleet = fleetSecret && {
			spending: SpendingCounts.allocate(this.limiter),
			storeHealth: StoreHealth.allocate(),
		};
		this.concurrency = {
			...ConcurrencyCounts.allocate(workers),
			shared: this.fleet && SharedSlots.allocate(MAX_LIMITED_TENANTS, this.fleet.storeHealth),
		};
		this.bufferedBytes = Budget.allocate(Math.min(maxBufferedBytes, MAX_UNITS * BODY_UNIT), BODY_UNIT, workers);
		this.tenantShares =
			maxBufferedBytesPerTenant < maxBufferedBytes
				? TenantShares.allocate(Math.min(maxBufferedBytesPerTenant, MAX_UNITS * BODY_UNIT), BODY_UNIT, workers)
				: undefined;
		this.connections = Budget.allocate(Math.min(maxConnections, MAX_UNITS), 1, workers);
		this.statsRegions = Array.from({ length: workers }, () => WorkerStats.allocate());
		this.stats = this.statsRegions.map((region) => new WorkerStats(region));
		this.histograms = {
			...sizes.histograms,
			handshakes: BucketCounts.allocate(sizes.histograms.handshake, workers),
			gates: BucketCounts.allocate(sizes.histograms.gate, workers),
		};
	}

	/** Releases what a dead worker held. Call it only after its thread has ended. */
	reclaim(worker: number): void {
		TenantLimiter.reclaim(this.limiter, worker);
		ConcurrencyCounts.reclaim(this.concurrency, worker);
		Budget.reclaim(this.bufferedBytes, worker);
		if (this.tenantShares !== undefined) TenantShares.reclaim(this.tenantShares, worker);
		Budget.reclaim(this.connections, worker);
		this.stats[worker]!.clearGauges();
	}
}

/**
 * The secret that keys tenants in the memory of all replicas and in the store. Without a secret of their own anybody can compute keys:
 * then a person who chooses names of tenants can choose some that collide in the limiter.
 */
export function fleetSecret(prefix: string, secret: string | undefined): Uint8Array {
	return createHmac('sha256', secret ?? '')
		.update(`mtls-edge-proxy limits ${prefix}`)
		.digest();
}

import { workerData } from 'node:worker_threads';
import { Rate } from '../../../../packages/gate/src/gates/tenant-limit.ts';
import type { LimiterMemory } from '../../../../packages/gate/src/memory/limiter.ts';
import { FleetLimiter, type FleetMemory } from '../../../../packages/proxy/src/memory/fleet/fleet-limiter.ts';
import { meet, type ThreadData } from '../thread-pool.ts';

/** Every thread asks for every tenant as fast as it can, for some rounds; time passes, so slots change hands. */
export interface SpendingTask {
	readonly limiter: LimiterMemory;
	readonly fleet: FleetMemory;
	readonly tenants: number;
	readonly rounds: number;
	/** Int32 by tenant: admitted, across all threads. */
	readonly admitted: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<SpendingTask>;
const limiter = new FleetLimiter(task.limiter, index, task.fleet);
const rate = new Rate(100_000, 50);
const admitted = new Int32Array(task.admitted);
meet(barrier);
for (let round = 0; round < task.rounds; round++) {
	for (let tenant = 0; tenant < task.tenants; tenant++) {
		if (limiter.admit(BigInt(tenant + 1), 1_000 + round, rate)) Atomics.add(admitted, tenant, 1);
	}
}

import { workerData } from 'node:worker_threads';
import { TenantShares, type TenantSharesMemory } from '../../../packages/proxy/src/memory/tenant-shares.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** Every thread takes what it gets for one tenant, keeps it until all have taken, and gives it back. */
export interface ShareTask {
	readonly memory: TenantSharesMemory;
	readonly rounds: number;
	readonly attempts: number;
	readonly tenant: bigint;
	/** Int32 for each round: grants across all threads. */
	readonly granted: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<ShareTask>;
const shares = new TenantShares(task.memory, index);
const granted = new Int32Array(task.granted);

for (let round = 0; round < task.rounds; round++) {
	meet(barrier);
	let mine = 0;
	for (let attempt = 0; attempt < task.attempts; attempt++) if (shares.tryClaim(task.tenant, 1)) mine++;
	Atomics.add(granted, round, mine);
	meet(barrier);
	for (; mine > 0; mine--) shares.release(task.tenant, 1);
}

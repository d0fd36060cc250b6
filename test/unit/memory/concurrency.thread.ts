import { workerData } from 'node:worker_threads';
import { ConcurrencyCounts, type ConcurrencyMemory } from '../../../packages/gate/src/memory/concurrency.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** All threads take as many slots of each tenant as they can at once, then release them, repeatedly. */
export interface TakeTask {
	readonly memory: ConcurrencyMemory;
	readonly tenants: readonly bigint[];
	readonly limit: number;
	readonly rounds: number;
	/** Int32 for each round and tenant: how many were granted, across all threads. */
	readonly granted: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<TakeTask>;
const counts = new ConcurrencyCounts(task.memory, index);
const slots = task.tenants.map((tenant) => counts.slots(tenant, task.limit));
const granted = new Int32Array(task.granted);

for (let round = 0; round < task.rounds; round++) {
	meet(barrier);
	const taken = slots.map((one) => {
		let own = 0;
		// More than there are, and half of them given back and asked for again meanwhile.
		for (let i = 0; i < 2 * task.limit; i++) {
			if (!one.tryClaim()) continue;
			own++;
			if (i % 2 === 0) {
				one.release();
				own--;
			}
		}
		while (one.tryClaim()) own++;
		return own;
	});
	for (const [i, own] of taken.entries()) Atomics.add(granted, round * slots.length + i, own);
	meet(barrier);
	for (const [i, own] of taken.entries()) for (let n = 0; n < own; n++) slots[i]!.release();
	meet(barrier);
}

import { workerData } from 'node:worker_threads';
import type { LimiterMemory } from '../../../packages/gate/src/memory/limiter.ts';
import { FixedRateLimiter } from './fixed-rate.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** Every thread asks for every tenant at each moment; the clock moves only when all are done. */
export interface HammerTask {
	readonly memory: LimiterMemory;
	readonly rps: number;
	readonly keys: readonly bigint[];
	/** Milliseconds at which to ask, in order. */
	readonly moments: readonly number[];
	/** Requests of each thread for each tenant at each moment. */
	readonly attempts: number;
	/** Int32 for each moment and tenant: how many were admitted, across all threads. */
	readonly admitted: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<HammerTask>;
const limiter = new FixedRateLimiter(task.memory, task.rps, index);
const admitted = new Int32Array(task.admitted);

for (const [step, now] of task.moments.entries()) {
	meet(barrier);
	for (let attempt = 0; attempt < task.attempts; attempt++) {
		for (let i = 0; i < task.keys.length; i++) {
			// Half of the threads go round the other way, so that they meet in the middle of the table, too.
			const tenant = index % 2 === 0 ? i : task.keys.length - 1 - i;
			if (limiter.admit(task.keys[tenant]!, now)) Atomics.add(admitted, step * task.keys.length + tenant, 1);
		}
	}
	meet(barrier);
}

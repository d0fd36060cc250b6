import { workerData } from 'node:worker_threads';
import type { LimiterMemory } from '../../../packages/gate/src/memory/limiter.ts';
import { FixedRateLimiter } from './fixed-rate.ts';

/** Asks for new tenants for ever, which takes the lock each time, until it is killed. */
export interface VictimTask {
	readonly memory: LimiterMemory;
	readonly rps: number;
	readonly worker: number;
	readonly now: number;
	/** One word: how many requests it has made. */
	readonly progress: SharedArrayBuffer;
}

const task = workerData as VictimTask;
const limiter = new FixedRateLimiter(task.memory, task.rps, task.worker);
const progress = new Int32Array(task.progress);
for (let key = 1n; ; key++) {
	limiter.admit(key << 40n, task.now);
	Atomics.add(progress, 0, 1);
	Atomics.notify(progress, 0);
}

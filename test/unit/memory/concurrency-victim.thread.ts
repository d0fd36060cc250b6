import { workerData } from 'node:worker_threads';
import { ConcurrencyCounts, type ConcurrencyMemory } from '../../../packages/gate/src/memory/concurrency.ts';

/** Takes and gives back for ever, until it is killed. */
export interface VictimTask {
	readonly memory: ConcurrencyMemory;
	readonly tenant: bigint;
	readonly worker: number;
	/** One word: how often it has taken. */
	readonly progress: SharedArrayBuffer;
}

const { memory, tenant, worker, progress } = workerData as VictimTask;
const slots = new ConcurrencyCounts(memory, worker).slots(tenant, 1000);
const rounds = new Int32Array(progress);
for (;;) {
	for (let i = 0; i < 20; i++) slots.tryClaim();
	for (let i = 0; i < 20; i++) slots.release();
	Atomics.add(rounds, 0, 1);
	Atomics.notify(rounds, 0);
}

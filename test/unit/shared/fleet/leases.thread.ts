import { workerData } from 'node:worker_threads';
import { Rate } from '../../../../src/gates/tenant-limit.ts';
import { type LeaseMemory, LeaseSpender } from '../../../../src/shared/fleet/leases.ts';
import { meet, type ThreadData } from '../thread-pool.ts';

/** Every thread spends of every key as fast as it can, for some rounds. */
export interface SpendTask {
	readonly memory: LeaseMemory;
	readonly keys: readonly bigint[];
	/** The first so many are given up now and then: nothing is given back of these, so that what was spent stays known. */
	readonly keysGivenUp: number;
	readonly rounds: number;
	readonly attempts: number;
	/** Int32 by key: spent, over all threads. */
	readonly spent: SharedArrayBuffer;
	/** One word: threads that are through. */
	readonly done: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<SpendTask>;
const spender = new LeaseSpender(task.memory, index);
const rate = new Rate(100, 8);
const spent = new Int32Array(task.spent);
meet(barrier);
for (let round = 0; round < task.rounds; round++) {
	for (let i = 0; i < task.keys.length; i++) {
		const key = index % 2 === 0 ? i : task.keys.length - 1 - i;
		for (let attempt = 0; attempt < task.attempts; attempt++) {
			if (!spender.spend(task.keys[key]!, rate)) continue;
			if (key >= task.keysGivenUp && (round + attempt) % 5 === 0) spender.unspend();
			else Atomics.add(spent, key, 1);
		}
	}
}
Atomics.add(new Int32Array(task.done), 0, 1);

import { workerData } from 'node:worker_threads';
import { UpstreamLoad } from '../../../src/shared/upstream-load.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** All threads count up at once, then down, over and over. */
export interface LoadTask {
	readonly memory: SharedArrayBuffer;
	readonly rounds: number;
	readonly each: number;
	/** Int32 by round: the total that the first thread saw when all had counted up. */
	readonly seen: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<LoadTask>;
const load = new UpstreamLoad(task.memory, index);

for (let round = 0; round < task.rounds; round++) {
	meet(barrier);
	for (let i = 0; i < task.each; i++) load.inc();
	meet(barrier);
	if (index === 0) Atomics.store(new Int32Array(task.seen), round, load.total);
	meet(barrier);
	for (let i = 0; i < task.each; i++) load.dec();
}

import { workerData } from 'node:worker_threads';
import { UpstreamLoad } from '../../../packages/proxy/src/memory/upstream-load.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** All threads count up at once, then down, over and over; with a `limit` only as far as there is room. */
export interface LoadTask {
	readonly memory: SharedArrayBuffer;
	readonly rounds: number;
	readonly each: number;
	readonly limit?: number;
	/** Int32 by round: the total that the first thread saw when all had counted up. */
	readonly seen: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<LoadTask>;
const load = new UpstreamLoad(task.memory, index);

for (let round = 0; round < task.rounds; round++) {
	meet(barrier);
	let taken = 0;
	for (let i = 0; i < task.each; i++) {
		if (task.limit === undefined) load.inc();
		else if (!load.tryInc(task.limit)) continue;
		taken++;
	}
	meet(barrier);
	if (index === 0) Atomics.store(new Int32Array(task.seen), round, load.total);
	meet(barrier);
	for (let i = 0; i < taken; i++) load.dec();
}

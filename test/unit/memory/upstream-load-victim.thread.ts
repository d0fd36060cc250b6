import { workerData } from 'node:worker_threads';
import { UpstreamLoad } from '../../../packages/proxy/src/memory/upstream-load.ts';

/** Counts up and down for ever, never to nothing, until it is killed. */
export interface LoadVictimTask {
	readonly memory: SharedArrayBuffer;
	readonly worker: number;
	/** One word: how often it has counted up. */
	readonly progress: SharedArrayBuffer;
}

const { memory, worker, progress } = workerData as LoadVictimTask;
const load = new UpstreamLoad(memory, worker);
const rounds = new Int32Array(progress);
load.inc();
for (;;) {
	for (let i = 0; i < 20; i++) load.inc();
	for (let i = 0; i < 20; i++) load.dec();
	Atomics.add(rounds, 0, 1);
	Atomics.notify(rounds, 0);
}

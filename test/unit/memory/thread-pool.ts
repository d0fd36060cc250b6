import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/**
 * Worker threads that run one module side by side. They meet at a barrier between the steps of a test, so that within a
 * step all of them run at once, and their work in it is decided before it.
 */

/** What each thread of a test gets as `workerData`. */
export interface ThreadData<Task> {
	readonly task: Task;
	/** 0-based. */
	readonly index: number;
	readonly barrier: SharedArrayBuffer;
}

/** Runs `threads` threads of `module` to their end; fails if one of them fails. */
export async function runThreads<Task>(module: URL, threads: number, task: Task): Promise<void> {
	const barrier = createBarrier(threads);
	const workers = Array.from({ length: threads }, (_, index) => {
		const workerData: ThreadData<Task> = { task, index, barrier };
		return new Worker(module, { workerData });
	});
	try {
		// `once` rejects on 'error'.
		await Promise.all(workers.map((worker) => once(worker, 'exit')));
	} finally {
		await Promise.all(workers.map((worker) => worker.terminate()));
	}
}

const PARTIES = 0;
const ARRIVED = 1;
const ROUND = 2;

function createBarrier(parties: number): SharedArrayBuffer {
	const memory = new SharedArrayBuffer(12);
	new Int32Array(memory)[PARTIES] = parties;
	return memory;
}

/** Returns when all parties have come here. */
export function meet(barrier: SharedArrayBuffer): void {
	const cells = new Int32Array(barrier);
	const round = Atomics.load(cells, ROUND);
	if (Atomics.add(cells, ARRIVED, 1) + 1 === cells[PARTIES]) {
		Atomics.store(cells, ARRIVED, 0);
		Atomics.add(cells, ROUND, 1);
		Atomics.notify(cells, ROUND);
		return;
	}
	// Spinning first: threads that wake up from a wait one by one would hardly collide.
	for (let spin = 0; spin < 20_000; spin++) if (Atomics.load(cells, ROUND) !== round) return;
	while (Atomics.load(cells, ROUND) === round) Atomics.wait(cells, ROUND, round);
}

import { workerData } from 'node:worker_threads';
import { systemClock } from '../../../packages/gate/src/shared/clock.ts';

/** Answers each rise of the counter with the time it then is. */
export interface ClockTask {
	readonly epoch: bigint;
	/** Two words: questions asked, questions answered. */
	readonly counters: SharedArrayBuffer;
	/** Float64: the answer. */
	readonly answer: SharedArrayBuffer;
	readonly questions: number;
}

const task = workerData as ClockTask;
const clock = systemClock(task.epoch);
const counters = new Int32Array(task.counters);
const answer = new Float64Array(task.answer);

for (let question = 1; question <= task.questions; question++) {
	while (Atomics.load(counters, 0) < question) Atomics.wait(counters, 0, question - 1);
	answer[0] = clock.now();
	Atomics.store(counters, 1, question);
	Atomics.notify(counters, 1);
}

import { workerData } from 'node:worker_threads';
import { Budget, type BudgetMemory } from '../../../packages/proxy/src/memory/budget.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** Every thread takes what it gets, keeps it until all have taken, and gives it back. */
export interface TakeTask {
	readonly memory: BudgetMemory;
	readonly rounds: number;
	readonly attempts: number;
	readonly amount: number;
	/** Int32 for each round: grants across all threads. */
	readonly granted: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<TakeTask>;
const budget = new Budget(task.memory, index);
const granted = new Int32Array(task.granted);

for (let round = 0; round < task.rounds; round++) {
	meet(barrier);
	let mine = 0;
	for (let attempt = 0; attempt < task.attempts; attempt++) if (budget.tryClaim(task.amount)) mine++;
	Atomics.add(granted, round, mine);
	meet(barrier);
	for (; mine > 0; mine--) budget.release(task.amount);
}

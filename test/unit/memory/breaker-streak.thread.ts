import { workerData } from 'node:worker_threads';
import { MAX_FAILURES, MAX_TENANTS, type OpeningRule } from '../../../packages/proxy/src/gates/breaker.ts';
import { BreakerCell, CLOSED, NORMAL, OPEN } from '../../../packages/proxy/src/memory/breaker-cell.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** Failures of each thread in a round. */
export const FAILURES = 6;

/** In each round all threads report failures of the same tenants at the same moment. */
export interface StreakTask {
	/** Its streak is empty. */
	readonly memory: SharedArrayBuffer;
	readonly threads: number;
	readonly rounds: number;
	/** Int32 for each round: the state's low and high half at its end, and how many threads have opened the circuit. */
	readonly low: SharedArrayBuffer;
	readonly high: SharedArrayBuffer;
	readonly opened: SharedArrayBuffer;
}

/** What happens in a round, by its number. */
export function planOf(round: number, threads: number): { tenants: number; rule: OpeningRule; succeeds: boolean } {
	const tenants = 1 + (round % MAX_TENANTS);
	const failures = threads * FAILURES;
	const kind = Math.floor(round / MAX_TENANTS) % 3;
	// All are counted and nothing opens; the very last failure opens; nothing opens, and a success comes in between.
	if (kind === 0) return { tenants, rule: { failures: MAX_FAILURES, tenants: 1 }, succeeds: false };
	if (kind === 1) return { tenants, rule: { failures, tenants }, succeeds: false };
	return { tenants, rule: { failures: MAX_FAILURES, tenants: 1 }, succeeds: true };
}

const data = workerData as ThreadData<StreakTask> | null;
if (data !== null) run(data);

function run({ task, index, barrier }: ThreadData<StreakTask>): void {
	const opened = new Int32Array(task.opened);
	const [low, high] = [new Int32Array(task.low), new Int32Array(task.high)];
	const words = new Int32Array(task.memory);
	let round = 0;
	const cell = new BreakerCell(task.memory, ({ to }) => {
		if (to === OPEN) Atomics.add(opened, round, 1);
	});
	for (; round < task.rounds; round++) {
		const { tenants, rule, succeeds } = planOf(round, task.threads);
		meet(barrier);
		for (let i = 0; i < FAILURES; i++) {
			const tenant = `tenant-${(index * FAILURES + i) % tenants}`;
			cell.fail(NORMAL, { reason: 'status', cause: 'status 503', tenant }, rule, 0);
			if (succeeds && index === 0 && i === FAILURES / 2) cell.report(NORMAL, 'success');
		}
		meet(barrier);
		if (index !== 0) continue;
		low[round] = words[0]!;
		high[round] = words[1]!;
		if (cell.circuit === CLOSED) cell.report(NORMAL, 'success');
		else cell.health(true, 0);
	}
}

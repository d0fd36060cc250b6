import { workerData } from 'node:worker_threads';
import type { OpeningRule } from '../../../packages/proxy/src/gates/breaker.ts';
import { BreakerCell, type Failure, NORMAL, REFUSED } from '../../../packages/proxy/src/memory/breaker-cell.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** The outcome of the probe of a round; `silent` never reports. */
export const FATES = ['failure', 'abandoned', 'silent', 'success'] as const;

/** In each round every thread asks many times at the same moment, one cooldown after the last. */
export interface ProbeTask {
	readonly memory: SharedArrayBuffer;
	readonly cooldownMs: number;
	readonly rounds: number;
	readonly attempts: number;
	/** Int32 for each round: how many probes and how many normal requests were let through. */
	readonly probes: SharedArrayBuffer;
	readonly normal: SharedArrayBuffer;
}

const FAILURE: Failure = { reason: 'status', cause: 'status 503', tenant: 'tenant' };
const FIRST: OpeningRule = { failures: 1, tenants: 1 };

const { task, barrier } = workerData as ThreadData<ProbeTask>;
const cell = new BreakerCell(task.memory);
const probes = new Int32Array(task.probes);
const normal = new Int32Array(task.normal);

for (let round = 0; round < task.rounds; round++) {
	const now = (round + 1) * task.cooldownMs;
	meet(barrier);
	let probe = REFUSED;
	for (let attempt = 0; attempt < task.attempts; attempt++) {
		const admission = cell.admit(now, task.cooldownMs);
		if (admission === REFUSED) continue;
		if (admission === NORMAL) Atomics.add(normal, round, 1);
		else {
			Atomics.add(probes, round, 1);
			probe = admission;
		}
	}
	meet(barrier);
	if (probe === REFUSED) continue;
	const fate = FATES[round % FATES.length]!;
	if (fate === 'failure') cell.fail(probe, FAILURE, FIRST, now);
	else if (fate !== 'silent') cell.report(probe, fate);
	// Open again for the next round; the failing request is one that was sent while it was closed.
	if (fate === 'success') cell.fail(NORMAL, FAILURE, FIRST, now);
}

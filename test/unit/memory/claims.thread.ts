import { workerData } from 'node:worker_threads';
import { Budget, type BudgetMemory } from '../../../packages/proxy/src/memory/budget.ts';
import { TenantShares, type TenantSharesMemory } from '../../../packages/proxy/src/memory/tenant-shares.ts';
import { meet, type ThreadData } from './thread-pool.ts';

/** Every thread takes what it gets, unit by unit, keeps it until all have taken, and gives it back. */
export interface ClaimTask {
	/** Units of a budget, or of a tenant's share. */
	readonly budget?: BudgetMemory;
	readonly shares?: { readonly memory: TenantSharesMemory; readonly tenant: bigint };
	readonly rounds: number;
	readonly attempts: number;
	/** Int32 for each round: grants across all threads. */
	readonly granted: SharedArrayBuffer;
}

const { task, index, barrier } = workerData as ThreadData<ClaimTask>;
const { claim, release } = task.shares === undefined ? ofBudget(task.budget!) : ofTenant(task.shares);
const granted = new Int32Array(task.granted);

for (let round = 0; round < task.rounds; round++) {
	meet(barrier);
	let mine = 0;
	for (let attempt = 0; attempt < task.attempts; attempt++) if (claim()) mine++;
	Atomics.add(granted, round, mine);
	meet(barrier);
	for (; mine > 0; mine--) release();
}

function ofBudget(memory: BudgetMemory) {
	const budget = new Budget(memory, index);
	return { claim: () => budget.tryClaim(1), release: () => budget.release(1) };
}

function ofTenant({ memory, tenant }: NonNullable<ClaimTask['shares']>) {
	const shares = new TenantShares(memory, index);
	return { claim: () => shares.tryClaim(tenant, 1), release: () => shares.release(tenant, 1) };
}

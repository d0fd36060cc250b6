import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Budget, budgetInUse } from '../../../packages/proxy/src/memory/budget.ts';
import type { ClaimTask } from './claims.thread.ts';
import { runThreads } from './thread-pool.ts';

describe('a budget', () => {
	it('counts a gibibyte of the largest bodies without overflow', () => {
		const memory = Budget.allocate(2 ** 30, 1024, 1);
		const budget = new Budget(memory, 0);
		for (let i = 0; i < 128; i++) assert.equal(budget.tryClaim(8 * 2 ** 20), true);
		assert.equal(budget.tryClaim(1), false);
		assert.equal(budgetInUse(memory), 2 ** 30);
	});

	it('is exact, whatever is taken, given back, and held by workers that die', () => {
		const action = fc.record({
			worker: fc.nat(2),
			what: fc.constantFrom('take', 'take', 'give', 'give', 'die'),
			amount: fc.nat(5000),
		});
		fc.assert(
			fc.property(
				fc.integer({ min: 1, max: 20_000 }),
				fc.constantFrom(1, 1024),
				fc.array(action),
				(limit, unit, actions) => {
					const memory = Budget.allocate(limit, unit, 3);
					const held: number[][] = [[], [], []];
					const units = () => held.flat().reduce((sum, amount) => sum + Math.ceil(amount / unit), 0);
					for (const { worker, what, amount } of actions) {
						const budget = new Budget(memory, worker);
						const own = held[worker]!;
						if (what === 'take') {
							const fits = (units() + Math.ceil(amount / unit)) * unit <= limit;
							assert.equal(budget.tryClaim(amount), fits);
							if (fits) own.push(amount);
						} else if (what === 'die') {
							Budget.reclaim(memory, worker);
							own.length = 0;
						} else if (own.length > 0) {
							budget.release(own.pop()!);
						}
						assert.equal(budgetInUse(memory), units() * unit);
					}
				},
			),
			{ numRuns: 500 },
		);
	});

	it('is exact over threads that draw from it at the same time', async () => {
		const rounds = 200;
		const granted = new SharedArrayBuffer(4 * rounds);
		// 4 x 50 attempts of one unit each for 64 units.
		const memory = Budget.allocate(64, 1, 4);
		const task: ClaimTask = { budget: memory, rounds, attempts: 50, granted };
		await runThreads(new URL('./claims.thread.ts', import.meta.url), 4, task);
		assert.deepEqual([...new Int32Array(granted)], Array(rounds).fill(64));
		assert.equal(budgetInUse(memory), 0);
		for (let worker = 0; worker < 4; worker++) Budget.reclaim(memory, worker);
		assert.equal(budgetInUse(memory), 0);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { tenantKey } from '../../../packages/gate/src/memory/tenant-key.ts';
import { TenantShares, tenantHolds } from '../../../packages/proxy/src/memory/tenant-shares.ts';
import type { ClaimTask } from './claims.thread.ts';
import { runThreads } from './thread-pool.ts';

const SECRET = new Uint8Array(32).fill(7);
const A = tenantKey(SECRET, 'a');
/** Fourteen bits choose the cell of each row. */
const IN_ROWS = (one: number, other: number) => BigInt(one) + (BigInt(other) << 14n);

describe('the share of a tenant', () => {
	it('is not used up by others, unless both of its cells are', () => {
		const shares = new TenantShares(TenantShares.allocate(10, 1, 1), 0);
		assert.equal(shares.tryClaim(IN_ROWS(1, 1), 10), true);
		assert.deepEqual([shares.tryClaim(IN_ROWS(1, 2), 10), shares.tryClaim(IN_ROWS(2, 1), 10)], [true, true]);
		assert.equal(shares.tryClaim(IN_ROWS(2, 2), 1), false);
		assert.equal(shares.tryClaim(IN_ROWS(3, 3) + (1n << 40n), 10), true);
	});

	it('of negative keys is in the table, too', () => {
		for (const key of [-1n, -(2n ** 63n), 2n ** 63n - 1n]) {
			const memory = TenantShares.allocate(10, 1, 1);
			assert.equal(new TenantShares(memory, 0).tryClaim(key, 10), true);
			assert.equal(tenantHolds(memory, key), 10);
		}
	});

	it('is exact by tenant, whatever is taken, given back, and held by workers that die', () => {
		const action = fc.record({
			worker: fc.nat(2),
			what: fc.constantFrom('take', 'take', 'give', 'give', 'die'),
			tenant: fc.nat(5),
			amount: fc.nat(5000),
		});
		fc.assert(
			fc.property(
				fc.integer({ min: 1, max: 20_000 }),
				fc.constantFrom(1, 1024),
				fc.array(action),
				(limit, unit, actions) => {
					const memory = TenantShares.allocate(limit, unit, 3);
					const workers = [0, 1, 2].map((worker) => new TenantShares(memory, worker));
					const held: { tenant: number; amount: number }[][] = [[], [], []];
					const keys = Array.from({ length: 6 }, (_, i) => tenantKey(SECRET, `tenant ${i}`));
					const unitsOf = (wanted: number) =>
						held
							.flat()
							.reduce((sum, { tenant, amount }) => sum + (tenant === wanted ? Math.ceil(amount / unit) : 0), 0);
					for (const { worker, what, tenant, amount } of actions) {
						if (what === 'take') {
							const fits = (unitsOf(tenant) + Math.ceil(amount / unit)) * unit <= limit;
							assert.equal(workers[worker]!.tryClaim(keys[tenant]!, amount), fits);
							if (fits) held[worker]!.push({ tenant, amount });
						} else if (what === 'give') {
							const last = held[worker]!.pop();
							if (last !== undefined) workers[worker]!.release(keys[last.tenant]!, last.amount);
						} else {
							TenantShares.reclaim(memory, worker);
							held[worker] = [];
						}
						for (const [i, key] of keys.entries()) assert.equal(tenantHolds(memory, key), unitsOf(i) * unit);
					}
				},
			),
			{ numRuns: 200 },
		);
	});

	it('is exact over threads that draw from it at the same time', async () => {
		const rounds = 200;
		const granted = new SharedArrayBuffer(4 * rounds);
		// 4 x 50 attempts of one unit each for 64 units.
		const memory = TenantShares.allocate(64, 1, 4);
		const task: ClaimTask = { shares: { memory, tenant: A }, rounds, attempts: 50, granted };
		await runThreads(new URL('./claims.thread.ts', import.meta.url), 4, task);
		assert.deepEqual([...new Int32Array(granted)], Array(rounds).fill(64));
		assert.equal(tenantHolds(memory, A), 0);
		for (let worker = 0; worker < 4; worker++) TenantShares.reclaim(memory, worker);
		assert.equal(tenantHolds(memory, A), 0);
	});
});

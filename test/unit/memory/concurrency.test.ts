import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { ConcurrencyCounts, MAX_LIMITED_TENANTS } from '../../../packages/gate/src/memory/concurrency.ts';
import { requestsInFlight } from '../../fixtures/requests-in-flight.ts';
import type { TakeTask } from './concurrency.thread.ts';
import type { VictimTask } from './concurrency-victim.thread.ts';
import { runThreads } from './thread-pool.ts';

const TAKERS = new URL('./concurrency.thread.ts', import.meta.url);
const VICTIM = new URL('./concurrency-victim.thread.ts', import.meta.url);

describe('the requests that a tenant has in flight', () => {
	it('are as many as its limit across all threads, and nothing to another tenant', () => {
		const memory = ConcurrencyCounts.allocate(2, 8);
		const [one, two] = [0, 1].map((worker) => new ConcurrencyCounts(memory, worker));
		const [a, sameTenant, b] = [one!.slots(5n, 2), two!.slots(5n, 2), one!.slots(-7n, 1)];
		assert.deepEqual(
			[a.tryClaim(), sameTenant.tryClaim(), a.tryClaim(), sameTenant.tryClaim()],
			[true, true, false, false],
		);
		assert.deepEqual([a.taken, a.limit, b.taken], [2, 2, 0]);
		assert.deepEqual([b.tryClaim(), b.tryClaim()], [true, false]);
		sameTenant.release();
		assert.equal(a.tryClaim(), true);
	});

	it('agree with a plain count for any order of taking, giving back, deaths and new limits', () => {
		const step = fc.record({
			worker: fc.nat(2),
			tenant: fc.nat(3),
			action: fc.constantFrom('take', 'take', 'take', 'give', 'die', 'relimit'),
			limit: fc.integer({ min: 1, max: 4 }),
		});
		fc.assert(
			fc.property(fc.array(step, { maxLength: 200 }), fc.boolean(), (steps, oneHome) => {
				const memory = ConcurrencyCounts.allocate(3, 4);
				const key = (tenant: number) => (oneHome ? (BigInt(tenant + 1) << 32n) | 3n : BigInt(tenant + 1));
				const open = (limits: readonly number[]) =>
					[0, 1, 2].map((worker) => {
						const counts = new ConcurrencyCounts(memory, worker);
						return limits.map((limit, tenant) => counts.slots(key(tenant), limit));
					});
				const limits = [1, 2, 3, 4];
				let slots = open(limits);
				const held = [0, 1, 2].map(() => [0, 0, 0, 0]);
				const total = (tenant: number) => held.reduce((sum, own) => sum + own[tenant]!, 0);
				for (const { worker, tenant, action, limit } of steps) {
					if (action === 'take') {
						const wanted = total(tenant) < limits[tenant]!;
						assert.equal(slots[worker]![tenant]!.tryClaim(), wanted);
						if (wanted) held[worker]![tenant]! += 1;
					} else if (action === 'give' && held[worker]![tenant]! > 0) {
						slots[worker]![tenant]!.release();
						held[worker]![tenant]! -= 1;
					} else if (action === 'die') {
						ConcurrencyCounts.reclaim(memory, worker);
						held[worker]!.fill(0);
					} else if (action === 'relimit') {
						limits[tenant] = limit;
						slots = open(limits);
					}
					for (const [i, one] of slots[0]!.entries()) assert.equal(one.taken, total(i));
				}
			}),
			{ numRuns: 500 },
		);
	});

	it('are exactly the limit, with threads that claim and release concurrently', async () => {
		const tenants = [1n, 2n, (1n << 32n) | 1n];
		const [rounds, limit] = [50, 7];
		const memory = ConcurrencyCounts.allocate(4, 16);
		const granted = new SharedArrayBuffer(4 * rounds * tenants.length);
		await runThreads<TakeTask>(TAKERS, 4, { memory, tenants, limit, rounds, granted });
		for (const count of new Int32Array(granted)) assert.equal(count, limit);
		assert.equal(requestsInFlight(memory), 0);
	});

	it('are all released when their thread dies, at any point', async () => {
		const memory = ConcurrencyCounts.allocate(2, 8);
		const survivor = new ConcurrencyCounts(memory, 0).slots(9n, 1000);
		assert.ok(survivor.tryClaim());
		let held = 0;
		for (let death = 0; death < 30; death++) {
			const progress = new SharedArrayBuffer(4);
			const workerData: VictimTask = { memory, tenant: 9n, worker: 1, progress };
			const victim = new Worker(VICTIM, { workerData });
			await Atomics.waitAsync(new Int32Array(progress), 0, 0).value;
			await victim.terminate();
			if (survivor.taken > 1) held++;
			ConcurrencyCounts.reclaim(memory, 1);
			assert.equal(survivor.taken, 1, `after death ${death}`);
		}
		assert.ok(held > 0, 'no thread died with a request in its hands');
	});

	it('are counted in memory that does not grow, which says so when it is full', () => {
		assert.ok(MAX_LIMITED_TENANTS >= 65_536);
		const memory = ConcurrencyCounts.allocate(1, 2);
		const counts = new ConcurrencyCounts(memory, 0);
		for (const tenant of [1n, 2n, 1n, 2n]) counts.slots(tenant, 1);
		assert.throws(
			() => counts.slots(3n, 1),
			/more than 2 tenants have had a concurrency limit since the start; restart/,
		);
		assert.equal(counts.slots(2n, 1).tryClaim(), true);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rate } from '../../../../packages/gate/src/gates/tenant-limit.ts';
import { DIVIDED, REFUSED, StoreHealth } from '../../../../packages/gate/src/memory/fleet/store-health.ts';
import { LimiterSlots, TenantLimiter } from '../../../../packages/gate/src/memory/limiter.ts';
import { FleetLimiter } from '../../../../packages/proxy/src/memory/fleet/fleet-limiter.ts';
import { SpendingCounts, SpendingTable, type Spent } from '../../../../packages/proxy/src/memory/fleet/spending.ts';
import { runThreads } from '../thread-pool.ts';
import type { SpendingTask } from './spending.thread.ts';

function build(slots = 64) {
	const limiter = TenantLimiter.allocate(new Uint8Array(32), slots);
	const fleet = { spending: SpendingCounts.allocate(limiter), storeHealth: StoreHealth.allocate() };
	return {
		limiter,
		fleet,
		table: new SpendingTable(fleet.spending, limiter),
		worker: new FleetLimiter(limiter, 0, fleet),
	};
}

function taken(table: SpendingTable, wants = (_key: bigint) => true): Spent[] {
	const all: Spent[] = [];
	table.collect(wants, (spent) => void all.push(spent));
	return all;
}

describe('what a process has admitted and the store does not know yet', () => {
	it('is taken once, skipped if it is not wanted, and put back', () => {
		const { table, worker } = build();
		for (const key of [1n, 2n, 2n]) assert.ok(worker.admit(key, 1_000, new Rate(10)));
		assert.deepEqual(
			taken(table, (key) => key === 1n).map(({ key, requests }) => [key, requests]),
			[[1n, 1]],
		);
		const [rest, ...none] = taken(table);
		assert.deepEqual([rest!.key, rest!.requests, Math.round(rest!.fullAtMs), none.length], [2n, 2, 1_200, 0]);
		table.putBack(rest!);
		assert.deepEqual(
			taken(table).map(({ key, requests }) => [key, requests]),
			[[2n, 2]],
		);
		assert.deepEqual(taken(table), []);
	});

	it('keeps its slot from other tenants, with a full bucket too', () => {
		const { table, worker } = build(1);
		assert.ok(worker.admit(1n, 0, new Rate(10)));
		assert.equal(worker.admit(2n, 10_000, new Rate(10)), false, 'the only slot');
		taken(table);
		assert.equal(worker.admit(2n, 10_000, new Rate(10)), true);
	});

	it('has no refusals, and nothing of what is admitted while the store is away', () => {
		const { fleet, table, worker } = build();
		const storeHealth = new StoreHealth(fleet.storeHealth);
		storeHealth.replicas = 4;
		storeHealth.setAll(0, 1, DIVIDED);
		const admitted = () => {
			let count = 0;
			while (worker.admit(1n, 0, new Rate(10, 10))) count++;
			return count;
		};
		assert.equal(admitted(), 2, 'its part of 10, of four');
		storeHealth.setAll(0, 1, REFUSED);
		assert.equal(worker.admit(1n, 60_000, new Rate(10, 10)), false);
		assert.deepEqual(taken(table), []);
	});

	it("raises a bucket, never lowers it, and not that of the slot's next tenant", () => {
		const { limiter, table, worker } = build(1);
		const slots = new LimiterSlots(limiter);
		assert.ok(worker.admit(1n, 0, new Rate(10)));
		slots.raise(0, 1n, 1_000_000.5);
		slots.raise(0, 1n, 900);
		slots.raise(0, 2n, 2_000_000);
		assert.ok(Math.abs(slots.fullAtMs(0) - 1_000_000.5) < 1e-3);
		assert.equal(worker.admit(1n, 999_000, new Rate(10)), false);
		assert.equal(worker.admit(1n, 999_200, new Rate(10)), true);
		assert.equal(taken(table)[0]!.requests, 2);
	});

	it('is all of it, over threads that admit while it is taken and buckets are raised', async () => {
		const { limiter, fleet, table } = build(1 << 12);
		const tenants = 300;
		const admitted = new SharedArrayBuffer(4 * tenants);
		const spent = new Map<bigint, number>();
		const take = () => {
			for (const { slot, key, requests, fullAtMs } of taken(table)) {
				spent.set(key, (spent.get(key) ?? 0) + requests);
				table.slots.raise(slot, key, fullAtMs + 0.01);
			}
		};
		const timer = setInterval(take, 1);
		await runThreads<SpendingTask>(new URL('spending.thread.ts', import.meta.url), 3, {
			limiter,
			fleet,
			tenants,
			admitted,
			rounds: 400,
		});
		clearInterval(timer);
		take();
		const counts = new Int32Array(admitted);
		assert.ok(counts.every((count) => count > 0));
		for (let i = 0; i < tenants; i++) assert.equal(spent.get(BigInt(i + 1)), counts[i], `tenant ${i}`);
	});
});

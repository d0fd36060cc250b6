import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Leasing, TICK_MS } from '../../../../src/control/store/leasing.ts';
import { LedgerStore } from '../../../../src/control/store/ledger.ts';
import type { OnStoreFailure } from '../../../../src/control/store/standing.ts';
import type { RequestSlots } from '../../../../src/gates/quota.ts';
import { ConcurrencyCounts, createConcurrencyMemory } from '../../../../src/shared/concurrency.ts';
import { leasedSlots } from '../../../../src/shared/fleet/allowance.ts';
import { createLeaseMemory } from '../../../../src/shared/fleet/leases.ts';
import { createSlotLeasesMemory } from '../../../../src/shared/fleet/slot-leases.ts';

const TENANT = 0x1234_5678_9abcn;

/** Replicas that share one `concurrency`; answers take 2 ms, or do not come. */
class Fleet {
	readonly store = new LedgerStore();
	readonly slots: RequestSlots[];
	readonly #leasings: Leasing[];
	readonly #answers = new Map<number, (() => void)[]>();
	now = 1_000;
	isAway = false;

	constructor(replicas: number, limit: number, onFailure: OnStoreFailure = 'share') {
		const parts = Array.from({ length: replicas }, (_, i) => {
			const leases = createLeaseMemory(2);
			const concurrency = {
				...createConcurrencyMemory(1, 4),
				leases: createSlotLeasesMemory(4, leases.standing),
			};
			const options = {
				replica: `${i}`.padStart(16, '0'),
				leases,
				concurrency,
				onFailure,
				expected: replicas,
				now: this.now,
			};
			return { leasing: new Leasing(options), slots: new ConcurrencyCounts(concurrency, 0).slots(TENANT, limit) };
		});
		this.#leasings = parts.map(({ leasing }) => leasing);
		this.slots = parts.map(({ slots }) => slots);
		this.run(1_000);
	}

	get underWay(): number {
		return this.slots.reduce((sum, { taken }) => sum + taken, 0);
	}

	leasing(replica: number): Leasing {
		return this.#leasings[replica]!;
	}

	run(ms: number): void {
		for (const end = this.now + ms; this.now < end; this.now++) {
			for (const answer of this.#answers.get(this.now) ?? []) answer();
			this.#answers.delete(this.now);
			for (const [i, leasing] of this.#leasings.entries()) {
				if ((this.now + 3 * i) % TICK_MS === 0) this.#tick(leasing);
			}
		}
	}

	#tick(leasing: Leasing): void {
		for (const batch of leasing.tick(this.now)) {
			const isLost = this.isAway;
			const answer = isLost ? undefined : this.store.lease(batch, this.now * 1000);
			const at = this.now + (isLost ? 250 : 2);
			const arrive = () => {
				if (answer === undefined) leasing.failed(batch, 'no answer', this.now);
				else leasing.answered(batch, answer, this.now);
			};
			this.#answers.set(at, [...(this.#answers.get(at) ?? []), arrive]);
		}
	}
}

describe('one concurrency over all replicas', () => {
	it('lets one replica have nearly all of it, and another one what is given back', () => {
		const fleet = new Fleet(4, 100);
		const take = (replica: number) => {
			let taken = 0;
			for (let i = 0; i < 200; i++) {
				for (; fleet.slots[replica]!.tryTake(); taken++);
				fleet.run(10);
			}
			return taken;
		};
		assert.equal(take(0), leasedSlots(100, 4));
		assert.equal(take(1), 1, 'the one that is there without asking');
		for (let i = 0; i < 60; i++) fleet.slots[0]!.giveBack();
		fleet.run(1_000);
		assert.ok(take(1) >= 40);
		assert.ok(fleet.underWay <= 100);
	});

	it('is kept, whoever takes and gives back wherever', () => {
		const step = fc.record({ replica: fc.nat(11), take: fc.integer({ min: -30, max: 30 }), ms: fc.nat(300) });
		fc.assert(
			fc.property(
				fc.integer({ min: 1, max: 12 }),
				fc.integer({ min: 1, max: 120 }),
				fc.array(step, { minLength: 20, maxLength: 60, size: 'max' }),
				(replicas, limit, steps) => {
					const fleet = new Fleet(replicas, limit);
					const most = leasedSlots(limit, replicas) + replicas;
					if (replicas <= limit / 20) assert.equal(most, limit);
					for (const { replica, take, ms } of steps) {
						const slots = fleet.slots[replica % replicas]!;
						for (let i = 0; i < take; i++) slots.tryTake();
						for (let i = 0; i < -take && slots.taken > 0; i++) slots.giveBack();
						fleet.run(ms);
						assert.ok(fleet.underWay <= most, `${fleet.underWay} of ${limit} at ${replicas} replicas`);
					}
				},
			),
			{ numRuns: 60 },
		);
	});

	it('costs little while it is steady, and nothing when nobody asks', () => {
		const fleet = new Fleet(3, 50);
		for (let i = 0; i < 10; i++) {
			fleet.slots[0]!.tryTake();
			fleet.run(300);
		}
		const steps = fleet.store.steps;
		fleet.run(10_000);
		assert.ok(fleet.store.steps - steps <= 30 + 2 * 30, `${fleet.store.steps - steps} steps`);
		for (let i = 0; i < 10; i++) fleet.slots[0]!.giveBack();
		fleet.run(3_000);
		assert.equal(fleet.leasing(0).size, 0);
	});

	it('is divided while the store is away, and is no more than before when it is back', () => {
		const fleet = new Fleet(4, 40);
		for (let i = 0; i < 50; i++) {
			fleet.slots[0]!.tryTake();
			fleet.run(20);
		}
		assert.equal(fleet.slots[0]!.taken, 38);
		fleet.isAway = true;
		fleet.run(5_000);
		assert.equal(fleet.slots[0]!.tryTake(), false, 'it has more than its share');
		let taken = 0;
		while (fleet.slots[1]!.tryTake()) taken++;
		assert.equal(taken, 10);
		fleet.isAway = false;
		fleet.run(2_000);
		assert.equal(fleet.slots[1]!.tryTake(), false);
		for (let i = 0; i < 30; i++) fleet.slots[0]!.giveBack();
		fleet.run(1_000);
		assert.equal(fleet.slots[1]!.tryTake(), true);
	});

	it('is as the operator says while the store is away: each by itself, or nobody', () => {
		for (const [onFailure, most] of [
			['local', 40],
			['refuse', 0],
		] as const) {
			const fleet = new Fleet(4, 40, onFailure);
			fleet.isAway = true;
			fleet.run(5_000);
			let taken = 0;
			while (fleet.slots[1]!.tryTake()) taken++;
			assert.equal(taken, most, onFailure);
		}
	});
});

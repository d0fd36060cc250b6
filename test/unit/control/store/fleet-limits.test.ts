import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LeaseBatch, LeaseStore } from '../../../../src/control/store/contract.ts';
import { FleetLimits } from '../../../../src/control/store/fleet-limits.ts';
import { TICK_MS } from '../../../../src/control/store/leasing.ts';
import { LedgerStore } from '../../../../src/control/store/ledger.ts';
import { Rate } from '../../../../src/gates/tenant-limit.ts';
import { createConcurrencyMemory } from '../../../../src/shared/concurrency.ts';
import { createLeaseMemory, LeaseSpender } from '../../../../src/shared/fleet/leases.ts';
import { createSlotLeasesMemory } from '../../../../src/shared/fleet/slot-leases.ts';
import type { LogRecord } from '../../../../src/shared/log.ts';
import { createLogger, parseLogFilter } from '../../../../src/shared/log.ts';

/** One process and its store, in fake time. */
class Rig implements LeaseStore {
	readonly ledgers = new LedgerStore();
	readonly batches: LeaseBatch[] = [];
	readonly lines: LogRecord[] = [];
	readonly spender: LeaseSpender;
	readonly limits: FleetLimits;
	isAway = false;
	#now = 0;
	#ticks: (() => void) | undefined;
	#deadline: { readonly at: number; readonly run: () => void } | undefined;

	constructor() {
		const leases = createLeaseMemory(16);
		this.spender = new LeaseSpender(leases, 0);
		const concurrency = { ...createConcurrencyMemory(1, 2), leases: createSlotLeasesMemory(2, leases.standing) };
		const log = createLogger(
			parseLogFilter('info'),
			(record) => this.lines.push(record),
			() => new Date(0),
		);
		this.limits = new FleetLimits({
			store: this,
			onFailure: 'share',
			expectedReplicas: 2,
			leases,
			concurrency,
			timers: {
				every: (_, run) => {
					this.#ticks = run;
					return () => {
						this.#ticks = undefined;
					};
				},
				after: (ms, run) => {
					this.#deadline = { at: this.#now + ms, run };
					return () => {
						this.#deadline = undefined;
					};
				},
			},
			clock: { now: () => this.#now, wallSeconds: () => 0 },
			log,
		});
	}

	async lease(batch: LeaseBatch) {
		this.batches.push(batch);
		if (this.isAway) throw new Error('connection refused');
		return this.ledgers.lease(batch, (1_700_000_000_000 + this.#now) * 1000);
	}

	async pass(ms: number): Promise<void> {
		for (const end = this.#now + ms; this.#now < end; ) {
			this.#now += TICK_MS;
			this.#ticks?.();
			if (this.#deadline !== undefined && this.#now >= this.#deadline.at) this.#deadline.run();
			for (let i = 0; i < 4; i++) await undefined;
		}
	}

	get said(): string[] {
		return this.lines.map(({ level, message }) => `${level} ${message}`);
	}
}

describe('the limits of a fleet, in one process', () => {
	it('waits for the store at the start, leases for whom there are requests, and gives back at the end', async () => {
		const rig = new Rig();
		const started = rig.limits.start(2_000);
		await rig.pass(500);
		await started;
		assert.deepEqual(rig.said, ['info limits are shared with the other replicas']);
		assert.equal(rig.limits.facts.isLeasing, true);
		const rate = new Rate(1_000, 1_000);
		for (let i = 0; i < 100; i++) {
			for (let j = 0; j < 10; j++) assert.ok(rig.spender.spend(5n, rate));
			await rig.pass(10);
		}
		assert.equal(rig.limits.facts.leases, 1);
		await rig.limits.stop(500);
		const last = rig.batches.at(-1)!;
		assert.equal(last.leaving, true);
		assert.deepEqual(
			last.calls.map(({ key, held, want }) => [key, Math.max(0, held), want]),
			[['0000000000000005', 0, 0]],
		);
		const sent = rig.batches.length;
		await rig.pass(1_000);
		assert.equal(rig.batches.length, sent);
	});

	it('begins without a store that does not answer, and says so once; and once that it is back', async () => {
		const rig = new Rig();
		rig.isAway = true;
		const started = rig.limits.start(2_000);
		await rig.pass(3_000);
		await started;
		assert.deepEqual(rig.said, ['warn limiter store away']);
		const { isLeasing, replicas, ageMs, cause } = rig.limits.facts;
		assert.deepEqual([isLeasing, replicas, ageMs, cause], [false, 2, undefined, 'connection refused']);
		rig.isAway = false;
		await rig.pass(1_500);
		rig.isAway = true;
		await rig.pass(5_000);
		rig.isAway = false;
		await rig.pass(1_500);
		assert.deepEqual(rig.said, [
			'warn limiter store away',
			'info limiter store is back',
			'warn limiter store away',
			'info limiter store is back',
		]);
		const { outages, failuresInRow, failures } = rig.limits.facts;
		assert.deepEqual([outages, failuresInRow], [1, 0]);
		assert.ok(failures > 10);
	});

	it('does not wait for ever for a store that takes nothing back', async () => {
		const rig = new Rig();
		const started = rig.limits.start(2_000);
		await rig.pass(500);
		await started;
		rig.lease = () => new Promise(() => {});
		let hasStopped = false;
		const stopped = rig.limits.stop(500).then(() => {
			hasStopped = true;
		});
		await rig.pass(490);
		assert.equal(hasStopped, false);
		await rig.pass(20);
		await stopped;
	});

	it('asks nothing of the store but a sign of life a second while nobody comes', async () => {
		const rig = new Rig();
		const started = rig.limits.start(2_000);
		await rig.pass(500);
		await started;
		rig.batches.length = 0;
		await rig.pass(10_000);
		assert.equal(rig.batches.length, 10);
		assert.ok(rig.batches.every(({ calls }) => calls.length === 0));
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { Rate } from '../../../packages/gate/src/gates/tenant-limit.ts';
import {
	countSlotsInUse,
	LIMITER_SLOTS,
	type LimiterMemory,
	limiterSlotCount,
	TenantLimiter,
} from '../../../packages/gate/src/memory/limiter.ts';
import { ExactLimits, ms } from '../../models/exact-limits.ts';
import { FixedRateLimiter } from './fixed-rate.ts';
import type { HammerTask } from './limiter.thread.ts';
import type { VictimTask } from './limiter-victim.thread.ts';
import { runThreads } from './thread-pool.ts';

const SECRET = new Uint8Array(32).fill(7);
const HAMMER = new URL('./limiter.thread.ts', import.meta.url);
const VICTIM = new URL('./limiter-victim.thread.ts', import.meta.url);
/** Slots that a key may lie in, see `limiter.ts`. */
const WINDOW = 128;

function drain(limiter: FixedRateLimiter, key: bigint, now: number): number {
	let admitted = 0;
	while (limiter.admit(key, now)) admitted++;
	return admitted;
}

describe('the limiter on one thread', () => {
	it('refuses every tenant when the time is not finite, and charges none', () => {
		const limiter = new FixedRateLimiter(TenantLimiter.allocate(SECRET), 5, 0);
		const key = limiter.keyOf('tenant-a');
		for (const nothing of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
			assert.equal(limiter.admit(key, nothing), false);
		}
		assert.equal(limiter.admit(key, 0), true);
		assert.equal(limiter.admit(key, Number.NaN), false);
		assert.equal(drain(limiter, key, 0), 4);
	});

	it('derives the key of a tenant from its name and the secret of the process', () => {
		const one = new FixedRateLimiter(TenantLimiter.allocate(SECRET, 8), 1, 0);
		const same = new FixedRateLimiter(TenantLimiter.allocate(SECRET, 64), 9, 3);
		const other = new FixedRateLimiter(TenantLimiter.allocate(new Uint8Array(32), 8), 1, 0);
		const subs = ['', 'a', 'b', 'tenant', 'tenant ', 'x'.repeat(256), '__proto__'];
		for (const sub of subs) {
			assert.equal(one.keyOf(sub), same.keyOf(sub));
			assert.notEqual(one.keyOf(sub), other.keyOf(sub));
			assert.equal(BigInt.asIntN(64, one.keyOf(sub)), one.keyOf(sub));
			assert.notEqual(one.keyOf(sub), 0n);
		}
		assert.equal(new Set(subs.map((sub) => one.keyOf(sub))).size, subs.length);
	});

	it('has room for a million tenants in debt, in 16 MiB that never grow', () => {
		assert.ok(LIMITER_SLOTS >= 1_000_000);
		const memory = TenantLimiter.allocate(SECRET);
		assert.equal(memory.cells.byteLength, 16 * 2 ** 20);
		assert.equal(memory.cells.growable, false);
	});

	it('does not refill a tenant in debt while 100,000 others come by', () => {
		// A smaller table than the real one, or it would take ten million of them to fill it ten times over.
		const limiter = new FixedRateLimiter(TenantLimiter.allocate(SECRET, 512), 3, 0);
		const debtor = limiter.keyOf('debtor');
		assert.equal(drain(limiter, debtor, 0), 3);
		let key = 1n;
		for (let i = 0; i < 100_000; i++) {
			// A cheap, even spread over the table; HMAC would take most of the time.
			key = BigInt.asIntN(64, key * 6364136223846793005n + 1442695040888963407n);
			limiter.admit(key, i / 512);
		}
		assert.equal(drain(limiter, debtor, 332), 0);
		assert.equal(drain(limiter, debtor, 334), 1);
	});

	it('agrees, in a table of few slots, with exact buckets that are never forgotten', () => {
		const request = fc.tuple(fc.nat(9), fc.oneof(fc.constant(0), fc.nat(400), fc.nat(2000)));
		fc.assert(
			fc.property(
				fc.integer({ min: 1, max: 6 }),
				fc.integer({ min: 1, max: 4 }),
				fc.boolean(),
				fc.array(request, { minLength: 1, maxLength: 200, size: 'max' }),
				(slots, rps, oneHome, requests) => {
					const limiter = new FixedRateLimiter(TenantLimiter.allocate(SECRET, slots), rps, 0);
					const exact = new ExactLimits(rps);
					let grid = 0;
					for (const [tenant, step] of requests) {
						grid += step;
						const key = oneHome ? (BigInt(tenant + 1) << 32n) | 5n : BigInt(tenant * 7 + 1);
						// A tenant whose bucket is full needs a slot that says nothing: any but those of tenants in debt.
						const room = exact.room(key, grid);
						const wanted = room > 0 && (room < rps || exact.inDebt(grid) < slots);
						assert.equal(limiter.admit(key, ms(grid)), wanted, `tenant ${tenant} at ${grid}`);
						if (wanted) exact.add(key, grid, 1);
					}
				},
			),
			{ numRuns: 1000 },
		);
	});

	it('makes a newcomer wait, rather than forget one of the tenants in debt around it', () => {
		const limiter = new FixedRateLimiter(TenantLimiter.allocate(SECRET, 4 * WINDOW), 2, 0);
		const keys = Array.from({ length: WINDOW + 1 }, (_, i) => (BigInt(i + 1) << 32n) | 3n);
		for (const key of keys.slice(0, WINDOW)) assert.equal(drain(limiter, key, 0), 2);
		assert.equal(drain(limiter, keys[WINDOW]!, 999), 0);
		// A key with another home has room all the same.
		assert.equal(drain(limiter, 200n, 999), 2);
		for (const key of keys.slice(0, WINDOW)) assert.equal(drain(limiter, key, 999), 1);
		// At 1499.5 ms and a little all 128 are full again.
		assert.equal(drain(limiter, keys[WINDOW]!, 2000), 2);
	});

	it('finds its tenants again if the window runs over the end of the table', () => {
		const slots = 2 * WINDOW;
		const limiter = new FixedRateLimiter(TenantLimiter.allocate(SECRET, slots), 1, 0);
		const keys = Array.from({ length: WINDOW }, (_, i) => (BigInt(i + 1) << 32n) | BigInt(slots - 5));
		for (const key of keys) assert.equal(drain(limiter, key, 0), 1);
		for (const key of keys) assert.equal(drain(limiter, key, 500), 0);
		for (const key of keys) assert.equal(drain(limiter, key, 1000), 1);
	});

	it('takes keys of every sign and size', () => {
		const limiter = new FixedRateLimiter(TenantLimiter.allocate(SECRET, 64), 1, 0);
		const keys = [1n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 32n, -(2n ** 32n), 0xffff_ffffn];
		for (const key of keys) assert.equal(drain(limiter, key, 0), 1);
		for (const key of keys) assert.equal(drain(limiter, key, 999), 0);
		for (const key of keys) assert.equal(drain(limiter, key, 1000), 1);
	});
});

describe('the limiter over threads', () => {
	const THREADS = 4;

	/** All threads at once, one moment after the other; returns what was admitted, by moment and tenant. */
	async function hammer(task: Omit<HammerTask, 'admitted' | 'memory'> & { slots: number }): Promise<number[][]> {
		const memory = TenantLimiter.allocate(SECRET, task.slots);
		const tenants = task.keys.length;
		const admitted = new SharedArrayBuffer(4 * task.moments.length * tenants);
		const before = memory.cells.byteLength;
		await runThreads<HammerTask>(HAMMER, THREADS, { ...task, memory, admitted });
		assert.equal(memory.cells.byteLength, before);
		assert.equal(new Int32Array(memory.lock)[0], 0, 'a lock was left behind');
		const counts = new Int32Array(admitted);
		return task.moments.map((_, step) => [...counts.subarray(step * tenants, (step + 1) * tenants)]);
	}

	for (const rps of [3, 7, 1000]) {
		it(`passes exactly ${rps} requests at one moment, and exactly what has come back at each later one`, async () => {
			// 0, then steps after which some, all or none of the burst is back.
			const grid = [0, 0, 1, 100, 101, 400, 1424, 1500, 1501, 5000];
			for (let i = 1; i <= 60; i++) grid.push(5000 + i * 41);
			const key = 42n;
			const attempts = Math.ceil((rps + 10) / THREADS) + 2;
			const admitted = await hammer({ rps, keys: [key], moments: grid.map(ms), attempts, slots: 1024 });
			const exact = new ExactLimits(rps);
			for (const [step, moment] of grid.entries()) {
				const room = exact.room(key, moment);
				assert.deepEqual(admitted[step], [room], `moment ${step}`);
				exact.add(key, moment, room);
			}
		});
	}

	it('gives each of many tenants exactly its own limit, while slots are taken and taken again', async () => {
		const rps = 4;
		const keys = Array.from({ length: 48 }, (_, i) => BigInt(i * 0x9e3779b9 + 1));
		// Every moment but the first finds all buckets full, so that every slot changes hands over and over.
		const grid = Array.from({ length: 60 }, (_, i) => i * 1024);
		const admitted = await hammer({ rps, keys, moments: grid.map(ms), attempts: 3, slots: 64 });
		for (const counts of admitted)
			assert.deepEqual(
				counts,
				keys.map(() => rps),
			);
	});

	it('never refills a tenant in debt in a table with fewer slots than tenants, and leaves no slot unused', async () => {
		const rps = 3;
		const slots = 8;
		const keys = Array.from({ length: 40 }, (_, i) => BigInt(i * 0x9e3779b9 + 1));
		// Half a burst later all debts must still be there; a whole one later all buckets are full.
		const grid = Array.from({ length: 80 }, (_, i) => Math.floor(i / 2) * 2048 + (i % 2) * 400);
		const admitted = await hammer({ rps, keys, moments: grid.map(ms), attempts: 2, slots });
		const exact = new ExactLimits(rps);
		for (const [step, moment] of grid.entries()) {
			for (const [tenant, key] of keys.entries()) {
				const count = admitted[step]![tenant]!;
				assert.ok(count <= exact.room(key, moment), `tenant ${tenant} was refilled at moment ${step}`);
				exact.add(key, moment, count);
			}
			assert.ok(exact.inDebt(moment) <= slots);
			// Eight tenants get all they may have, the others wait.
			const total = admitted[step]!.reduce((sum, count) => sum + count, 0);
			assert.equal(total, step % 2 === 0 ? slots * rps : slots, `moment ${step}`);
		}
	});
});

describe('the limiter when another thread gets in between two of its steps', () => {
	const TENANTS = [1n << 32n, 2n << 32n, 3n << 32n];
	const LATER = 10_000;

	/** A table whose slots were used by the tenants in `before`, long enough ago to be full again. */
	function prepare(slots: number, before: readonly bigint[], inDebt: readonly bigint[]): LimiterMemory {
		const memory = TenantLimiter.allocate(SECRET, slots);
		const limiter = new FixedRateLimiter(memory, 2, 0);
		for (const key of before) limiter.admit(key, 0);
		for (const key of inDebt) limiter.admit(key, LATER);
		return memory;
	}

	/** The verdicts, and what each tenant may still have right after them. */
	function outcome(memory: LimiterMemory, verdicts: boolean[]): string {
		const cells = new BigInt64Array(memory.cells).join();
		let left = rooms.get(cells);
		if (left === undefined) {
			left = TENANTS.map((key) => drain(new FixedRateLimiter(copy(memory), 2, 9), key, LATER)).join();
			rooms.set(cells, left);
		}
		return `${verdicts.join()}, left ${left}`;
	}
	const rooms = new Map<string, string>();

	function copy({ cells, lock, secret }: LimiterMemory): LimiterMemory {
		return { cells: cells.slice(), lock: lock.slice(), secret };
	}

	/**
	 * Runs a request of one thread, and within it, before its `at`-th access to the shared memory, the requests of
	 * another.
	 *
	 * @returns `waits` when the other one would have had to wait for the lock, which is not another interleaving;
	 *   `over` when the request has fewer accesses.
	 */
	function interleave(
		memory: LimiterMemory,
		first: bigint,
		others: readonly bigint[],
		at: number,
	): boolean[] | 'waits' | 'over' {
		const { load, compareExchange, store } = Atomics;
		const one = new FixedRateLimiter(memory, 2, 0);
		const two = new FixedRateLimiter(memory, 2, 1);
		let accesses = 0;
		let between: boolean[] | undefined;
		let waits = false;
		const step = () => {
			if (accesses++ !== at) return;
			try {
				between = others.map((key) => two.admit(key, LATER));
			} catch (error) {
				if (error !== WAITS) throw error;
				waits = true;
			}
		};
		Object.assign(Atomics, {
			load: (...args: Parameters<typeof load>) => {
				step();
				return load(...args);
			},
			store: (...args: Parameters<typeof store>) => {
				step();
				return store(...args);
			},
			compareExchange: (...args: Parameters<typeof compareExchange>) => {
				step();
				const found = compareExchange(...args);
				if (args[0] instanceof Int32Array && found !== args[2]) throw WAITS;
				return found;
			},
		});
		try {
			const verdict = one.admit(first, LATER);
			if (waits) return 'waits';
			return between === undefined ? 'over' : [verdict, ...between];
		} finally {
			Object.assign(Atomics, { load, compareExchange, store });
		}
	}

	it('decides as if one of them had come first', () => {
		const sequences = (length: number): bigint[][] =>
			length === 0 ? [[]] : sequences(length - 1).flatMap((rest) => TENANTS.map((key) => [...rest, key]));
		const histories = [0, 1, 2].flatMap(sequences);
		let interleavings = 0;
		for (const slots of [1, 2]) {
			for (const before of histories) {
				for (const inDebt of [0, 1].flatMap(sequences)) {
					for (const others of [1, 2].flatMap(sequences)) {
						const first = TENANTS[0]!;
						// The other two tenants are alike: the one that is named first is always the same.
						if ([...before, ...inDebt, ...others].find((key) => key !== first) === TENANTS[2]) continue;
						const start = prepare(slots, before, inDebt);
						// Every place that the request can have among the others.
						const wanted = Array.from({ length: others.length + 1 }, (_, place) => {
							const memory = copy(start);
							const limiter = new FixedRateLimiter(memory, 2, 0);
							const verdicts = others.toSpliced(place, 0, first).map((key) => limiter.admit(key, LATER));
							const [own] = verdicts.splice(place, 1);
							return outcome(memory, [own!, ...verdicts]);
						});
						for (let at = 0; ; at++) {
							const memory = copy(start);
							const verdicts = interleave(memory, first, others, at);
							if (verdicts === 'over') break;
							if (verdicts === 'waits') continue;
							interleavings++;
							const got = outcome(memory, verdicts);
							assert.ok(wanted.includes(got), `${slots} slots, ${before}; ${inDebt}; ${others} at ${at}: ${got}`);
						}
					}
				}
			}
		}
		assert.ok(interleavings > 10_000);
	});
});

/** Thrown out of the loop that waits for the lock. */
const WAITS = new Error('waits for the lock');

describe('the limiter after the death of a thread', () => {
	const RPS = 2;
	const DEAD = 1;
	/** Index of a slot's key; its bucket follows. */
	const CLAIMED = -1n;

	function orphaned(slots: number): { memory: LimiterMemory; limiter: FixedRateLimiter; cells: BigInt64Array } {
		const memory = TenantLimiter.allocate(SECRET, slots);
		new Int32Array(memory.lock)[0] = DEAD + 1;
		return { memory, limiter: new FixedRateLimiter(memory, RPS, 0), cells: new BigInt64Array(memory.cells) };
	}

	it('goes on once the lock of the dead one is released, and of no other', () => {
		const { memory, limiter } = orphaned(4);
		const lock = new Int32Array(memory.lock);
		TenantLimiter.reclaim(memory, 0);
		TenantLimiter.reclaim(memory, DEAD + 1);
		assert.equal(lock[0], DEAD + 1);
		TenantLimiter.reclaim(memory, DEAD);
		assert.equal(lock[0], 0);
		assert.equal(drain(limiter, 5n, 0), RPS);
		TenantLimiter.reclaim(memory, DEAD);
		assert.equal(lock[0], 0);
	});

	it('needs no lock for tenants that have a slot', () => {
		const memory = TenantLimiter.allocate(SECRET, 4);
		const limiter = new FixedRateLimiter(memory, RPS, 0);
		assert.equal(limiter.admit(5n, 0), true);
		new Int32Array(memory.lock)[0] = DEAD + 1;
		assert.equal(limiter.admit(5n, 0), true);
		assert.equal(limiter.admit(5n, 0), false);
	});

	// The traces of a thread that dies between two of its writes, in each kind of slot.
	for (const { before, slot } of [
		{ before: 'a virgin slot', slot: [0n, 0n] },
		{ before: 'the slot of a tenant that was full again', slot: [1n << 32n, 1n] },
	] as const) {
		for (const { when, left } of [
			{ when: 'the claim', left: [slot[0], CLAIMED] },
			{ when: 'the claim and the key', left: [2n << 32n, CLAIMED] },
		] as const) {
			it(`takes ${before} into use that was left after ${when}`, () => {
				for (const first of [1n << 32n, 2n << 32n, 3n << 32n]) {
					const { memory, limiter, cells } = orphaned(2);
					cells.set(left);
					TenantLimiter.reclaim(memory, DEAD);
					// All three have the same home, two slots are there, and time enough to empty them in between.
					const others = [1n << 32n, 2n << 32n, 3n << 32n].filter((key) => key !== first);
					assert.equal(drain(limiter, first, 100), RPS, 'a full bucket');
					assert.equal(drain(limiter, others[0]!, 100), RPS, 'the other slot');
					assert.equal(drain(limiter, others[1]!, 100), 0, 'no third slot');
					assert.equal(drain(limiter, first, 100), 0);
					assert.equal(drain(limiter, first, 700), 1, 'one request back');
					assert.equal(drain(limiter, others[1]!, 5000), RPS);
					assert.equal(drain(limiter, others[0]!, 5000), RPS);
					assert.equal(drain(limiter, first, 5000), 0);
					assert.ok(!cells.includes(CLAIMED), 'a claim was left behind');
				}
			});
		}
	}

	it('keeps the debts of all tenants while threads are killed that hold the lock', async () => {
		const memory = TenantLimiter.allocate(SECRET, WINDOW);
		const limiter = new FixedRateLimiter(memory, RPS, 0);
		const lock = new Int32Array(memory.lock);
		const debtors = Array.from({ length: WINDOW }, (_, i) => BigInt(i + 1));
		for (const key of debtors) assert.equal(drain(limiter, key, 0), RPS);
		const before = new BigInt64Array(memory.cells).slice();
		let heldAtDeath = 0;
		for (let round = 0; round < 100 && heldAtDeath < 3; round++) {
			const progress = new SharedArrayBuffer(4);
			const workerData: VictimTask = { memory, rps: RPS, worker: DEAD, now: 1, progress };
			const victim = new Worker(VICTIM, { workerData });
			await Atomics.waitAsync(new Int32Array(progress), 0, 0).value;
			// Killed as soon as it is seen with the lock; where it is not seen, at random.
			for (let looks = 0; looks < 1e6 && Atomics.load(lock, 0) === 0; looks++);
			await victim.terminate();
			if (lock[0] !== 0) heldAtDeath++;
			assert.ok(lock[0] === 0 || lock[0] === DEAD + 1);
			TenantLimiter.reclaim(memory, DEAD);
			assert.equal(lock[0], 0);
			// A newcomer takes the lock and finds no slot.
			assert.equal(limiter.admit(1n << 50n, 1), false);
		}
		assert.ok(heldAtDeath > 0, 'no thread died where it matters');
		assert.deepEqual(new BigInt64Array(memory.cells), before);
	});
});

describe('the slots of the limiter in use', () => {
	it('are those of tenants in debt, to the moment at which their buckets are full', () => {
		const memory = TenantLimiter.allocate(new Uint8Array(32), 64);
		const limiter = new TenantLimiter(memory, 0);
		assert.deepEqual([limiterSlotCount(memory), slotsInUse(memory, 0)], [64, 0]);
		const rate = new Rate(4);
		for (const tenant of ['a', 'b', 'c']) limiter.admit(limiter.keyOf(tenant), 1000, rate);
		limiter.admit(limiter.keyOf('c'), 1000, rate);
		const inUse = (ms: number) => slotsInUse(memory, ms);
		assert.deepEqual([1000, 1249, 1250, 1499, 1500, 1e9].map(inUse), [3, 3, 1, 1, 0, 0]);
	});
});

function slotsInUse(memory: LimiterMemory, nowMs: number): number {
	const count = countSlotsInUse(memory, nowMs);
	for (let step = count.next(); ; step = count.next()) if (step.done) return step.value;
}

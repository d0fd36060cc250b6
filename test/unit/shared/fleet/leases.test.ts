import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { Rate } from '../../../../src/gates/tenant-limit.ts';
import { allowanceOf, divideRate, leasedSlots } from '../../../../src/shared/fleet/allowance.ts';
import { FleetLimiter } from '../../../../src/shared/fleet/fleet-limiter.ts';
import {
	createLeaseMemory,
	LEASE_PLACES,
	LeaseSpender,
	LeaseTable,
	MAX_TOKENS,
	releaseLeaseLock,
} from '../../../../src/shared/fleet/leases.ts';
import { LOCAL, REFUSING } from '../../../../src/shared/fleet/standing-word.ts';
import { createWakeMemory, WakeList } from '../../../../src/shared/fleet/wake-list.ts';
import { createLimiterMemory, TenantLimiter } from '../../../../src/shared/limiter.ts';
import { runThreads } from '../thread-pool.ts';
import type { SpendTask } from './leases.thread.ts';

const HAMMER = new URL('./leases.thread.ts', import.meta.url);
const RATE = new Rate(100, 100);

function table(places = 64) {
	const memory = createLeaseMemory(places);
	return { memory, spender: new LeaseSpender(memory, 0), table: new LeaseTable(memory) };
}

function drain(spend: () => boolean): number {
	let spent = 0;
	while (spend()) spent++;
	return spent;
}

describe('the division of a limit', () => {
	const limits = fc.record({
		rps: fc.integer({ min: 2, max: 10_000_000 }),
		burst: fc.integer({ min: 1, max: 20_000_000 }),
		replicas: fc.integer({ min: 1, max: 2_000 }),
	});

	it('keeps the promise with as many replicas as the burst has tokens', () => {
		fc.assert(
			fc.property(limits, ({ rps, burst, replicas }) => {
				const { allowance, capacity } = divideRate(rps, burst, replicas);
				assert.ok(Number.isSafeInteger(allowance) && Number.isSafeInteger(capacity));
				assert.ok(allowance >= 1 && capacity >= Math.floor(rps / 2));
				if (replicas <= burst) assert.ok(capacity + replicas * allowance <= burst + rps / 2);
				else assert.ok(capacity + replicas * allowance <= Math.max(burst + rps / 2, rps / 2 + 1 + replicas));
			}),
		);
	});

	it('gives one replica by itself nearly all at once, and many of them one each', () => {
		assert.deepEqual(divideRate(100, 100, 1), { allowance: 75, capacity: 75 });
		assert.deepEqual(divideRate(100, 100, 10), { allowance: 7, capacity: 80 });
		assert.deepEqual(divideRate(100, 100, 100), { allowance: 1, capacity: 50 });
		assert.deepEqual(divideRate(10, 10, 50), { allowance: 1, capacity: 5 });
	});

	it('keeps a concurrency exactly while replicas are a twentieth of it, and is over it by less than their number otherwise', () => {
		fc.assert(
			fc.property(fc.integer({ min: 1, max: 1e6 }), fc.integer({ min: 1, max: 1e3 }), (limit, replicas) => {
				const most = leasedSlots(limit, replicas) + replicas;
				assert.ok(leasedSlots(limit, replicas) >= limit * 0.95);
				assert.ok(most <= (replicas <= limit / 20 ? limit : limit + replicas));
			}),
		);
	});
});

describe('a table of leases', () => {
	it('has its allowance for whom it has not seen, and says once that somebody has come', () => {
		const { spender, table: leases } = table();
		assert.equal(leases.wake(), -1);
		assert.equal(
			drain(() => spender.spend(42n, RATE)),
			allowanceOf(100, 100, 1),
		);
		const place = leases.wake();
		assert.equal(leases.key(place), '000000000000002a');
		assert.deepEqual([leases.rps(place), leases.burst(place), leases.tokens(place)], [100, 100, 0]);
		assert.equal(leases.refused(place), 1);
		assert.equal(leases.wake(), -1);
	});

	it('spends what is put in, tells when it comes to the mark, and gives back what was not needed', () => {
		const { spender, table: leases } = table();
		drain(() => spender.spend(7n, RATE));
		const place = leases.wake();
		leases.put(place, 10);
		leases.tell(place, 4, 17);
		for (let i = 0; i < 5; i++) assert.ok(spender.spend(7n, RATE));
		assert.equal(leases.wake(), -1);
		assert.equal(spender.left, 5 + 17);
		assert.ok(spender.spend(7n, RATE));
		assert.equal(leases.wake(), place);
		spender.unspend();
		assert.equal(leases.tokens(place), 5);
		assert.deepEqual(leases.put(place, -9), { before: 5, change: -5 });
		assert.deepEqual(leases.put(place, 2 ** 30), { before: 0, change: MAX_TOKENS });
	});

	it('wakes by itself where the mark has been passed already', () => {
		const { spender, table: leases } = table();
		drain(() => spender.spend(7n, RATE));
		const place = leases.wake();
		leases.put(place, 3);
		leases.tell(place, 5, 0);
		assert.equal(leases.wake(), place);
	});

	it('takes over what the last request says of the limit', () => {
		const { spender, table: leases } = table();
		spender.spend(7n, RATE);
		const place = leases.wake();
		spender.spend(7n, new Rate(3, 5));
		assert.deepEqual([leases.rps(place), leases.burst(place)], [3, 5]);
	});

	it('gives a place up only if nobody has come meanwhile, and begins anew then', () => {
		const { spender, table: leases } = table();
		spender.spend(7n, RATE);
		const place = leases.wake();
		const tokens = leases.tokens(place);
		spender.spend(7n, RATE);
		assert.equal(leases.vacate(place, tokens), false);
		assert.equal(leases.vacate(place, tokens - 1), true);
		assert.equal(leases.tokens(place), -1);
		spender.unspend();
		assert.equal(leases.tokens(place), -1, 'a token was given back to nobody');
		assert.equal(
			drain(() => spender.spend(7n, RATE)),
			75,
		);
		assert.equal(leases.wake(), place);
	});

	it('gives a token back to nobody else', () => {
		const { spender, table: leases, memory } = table(1);
		const other = new LeaseSpender(memory, 1);
		spender.spend(1n, RATE);
		leases.vacate(leases.wake(), 74);
		other.spend(2n, RATE);
		const place = leases.wake();
		spender.unspend();
		assert.equal(leases.tokens(place), 74);
	});

	it('refuses whom it has no place for, and has one again when another one has left', () => {
		const { spender, table: leases } = table(4);
		for (const key of [1n, 2n, 3n, 4n]) assert.ok(spender.spend(key, RATE));
		assert.equal(spender.spend(5n, RATE), false);
		assert.equal(spender.left, 0);
		const place = leases.wake();
		assert.ok(leases.vacate(place, 74));
		assert.ok(spender.spend(5n, RATE));
		assert.equal(leases.wake(), 2);
	});

	it('is bounded: 131,072 keys in 8 MiB', () => {
		assert.equal(LEASE_PLACES, 131_072);
		const { cells } = createLeaseMemory();
		assert.equal(cells.byteLength, 8 * 2 ** 20);
		assert.equal(cells.growable, false);
	});

	it('agrees with buckets that are never forgotten, while places are given up and taken again', () => {
		const step = fc.record({
			key: fc.nat(7),
			act: fc.constantFrom('spend', 'spend', 'put', 'vacate'),
			tokens: fc.nat(5),
		});
		fc.assert(
			fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
				const { spender, table: leases } = table(8);
				const model = new Map<bigint, number>();
				const places = new Map<bigint, number>();
				for (const { key: i, act, tokens } of steps) {
					const key = BigInt(i + 1) << 32n;
					const place = places.get(key);
					if (act === 'spend') {
						const left = model.get(key) ?? 75;
						assert.equal(spender.spend(key, RATE), left > 0);
						model.set(key, Math.max(0, left - 1));
						for (let woken = leases.wake(); woken !== -1; woken = leases.wake()) {
							places.set(BigInt.asIntN(64, BigInt(`0x${leases.key(woken)}`)), woken);
						}
					} else if (place !== undefined && act === 'put') {
						leases.put(place, tokens);
						model.set(key, model.get(key)! + tokens);
					} else if (place !== undefined) {
						assert.ok(leases.vacate(place, model.get(key)!));
						model.delete(key);
						places.delete(key);
					}
				}
			}),
			{ numRuns: 300 },
		);
	});

	it('is used by the limiter: a token, then the bucket of this process; nothing at all where each is by itself', () => {
		const { memory, table: leases } = table();
		const limiter = new FleetLimiter(createLimiterMemory(new Uint8Array(32), 64), 0, memory);
		const rate = new Rate(100, 5);
		assert.equal(
			drain(() => limiter.admit(9n, 0, rate)),
			1,
			'one token: the allowance is less than the burst',
		);
		const place = leases.wake();
		leases.put(place, 100);
		assert.equal(
			drain(() => limiter.admit(9n, 0, rate)),
			4,
			'the rest of the burst',
		);
		assert.equal(leases.tokens(place), 96, 'who is over the limit here has spent nothing of the fleet');
		leases.put(place, -94);
		assert.ok(limiter.admit(9n, 1_000, rate));
		limiter.tellLeft(rate);
		assert.equal(limiter.bucket.remaining(rate), 1);
		leases.standing.set(REFUSING, 1);
		assert.equal(limiter.admit(9n, 1_000, rate), false);
		assert.equal(limiter.bucket.secondsToRoom(rate), 1);
		leases.standing.set(LOCAL, 1);
		const local = new TenantLimiter(createLimiterMemory(new Uint8Array(32), 64), 0);
		local.admit(9n, 1_000, rate);
		assert.equal(
			drain(() => limiter.admit(9n, 1_000, rate)),
			drain(() => local.admit(9n, 1_000, rate)),
		);
	});
});

describe('leases over threads', () => {
	it('are spent exactly once, while the main thread puts in, takes out and gives places up', async () => {
		const memory = createLeaseMemory(32);
		const leases = new LeaseTable(memory);
		const keys = Array.from({ length: 24 }, (_, i) => BigInt(i * 0x9e3779b9 + 1));
		const spent = new SharedArrayBuffer(4 * keys.length);
		const done = new SharedArrayBuffer(4);
		const threads = 4;
		const running = runThreads<SpendTask>(HAMMER, threads, {
			memory,
			keys,
			keysGivenUp: 12,
			rounds: 400,
			attempts: 20,
			spent,
			done,
		});
		let put = 0;
		const places = new Set<number>();
		let vacated = 0;
		const mayLeave = new Set(keys.slice(0, 12).map((key) => key.toString(16).padStart(16, '0')));
		const begin = (place: number) => {
			if (places.has(place)) return;
			places.add(place);
			put += allowanceOf(100, 8, 1);
		};
		const wakeAll = () => {
			for (let place = leases.wake(); place !== -1; place = leases.wake()) begin(place);
		};
		for (let turn = 0; Atomics.load(new Int32Array(done), 0) < threads; turn++) {
			wakeAll();
			for (const place of places) {
				if ((turn + place) % 3 === 0) put += leases.put(place, 70).change;
				if ((turn + place) % 3 === 1) put += leases.put(place, -3).change;
				const tokens = leases.tokens(place);
				if (mayLeave.has(leases.key(place)) && (turn + place) % 7 === 0 && leases.vacate(place, tokens)) {
					put -= tokens;
					vacated++;
					places.delete(place);
				}
			}
			await setImmediate();
		}
		await running;
		wakeAll();
		const left = [...places].reduce((sum, place) => sum + leases.tokens(place), 0);
		const total = new Int32Array(spent).reduce((sum, own) => sum + own, 0);
		assert.ok(total > 1_000 && vacated > 10, `${total} spent, ${vacated} places given up`);
		assert.equal(new Int32Array(memory.lock)[0], 0, 'a lock was left behind');
		assert.equal(total, put - left);
	});

	it('are looked at however long a thread sleeps between counting a place and writing it', () => {
		const { memory, spender, table: leases } = table();
		assert.ok(spender.spend(5n, RATE));
		// As if its thread had been put to sleep before the second of its two instructions.
		const written = new Int32Array(memory.wake.ring);
		const late = Atomics.exchange(written, 0, 0);
		assert.ok(spender.spend(6n, RATE));
		for (let looks = 0; looks < 1_000; looks++) assert.equal(leases.wake(), -1);
		written[0] = late;
		assert.deepEqual([leases.wake(), leases.wake(), leases.wake()], [5, 6, -1]);
	});

	it('are in the list once, also those that are added anew after the death of a thread: it has room for no more', () => {
		const list = new WakeList(createWakeMemory(8));
		for (let place = 0; place < 8; place++) list.add(place);
		list.forget();
		for (let place = 0; place < 5; place++) list.add(place);
		const taken = Array.from({ length: 1_000 }, () => list.take()).filter((place) => place !== -1);
		assert.deepEqual(taken, [0, 1, 2, 3, 4, 5, 6, 7]);
		list.add(7);
		assert.equal(list.take(), 7, 'the list is stuck');
	});

	it('go on after the death of a thread with the lock in its hand, or before it could say what it has seen', () => {
		const { memory, spender, table: leases } = table();
		new Int32Array(memory.lock)[0] = 3;
		releaseLeaseLock(memory, 1);
		assert.equal(new Int32Array(memory.lock)[0], 3, 'the lock of another one');
		releaseLeaseLock(memory, 2);
		// It has claimed the right to wake the main thread for all places, and has woken nobody; one it has counted, and never wrote.
		new Int32Array(memory.wake.flags).fill(1);
		new Int32Array(memory.wake.added)[0]!++;
		assert.ok(spender.spend(5n, RATE));
		assert.equal(leases.wake(), -1);
		assert.deepEqual([...leases.survey()], [5]);
		drain(() => spender.spend(5n, RATE));
		for (let looks = 0; looks < 200; looks++) if (leases.wake() === 5) return;
		assert.fail('the list is stuck');
	});
});

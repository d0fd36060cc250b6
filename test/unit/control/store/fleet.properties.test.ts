import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Rate } from '../../../../packages/gate/src/gates/tenant-limit.ts';
import { TenantLimiter } from '../../../../packages/gate/src/memory/limiter.ts';
import { LEAST_SLACK_MS } from '../../../../packages/proxy/src/control/store/settlement.ts';
import { Fleet, type FleetOptions } from '../../../models/fleet.ts';

/** Replicas, limit and demand of one tenant; `seed` decides the rest. */
interface Case {
	readonly replicas: number;
	readonly rps: number;
	readonly burst: number;
	readonly seed: number;
	readonly phases: readonly Phase[];
}

interface Phase {
	readonly ms: number;
	/** Requests, in multiples of the rate. */
	readonly load: number;
	/** Requests that come at once. */
	readonly atOnce: number;
	readonly spread: 'even' | 'turns' | 'one' | 'skewed' | 'jumping';
	/** Between jumps. */
	readonly everyMs: number;
}

function random(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
		return state / 2 ** 32;
	};
}

/** Asks as the phases say. @param before decides whether a request is made at all. */
function ask(fleet: Fleet, { replicas, rps, seed, phases }: Case, before = (_now: number) => true): void {
	const next = random(seed);
	let owed = 0;
	let turn = 0;
	for (const { ms, load, atOnce, spread, everyMs } of phases) {
		const choose: Record<Phase['spread'], (now: number) => number> = {
			even: () => Math.floor(next() * replicas),
			turns: () => turn % replicas,
			one: () => 0,
			skewed: () => Math.min(replicas - 1, Math.floor((-Math.log(1 - next()) * replicas) / 8)),
			jumping: (now) => (Math.floor(now / everyMs) * 7919) % replicas,
		};
		fleet.run(ms, (now) => {
			owed += (rps * load) / 1000;
			if (owed < atOnce) return;
			for (; owed >= 1; owed--) {
				turn++;
				if (before(now)) fleet.ask(0, choose[spread](now));
			}
		});
	}
}

/** One request of each tenant at a fixed interval, in milliseconds. */
function askAll(fleet: Fleet, now: number, everyMs: number): void {
	if (now % everyMs !== 0) return;
	for (let tenant = 0; tenant < fleet.keys.length; tenant++) fleet.ask(tenant, 0);
}

const phase: fc.Arbitrary<Phase> = fc.record({
	ms: fc.integer({ min: 100, max: 4_000 }),
	load: fc.constantFrom(0, 0.1, 0.5, 1, 1, 3, 20),
	atOnce: fc.constantFrom(1, 1, 10, 100),
	spread: fc.constantFrom('even', 'turns', 'one', 'skewed', 'jumping'),
	everyMs: fc.constantFrom(5, 50, 200, 1_000),
});
const anyCase: fc.Arbitrary<Case> = fc.record({
	replicas: fc.integer({ min: 1, max: 12 }),
	rps: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 20, max: 400 })),
	burst: fc.integer({ min: 1, max: 600 }),
	seed: fc.nat(),
	phases: fc.array(phase, { minLength: 3, maxLength: 8, size: 'max' }),
});

/** Settled within this time, ms, at latencies up to so much each way. */
function settledMs(latencyMs: number): number {
	const roundTrip = 2 * latencyMs + 2;
	return Math.max(LEAST_SLACK_MS, 200 * Math.ceil(roundTrip / 200) + roundTrip);
}

/** What all together may admit in any window beyond what the rate gives in it: docs/internals/shared-rate-limits.md. */
function mostBeyond({ replicas, rps, burst }: Case, withinMs: number): number {
	return replicas === 1 ? burst : replicas * burst + (replicas + 1) * rps * (withinMs / 1000);
}

function fleetOf({ replicas, rps, burst }: Case, options: Partial<FleetOptions> = {}): Fleet {
	const fleet = new Fleet({ replicas, rps, burst, ...options });
	fleet.run(2_000);
	return fleet;
}

/** As many as are worth their time each time; more by hand. */
const RUNS = Number(process.env.FLEET_RUNS ?? 1);
const latencies = fc.record({ ms: fc.constantFrom(0, 1, 25, 95, 200), jitter: fc.constantFrom(0, 5) });

describe('one limit across all replicas', () => {
	it('admits no more than the promise in any window, whatever is asked wherever, at any latency', () => {
		fc.assert(
			fc.property(anyCase, latencies, (given, { ms, jitter }) => {
				const next = random(given.seed + 1);
				const fleet = fleetOf(given, { latency: () => ms + next() * jitter });
				ask(fleet, given);
				const most = mostBeyond(given, settledMs(ms + jitter));
				assert.ok(fleet.mostBeyondRate(0) <= most + 1, `${fleet.mostBeyondRate(0)} of ${most}`);
			}),
			{ numRuns: 20 * RUNS },
		);
	});

	it('admits no more than the promise if each replica gets its burst while its call is in flight', () => {
		const latencyMs = 25;
		for (const [replicas, burst, atRateMs] of [
			[4, 1_600, 250],
			[6, 1_600, 200],
			[12, 400, 50],
		] as const) {
			const given: Case = { replicas, rps: 400, burst, seed: 1, phases: [] };
			const fleet = fleetOf(given, { latency: () => latencyMs });
			const begin = fleet.now + atRateMs;
			const greedy = new Set<number>();
			fleet.run(2_000, (now) => {
				for (let replica = 0; replica < replicas; replica++) {
					// The store has counted the call, and its reply arrives in the next millisecond.
					if (now >= begin && fleet.sinceTick(replica) === 2 * latencyMs - 1) greedy.add(replica);
					if (!greedy.has(replica)) {
						if ((now * given.rps) % 1000 < given.rps) fleet.ask(0, replica);
					} else while (fleet.ask(0, replica));
				}
			});
			const most = mostBeyond(given, settledMs(latencyMs));
			assert.ok(fleet.mostBeyondRate(0) <= most + 1, `${fleet.mostBeyondRate(0)} of ${most}`);
		}
	});

	it('refuses nothing that one limiter would admit, in any proportions over replicas, at any latency', () => {
		fc.assert(
			fc.property(anyCase, latencies, (given, { ms, jitter }) => {
				const next = random(given.seed + 1);
				const fleet = fleetOf(given, { latency: () => ms + next() * jitter });
				// Delays are known once some requests have been settled.
				fleet.ask(0, 0);
				fleet.run(4_000 + (given.burst * 1000) / given.rps);
				const one = new TenantLimiter(TenantLimiter.allocate(new Uint8Array(32), 8), 0);
				const rate = new Rate(given.rps, given.burst);
				const [asked, admitted] = [fleet.asked(0), fleet.admitted(0)];
				ask(fleet, given, (now) => one.admit(1n, now, rate));
				assert.equal(fleet.admitted(0) - admitted, fleet.asked(0) - asked);
			}),
			{ numRuns: 20 * RUNS },
		);
	});

	it('admits the rate in the long run, no less and no more, over few replicas and many', () => {
		for (const [replicas, rps, burst] of [
			[2, 10, 1],
			[3, 200, 20],
			[10, 40, 40],
			[50, 10, 10],
		] as const) {
			const over = { ms: 1, load: 5, atOnce: 1, spread: 'even', everyMs: 1 } as const;
			const given: Case = { replicas, rps, burst, seed: 1, phases: [{ ...over, ms: 60_000 }] };
			const fleet = fleetOf(given);
			// The debt of the first instant is paid back meanwhile.
			ask(fleet, { ...given, phases: [{ ...over, ms: 60_000 }] });
			const begin = fleet.now;
			ask(fleet, given);
			const part = fleet.admitted(0, begin) / (60 * rps);
			assert.ok(part > 0.97 && part < 1.03, `${part} of the rate at ${replicas} replicas`);
		}
	});

	it('keeps the promise while the store is away, full, forgets, or its clock moves; and after it comes back', () => {
		const faults = fc.array(
			fc.record({
				at: fc.integer({ min: 0, max: 12_000 }),
				ms: fc.integer({ min: 100, max: 6_000 }),
				kind: fc.constantFrom('away', 'answers lost', 'full', 'flushed', 'clock back', 'clock ahead'),
			}),
			{ minLength: 1, maxLength: 2 },
		);
		fc.assert(
			fc.property(anyCase, faults, (given, faults) => {
				let begin = Number.POSITIVE_INFINITY;
				const active = (now: number) =>
					faults.filter(({ at, ms }) => now - begin >= at && now - begin < at + ms).map(({ kind }) => kind);
				let isAnswer = false;
				const fleet = fleetOf(given, {
					latency: (now) => {
						isAnswer = !isAnswer;
						const kinds = active(now);
						return kinds.includes('away') || (kinds.includes('answers lost') && isAnswer) ? undefined : 1;
					},
					refuses: (now) => active(now).includes('full'),
					storeMicros: (now) => {
						const kinds = active(now);
						const jump = kinds.includes('clock back') ? -3_600e6 : kinds.includes('clock ahead') ? 3_600e6 : 0;
						return (1_700_000_000_000 + now) * 1000 + jump;
					},
				});
				begin = fleet.now;
				const flushes = new Set(faults.filter(({ kind }) => kind === 'flushed').map(({ at }) => begin + at));
				ask(fleet, given, (now) => {
					if (flushes.delete(now)) fleet.ledger.flush();
					return true;
				});
				// Each fault may cost the replicas what they know of each other, once when it comes and once when it goes.
				const once = mostBeyond(given, 2_000);
				const most = once * (1 + 2 * faults.length);
				assert.ok(fleet.mostBeyondRate(0) <= most, `${fleet.mostBeyondRate(0)} of ${most}`);
				for (const end = begin + 20_000; fleet.now < end; ) fleet.run(1_000);
				assert.equal(fleet.settlement(0).away.shards, 0);
				const [asked, admitted] = [fleet.asked(0), fleet.admitted(0)];
				fleet.run(60_000 + ((given.replicas + 1) * given.burst * 1000) / given.rps);
				for (let i = 0; i < given.burst; i++) fleet.ask(0, i % given.replicas);
				assert.equal(fleet.admitted(0) - admitted, fleet.asked(0) - asked, 'a burst after all is over');
			}),
			{ numRuns: 12 * RUNS },
		);
	});

	it('gives each its share while the store is away, and asks five times a second at most', () => {
		for (const [onFailure, least, most] of [
			['share', 95, 103],
			['local', 195, 203],
			['refuse', 0, 0],
		] as const) {
			let isAway = false;
			const given: Case = { replicas: 5, rps: 100, burst: 100, seed: 1, phases: [] };
			const fleet = fleetOf(given, { onFailure, latency: () => (isAway ? undefined : 1) });
			isAway = true;
			const over: Phase = { ms: 4_000, load: 2, atOnce: 1, spread: 'turns', everyMs: 0 };
			ask(fleet, { ...given, phases: [over] });
			const [away, trips] = [fleet.now, fleet.trips];
			assert.equal(fleet.settlement(0).away.shards, 1);
			ask(fleet, { ...given, phases: [{ ...over, ms: 20_000 }] });
			const rate = fleet.admitted(0, away) / 20;
			assert.ok(rate >= least && rate <= most, `${onFailure}: ${rate} a second`);
			assert.ok(fleet.trips - trips <= 5 * 20 * 5, `${fleet.trips - trips} trips`);
			isAway = false;
			fleet.run(3_000);
			const back = fleet.now;
			ask(fleet, { ...given, phases: [{ ...over, ms: 10_000, load: 0.9 }] });
			assert.ok(fleet.admitted(0, back) >= 0.98 * 900, `${onFailure}: ${fleet.admitted(0, back)} after it is back`);
		}
	});

	it('lets only tenants of a full shard, and of a key of another type, have their share', () => {
		let full = -1;
		const fleet = new Fleet({
			replicas: 4,
			rps: 8,
			burst: 8,
			tenants: 40,
			cluster: true,
			refuses: (_, shard) => shard === full,
		});
		fleet.run(2_000);
		full = Number(BigInt.asUintN(6, fleet.keys[0]!));
		fleet.ledger.foreign.add(fleet.keys[1]!);
		const askFor = (ms: number) => fleet.run(ms, (now) => askAll(fleet, now, 50));
		askFor(10_000);
		const from = fleet.now;
		askFor(10_000);
		const rates = fleet.keys.map((_, i) => Math.round(fleet.admitted(i, from) / 10));
		const isShared = fleet.keys.map((key, i) => Number(BigInt.asUintN(6, key)) !== full && i !== 1);
		assert.deepEqual(
			rates,
			isShared.map((shared) => (shared ? 8 : 2)),
		);
		assert.deepEqual(fleet.settlement(0).away, { shards: 1, of: 64 });
		full = -1;
		fleet.ledger.foreign.clear();
		askFor(10_000);
		assert.deepEqual(fleet.settlement(0).away, { shards: 0, of: 64 });
		const back = fleet.now;
		askFor(10_000);
		assert.ok(fleet.keys.every((_, i) => fleet.admitted(i, back) >= 79));
	});

	it('settles what the store has refused to take, once it takes it again', () => {
		let isFull = false;
		const fleet = new Fleet({ replicas: 2, rps: 1, burst: 10, refuses: () => isFull });
		fleet.run(2_000);
		isFull = true;
		for (let i = 0; i < 10; i++) assert.ok(fleet.ask(0, 0));
		fleet.run(500);
		isFull = false;
		fleet.run(500);
		assert.equal(fleet.settlement(0).away.shards, 0, 'too short for that');
		assert.ok(fleet.ask(0, 1));
		fleet.run(500);
		let more = 0;
		while (fleet.ask(0, 1)) more++;
		assert.ok(more <= 2, `${more} more of 9`);
	});

	for (const [what, afterTickMs] of [
		['', 100],
		[', with a call under way', 1],
	] as const)
		it(`loses nothing for good if a main thread is held up for 5 s${what}`, () => {
			let begin = Number.POSITIVE_INFINITY;
			const isStalled = (now: number, replica: number) => replica === 0 && now >= begin && now < begin + 5_000;
			const given: Case = { replicas: 3, rps: 100, burst: 100, seed: 1, phases: [] };
			const fleet = fleetOf(given, { isStalled });
			begin = fleet.now - (fleet.now % 200) + 2_000 + afterTickMs;
			const at: Phase = { ms: 8_000, load: 1, atOnce: 1, spread: 'turns', everyMs: 0 };
			ask(fleet, { ...given, phases: [at] });
			assert.equal(fleet.admitted(0), fleet.asked(0), 'while it is held up');
			for (let i = 0; i < 3; i++)
				assert.equal(fleet.settlement(i).slackMs, LEAST_SLACK_MS, `the slack of replica ${i}`);
			ask(fleet, { ...given, phases: [{ ...at, ms: 20_000 }] });
			assert.equal(fleet.admitted(0), fleet.asked(0), 'after that');
		});

	it('goes to the store five times a second with all tenants, and not at all for idle ones', () => {
		const fleet = new Fleet({ replicas: 1, tenants: 1_000, rps: 10, burst: 10, slots: 4_096 });
		fleet.run(2_000);
		const { trips, calls, keysSent } = fleet;
		fleet.run(10_000, (now) => askAll(fleet, now, 100));
		assert.ok(fleet.trips - trips <= 50, `${fleet.trips - trips} trips`);
		assert.ok(fleet.calls - calls <= 200, 'scripts of 256 keys');
		assert.ok(fleet.keysSent - keysSent <= 50_000);
		fleet.run(1_000);
		const { trips: after } = fleet;
		fleet.run(10_000);
		assert.equal(fleet.trips, after);
	});
});

describe('requests at once across all replicas', () => {
	const fleetWith = (replicas: number, concurrency: number) => {
		const fleet = new Fleet({ replicas, rps: 1, burst: 1, concurrency });
		fleet.run(2_000);
		return fleet;
	};

	it('admits 60 in parallel of a concurrency of 60, at one replica or over three, after a pause too', () => {
		for (const over of [1, 3]) {
			const fleet = fleetWith(3, 60);
			for (let round = 0; round < 3; round++) {
				for (let i = 0; i < 60; i++) assert.ok(fleet.slots(i % over).tryClaim(), `${i} over ${over}`);
				// Who has not asked for a while learns of the others with its first request.
				for (let i = 0; i < 3; i++) if (fleet.slots(i).tryClaim()) fleet.slots(i).release();
				fleet.run(500);
				for (let i = 0; i < 3; i++) assert.equal(fleet.slots(i).tryClaim(), false, 'one more');
				for (let i = 0; i < 60; i++) fleet.slots(i % over).release();
				fleet.run(500);
			}
		}
	});

	it('forgets after 3 s what a replica had that is gone, and counts what lasts for minutes', () => {
		let isGone = false;
		const fleet = new Fleet({
			...{ replicas: 2, rps: 1, burst: 1, concurrency: 10 },
			isStalled: (_, replica) => isGone && replica === 0,
		});
		fleet.run(2_000);
		for (let i = 0; i < 10; i++) assert.ok(fleet.slots(0).tryClaim());
		const isRefused = () => !fleet.slots(1).tryClaim();
		assert.ok(fleet.slots(1).tryClaim(), 'it does not know yet');
		fleet.slots(1).release();
		fleet.run(500);
		fleet.run(60_000, (now) => {
			if (now % 100 === 0) assert.ok(isRefused());
		});
		isGone = true;
		fleet.run(2_500, (now) => {
			if (now % 100 === 0) assert.ok(isRefused());
		});
		fleet.run(1_500, (now) => {
			if (now % 100 === 0 && fleet.slots(1).tryClaim()) fleet.slots(1).release();
		});
		assert.equal(fleet.slots(1).tryClaim(), true);
	});

	it('has a share of it while the store is away, one at least', () => {
		let isAway = false;
		for (const [concurrency, share] of [
			[10, 2],
			[2, 1],
		] as const) {
			isAway = false;
			const fleet = new Fleet({ replicas: 4, rps: 1, burst: 1, concurrency, latency: () => (isAway ? undefined : 1) });
			fleet.run(2_000);
			isAway = true;
			fleet.run(5_000);
			let taken = 0;
			while (fleet.slots(0).tryClaim()) taken++;
			assert.equal(taken, share);
		}
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { LeaseAnswer } from '../../../../src/control/store/contract.ts';
import { divideRate } from '../../../../src/shared/fleet/allowance.ts';
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
	readonly spread: 'even' | 'turns' | 'one' | 'skewed' | 'jumping' | 'all at once';
	/** Between jumps. */
	readonly everyMs: number;
}

const SPREADS = ['even', 'turns', 'one', 'skewed', 'jumping', 'all at once'] as const;

function random(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
		return state / 2 ** 32;
	};
}

/** Asks as the phase says. @param watch sees each millisecond before its requests. */
function ask(
	fleet: Fleet,
	{ replicas, rps, seed }: Case,
	phases: readonly Phase[],
	watch = (_now: number) => {},
): void {
	const next = random(seed);
	let owed = 0;
	let turn = 0;
	for (const { ms, load, spread, everyMs } of phases) {
		fleet.run(ms, (now) => {
			watch(now);
			owed += (rps * load) / 1000;
			if (spread === 'all at once' && owed < Math.min(replicas, rps)) return;
			for (; owed >= 1; owed--) {
				turn++;
				if (spread === 'even') fleet.ask(0, Math.floor(next() * replicas));
				else if (spread === 'one') fleet.ask(0, 0);
				else if (spread === 'skewed')
					fleet.ask(0, Math.min(replicas - 1, Math.floor((-Math.log(1 - next()) * replicas) / 8)));
				else if (spread === 'jumping') fleet.ask(0, (Math.floor(now / everyMs) * 7919) % replicas);
				else fleet.ask(0, turn % replicas);
			}
		});
	}
}

/** What all together may admit in any 10 s. */
function most({ replicas, rps, burst }: Case): number {
	const { allowance, capacity } = divideRate(rps, burst, replicas);
	const bound = 10 * rps + capacity + replicas * allowance;
	if (replicas <= burst) assert.ok(bound <= 10 * rps * 1.05 + burst);
	// The model counts in steps of 100 ms.
	return bound + Math.ceil(rps / 10);
}

function fleetOf({ replicas, rps, burst }: Case, options: Partial<FleetOptions> = {}): Fleet {
	const fleet = new Fleet({ replicas, tenants: 1, rps, burst, places: 16, ...options });
	fleet.run(3_000, () => {});
	return fleet;
}

const phase = fc.record({
	ms: fc.integer({ min: 100, max: 4_000 }),
	load: fc.constantFrom(0, 0.1, 0.5, 1, 1, 3, 20),
	spread: fc.constantFrom(...SPREADS),
	everyMs: fc.constantFrom(5, 50, 200, 1_000),
});
const anyCase: fc.Arbitrary<Case> = fc.record({
	replicas: fc.integer({ min: 1, max: 24 }),
	rps: fc.oneof(fc.integer({ min: 2, max: 20 }), fc.integer({ min: 20, max: 400 })),
	burst: fc.integer({ min: 1, max: 600 }),
	seed: fc.nat(),
	phases: fc.array(phase, { minLength: 4, maxLength: 12, size: 'max' }),
});

/** Three replicas for four tokens of the burst, and a burst of a second: there the promise holds both ways. */
function inDomain(any: Case): Case {
	return { ...any, burst: Math.max(any.burst, any.rps, Math.ceil(any.replicas / 0.75)) };
}

/** As many as are worth their time each time; more by hand. */
const RUNS = Number(process.env.FLEET_RUNS ?? 1);

describe('one limit over all replicas', () => {
	it('is not exceeded, whatever is asked wherever, and whenever answers come', () => {
		const network = fc.record({
			ms: fc.constantFrom(0, 1, 10, 60),
			jitter: fc.constantFrom(0, 5, 60),
			lost: fc.constantFrom(0, 0, 0.1),
		});
		fc.assert(
			fc.property(anyCase, network, (given, { ms, jitter, lost }) => {
				const next = random(given.seed + 1);
				const latency = () => (next() < lost ? undefined : ms + next() * jitter);
				const fleet = fleetOf(given, { latency });
				ask(fleet, given, given.phases);
				assert.ok(fleet.mostIn10s(0) <= most(given), `${fleet.mostIn10s(0)} of ${most(given)}`);
			}),
			{ numRuns: 120 * RUNS },
		);
	});

	it('is not exceeded while the store goes away and comes back, stands still, or forgets', () => {
		const faults = fc.array(
			fc.record({
				at: fc.integer({ min: 0, max: 15_000 }),
				ms: fc.integer({ min: 100, max: 9_000 }),
				kind: fc.constantFrom('away', 'answers lost', 'slow', 'flushed'),
			}),
			{ minLength: 1, maxLength: 3 },
		);
		fc.assert(
			fc.property(anyCase, faults, (given, faults) => {
				let now = 0;
				let begin = Number.POSITIVE_INFINITY;
				let isAnswer = false;
				const kinds = () =>
					faults.filter(({ at, ms }) => now - begin >= at && now - begin < at + ms).map(({ kind }) => kind);
				const fleet = fleetOf(given, {
					latency: (at) => {
						now = at;
						isAnswer = !isAnswer;
						const active = kinds();
						if (active.includes('away') || (active.includes('answers lost') && at % 2 === 0)) return undefined;
						return active.includes('slow') ? 240 : 1;
					},
				});
				begin = fleet.now;
				ask(fleet, given, given.phases, (at) => {
					for (const { at: start, kind } of faults) if (kind === 'flushed' && at - begin === start) fleet.store.flush();
				});
				assert.ok(fleet.mostIn10s(0) <= most(given), `${fleet.mostIn10s(0)} of ${most(given)}`);
			}),
			{ numRuns: 120 * RUNS },
		);
	});

	it('gives a tenant that asks for its rate 95 % of it, spread in any proportions', () => {
		const spread = fc.constantFrom('even', 'turns', 'one', 'skewed' as const);
		fc.assert(
			fc.property(anyCase, spread, fc.constantFrom(0.3, 0.8, 1), (any, spread, load) => {
				const given = inDomain(any);
				const fleet = fleetOf(given);
				ask(fleet, given, [{ ms: 20_000, load, spread, everyMs: 0 }]);
				const part = fleet.admitted(0) / fleet.asked(0);
				assert.ok(part >= 0.95, `${part} of what was asked for`);
			}),
			{ numRuns: 60 * RUNS },
		);
	});

	it('gives it as much over connections in turns, however they lie and whatever its pace: nothing goes wrong in step with calls', () => {
		const given: Case = { replicas: 4, rps: 10, burst: 10, seed: 1, phases: [] };
		for (const connections of ['0', '01', '001', '012', '0011', '0123', '00123', '00011122']) {
			for (const everyMs of [100, 111, 125, 150, 200, 250, 300, 400, 500, 600, 1_000]) {
				for (const phase of [0, 3, 7]) {
					const fleet = fleetOf(given);
					let due = fleet.now + phase;
					let turn = 0;
					fleet.run(10_000, (now) => {
						for (; now >= due; due += everyMs) fleet.ask(0, Number(connections[turn++ % connections.length]));
					});
					const part = fleet.admitted(0) / fleet.asked(0);
					assert.ok(part >= 0.95, `${part} of a request every ${everyMs} ms at ${connections}, ${phase} ms later`);
				}
			}
		}
	});

	it('gives it as much while its demand moves from one replica to another once a second', () => {
		fc.assert(
			fc.property(anyCase, fc.constantFrom(0.3, 0.8, 1), fc.constantFrom(1_000, 3_000), (any, load, everyMs) => {
				const given = inDomain(any);
				const fleet = fleetOf(given);
				ask(fleet, given, [{ ms: 20_000, load, spread: 'jumping', everyMs }]);
				const part = fleet.admitted(0) / fleet.asked(0);
				assert.ok(part >= 0.95, `${part} of what was asked for`);
			}),
			{ numRuns: 40 * RUNS },
		);
	});

	it('and while it moves as fast as it likes, where an allowance outlasts an answer', () => {
		fc.assert(
			fc.property(anyCase, fc.constantFrom(10, 50, 200), (any, everyMs) => {
				const rps = any.rps + 20;
				const given = { ...any, rps, burst: rps, replicas: Math.min(any.replicas, rps / 2) | 0 };
				const fleet = fleetOf(given);
				ask(fleet, given, [{ ms: 20_000, load: 1, spread: 'jumping', everyMs }]);
				const part = fleet.admitted(0) / fleet.asked(0);
				assert.ok(part >= 0.95, `${part} of what was asked for`);
			}),
			{ numRuns: 40 * RUNS },
		);
	});

	it('costs a steady tenant five calls a second at each replica that it asks, and an idle one none', () => {
		fc.assert(
			fc.property(anyCase, fc.constantFrom(0.5, 1, 3), (any, load) => {
				const given = { ...any, burst: Math.min(any.burst, 2 * any.rps) };
				const fleet = fleetOf(given);
				ask(fleet, given, [{ ms: 2_000, load, spread: 'turns', everyMs: 0 }]);
				const before = fleet.calls;
				ask(fleet, given, [{ ms: 10_000, load, spread: 'turns', everyMs: 0 }]);
				assert.ok(fleet.calls - before <= 56 * given.replicas, `${fleet.calls - before} calls`);
				// A debt is asked about until it is made good: of the burst, and of what each replica has without asking.
				fleet.run(6_000 + (given.replicas / given.rps) * 1000, () => {});
				const idle = fleet.calls;
				fleet.run(5_000, () => {});
				assert.equal(fleet.calls - idle, 0);
				for (let i = 0; i < given.replicas; i++) assert.equal(fleet.leasing(i).size, 0);
			}),
			{ numRuns: 20 * RUNS },
		);
	});

	it('admits no more than the rate in the long run, with more replicas than the promise is for, too', () => {
		for (const [replicas, rps] of [
			[50, 10],
			[60, 20],
			[10, 40],
		] as const) {
			const given: Case = { replicas, rps, burst: rps, seed: 1, phases: [] };
			const fleet = fleetOf(given);
			const over = (ms: number): readonly Phase[] => [{ ms, load: 3, spread: 'even', everyMs: 0 }];
			ask(fleet, given, over(8_000));
			const begin = fleet.now;
			ask(fleet, given, over(30_000));
			const part = fleet.admitted(0, begin) / (30 * rps);
			assert.ok(part > 0.97 && part < 1.03, `${part} of the rate at ${replicas} replicas`);
		}
	});

	it('goes on with a share for each while the store is away, and comes back by itself', () => {
		const given: Case = { replicas: 5, rps: 100, burst: 100, seed: 1, phases: [] };
		let isAway = false;
		const fleet = fleetOf(given, { latency: () => (isAway ? undefined : 1) });
		const even = (ms: number, load: number): readonly Phase[] => [{ ms, load, spread: 'turns', everyMs: 0 }];
		ask(fleet, given, even(5_000, 0.9));
		isAway = true;
		ask(fleet, given, even(3_000, 0.9));
		const away = fleet.now;
		ask(fleet, given, even(20_000, 2));
		const share = fleet.admitted(0, away) / 20;
		assert.ok(share > 95 && share <= 103, `${share} a second of 100`);
		assert.ok(fleet.leasing(0).standing.isAway);
		isAway = false;
		ask(fleet, given, even(1_000, 0));
		const back = fleet.now;
		ask(fleet, given, even(10_000, 0.9));
		assert.ok(fleet.admitted(0, back) / fleet.asked(0, back) > 0.95);
		for (let i = 0; i < 5; i++) {
			const { isAway: stillAway, outages } = fleet.leasing(i).standing;
			assert.deepEqual([stillAway, outages], [false, 1]);
		}
	});

	it('believes no answer that cannot be true, and goes on as if there had been none', () => {
		const lies: Record<string, (answer: LeaseAnswer) => LeaseAnswer> = {
			'beyond what was asked': (answer) => withGrants(answer, (granted) => granted + 1_000),
			negative: (answer) => withGrants(answer, () => -5),
			'no number': (answer) => withGrants(answer, () => Number.NaN),
			'too few': (answer) => ({ ...answer, grants: answer.grants.slice(1) }),
			'no replicas': (answer) => ({ ...answer, replicas: 0 }),
			'half a replica': (answer) => ({ ...answer, replicas: 0.5 }),
			'no time': (answer) => ({ ...answer, nowMs: Number.NaN }),
		};
		for (const [name, lie] of Object.entries(lies)) {
			const given: Case = { replicas: 4, rps: 50, burst: 50, seed: 1, phases: [] };
			let isLying = false;
			const distort = (answer: LeaseAnswer) => (isLying ? lie(answer) : answer);
			const fleet = fleetOf(given, { distort });
			isLying = true;
			ask(fleet, given, [{ ms: 12_000, load: 2, spread: 'turns', everyMs: 0 }]);
			assert.ok(fleet.mostIn10s(0) <= most(given), name);
			assert.ok(fleet.admitted(0) > 450, `${name}: ${fleet.admitted(0)}`);
			isLying = false;
			fleet.run(40_000, () => {});
			for (let i = 0; i < 4; i++) assert.equal(fleet.leasing(i).standing.isAway, false, name);
		}
	});
});

function withGrants(answer: LeaseAnswer, change: (granted: number) => number): LeaseAnswer {
	return { ...answer, grants: answer.grants.map((grant) => ({ ...grant, granted: change(grant.granted) })) };
}

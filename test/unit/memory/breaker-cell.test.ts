import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	type BreakerState,
	INITIAL,
	MAX_TENANTS,
	NO_STREAK,
	type OpeningRule,
	onAbandoned,
	onFailure,
	onHealth,
	onRequest,
	onSuccess,
} from '../../../packages/proxy/src/gates/breaker.ts';
import {
	BreakerCell,
	CLOSED,
	type Failure,
	HALF_OPEN,
	NORMAL,
	OPEN,
	REFUSED,
	type Transition,
} from '../../../packages/proxy/src/memory/breaker-cell.ts';
import type { ProbeTask } from './breaker-cell.thread.ts';
import { FAILURES, planOf, type StreakTask } from './breaker-streak.thread.ts';
import { runThreads } from './thread-pool.ts';

const COOLDOWN = 1000;

/** The layout that `breaker-cell.ts` documents. */
function read(memory: SharedArrayBuffer): BreakerState {
	const bits = BigInt.asUintN(64, new BigInt64Array(memory)[0]!);
	const field = (from: bigint, width: number) => Number(BigInt.asUintN(width, bits >> from));
	const circuit = field(0n, 2) as BreakerState['circuit'];
	const probe = field(2n, 20);
	if (circuit !== CLOSED) return { circuit, probe, since: Number(BigInt.asIntN(42, bits >> 22n)), streak: NO_STREAK };
	const streak = {
		failures: field(22n, 7),
		connects: field(29n, 7),
		tenants: field(36n, 5),
		number: field(41n, 23),
	};
	return { circuit, probe, since: 0, streak };
}

/** An open or half-open state. */
function write(memory: SharedArrayBuffer, { circuit, probe, since }: Omit<BreakerState, 'streak'>): void {
	new BigInt64Array(memory)[0] = (BigInt(since) << 22n) | (BigInt(probe) << 2n) | BigInt(circuit);
}

/** The slots of the tenants of all streaks, past ones included. */
function tenantSlots(memory: SharedArrayBuffer): bigint[] {
	return [...new BigInt64Array(memory, 16, MAX_TENANTS)].filter((slot) => slot !== 0n);
}

const FIRST: OpeningRule = { failures: 1, tenants: 1 };
const failure = (tenant = 'tenant', reason: Failure['reason'] = 'status'): Failure => ({ reason, cause: 'x', tenant });

function closedCell(): { memory: SharedArrayBuffer; cell: BreakerCell } {
	const memory = BreakerCell.allocate(0);
	const cell = new BreakerCell(memory);
	cell.health(true, 0);
	return { memory, cell };
}

describe('the breaker cell', () => {
	it('can be asked for its verdict, without a change', () => {
		const states = fc.record({
			circuit: fc.constantFrom(CLOSED, OPEN, HALF_OPEN),
			probe: fc.nat(1000),
			since: fc.integer({ min: -5_000, max: 5_000 }),
		});
		fc.assert(
			fc.property(states, fc.integer({ min: -5_000, max: 5_000 }), (state, now) => {
				const memory = BreakerCell.allocate(0);
				write(memory, state);
				const before = read(memory);
				const cell = new BreakerCell(memory);
				const admits = cell.admits(now, COOLDOWN);
				assert.deepEqual(read(memory), before);
				assert.equal(admits, cell.admit(now, COOLDOWN) !== REFUSED);
			}),
		);
	});

	it('starts closed if the health check is off', () => {
		const cell = new BreakerCell(BreakerCell.allocate(5000, CLOSED));
		assert.equal(cell.admit(5000, COOLDOWN), NORMAL);
		cell.fail(NORMAL, failure(), FIRST, 5000);
		assert.equal(cell.circuit, OPEN);
	});

	it('waits for the whole cooldown, also when it opened between two milliseconds', () => {
		for (const opened of [0, 0.25, 0.999, 12.5, 1e9 + 0.75]) {
			const { cell } = closedCell();
			cell.fail(NORMAL, failure(), FIRST, opened);
			assert.equal(cell.admit(opened + COOLDOWN - 0.001, COOLDOWN), REFUSED, `${opened}`);
			// Whole milliseconds are kept, so it may take one more.
			assert.ok(cell.admit(opened + COOLDOWN + 1, COOLDOWN) > NORMAL, `${opened}`);
		}
	});

	it('frees the slot of an abandoned probe at once, at any age of the process and with any cooldown', () => {
		for (const now of [0, 1, COOLDOWN, 1e6, 1e9, 1e12]) {
			for (const cooldown of [COOLDOWN, 86_400_000, 31_536_000_000]) {
				const memory = BreakerCell.allocate(0);
				write(memory, { circuit: HALF_OPEN, probe: 7, since: now });
				const cell = new BreakerCell(memory);
				cell.report(7, 'abandoned');
				assert.equal(cell.circuit, OPEN);
				assert.ok(read(memory).since < 0);
				assert.equal(cell.admit(now, cooldown), 8);
				assert.equal(cell.admit(now, cooldown), REFUSED);
			}
		}
	});

	it('keeps times up to 69 years, and probe numbers of 20 bits', () => {
		const longest = 2 ** 41 - 1;
		for (const since of [0, 1, 2 ** 31, 2 ** 32, 2 ** 40, longest]) {
			for (const probe of [1, 2, 2 ** 19, 2 ** 20 - 1]) {
				const memory = BreakerCell.allocate(0);
				write(memory, { circuit: OPEN, probe, since: -1 });
				const cell = new BreakerCell(memory);
				assert.equal(cell.admit(since, 1), probe === 2 ** 20 - 1 ? 1 : probe + 1);
				const admission = read(memory).probe;
				assert.deepEqual(read(memory), { circuit: HALF_OPEN, probe: admission, since, streak: NO_STREAK });
				cell.fail(admission, failure(), FIRST, since);
				assert.deepEqual(read(memory), { circuit: OPEN, probe: admission, since, streak: NO_STREAK });
			}
		}
	});

	it('reports each transition with its cause, by any thread', () => {
		const made: Transition[] = [];
		const cell = new BreakerCell(BreakerCell.allocate(0), (transition) => made.push(transition));
		const names = ['closed', 'open', 'half-open'];
		const lines = () =>
			made.splice(0).map(({ from, to, reason, cause }) => `${names[from]} ${names[to]} ${reason}: ${cause}`);
		cell.health(false, 1, 'health: 404');
		assert.deepEqual(lines(), [], 'it was open before');
		cell.health(true, 2, 'health: 200');
		cell.health(true, 3, 'health: 200');
		assert.deepEqual(lines(), ['open closed health: health: 200']);
		cell.fail(NORMAL, { reason: 'timeout', cause: 'no response within 30 s', tenant: 'a' }, FIRST, 4);
		cell.fail(NORMAL, { reason: 'status', cause: 'status 503', tenant: 'a' }, FIRST, 4);
		assert.deepEqual(lines(), ['closed open timeout: no response within 30 s'], 'once');
		const lost = cell.admit(4 + COOLDOWN, COOLDOWN);
		const probe = cell.admit(4 + 2 * COOLDOWN, COOLDOWN);
		cell.report(lost, 'success');
		assert.deepEqual(lines(), [
			'open half-open probe: the cooldown is over',
			'half-open half-open probe: the cooldown is over',
		]);
		cell.report(probe, 'abandoned');
		assert.deepEqual(lines(), ['half-open open probe: the probe ended without a verdict']);
		cell.report(cell.admit(5000, COOLDOWN), 'success');
		assert.deepEqual(lines().at(-1), 'half-open closed probe: the probe succeeded');
		cell.report(NORMAL, 'success');
		cell.report(NORMAL, 'abandoned');
		assert.deepEqual(lines(), []);
	});

	it('forgets tenants when the streak ends', () => {
		const { memory, cell } = closedCell();
		const rule = { failures: 3, tenants: 3 };
		const failBy = (...tenants: string[]) => {
			for (const tenant of tenants) cell.fail(NORMAL, failure(tenant), rule, 0);
		};
		failBy('a', 'b', 'a');
		assert.equal(tenantSlots(memory).length, 2);
		cell.report(NORMAL, 'success');
		assert.deepEqual(tenantSlots(memory), []);
		failBy('a', 'b', 'c');
		assert.equal(cell.circuit, OPEN);
		assert.deepEqual(tenantSlots(memory), []);
	});

	it('counts a tenant whose thread died after it claimed a slot, and does not wait for that thread', () => {
		const { memory, cell } = closedCell();
		// The dead thread has left an entry of this streak in the first slot, but has not counted it in the word.
		const { number } = read(memory).streak;
		new BigInt64Array(memory)[2] = BigInt.asIntN(64, (BigInt(number) << 41n) | 4711n);
		cell.fail(NORMAL, failure('a'), { failures: 100, tenants: 16 }, 0);
		assert.deepEqual(read(memory).streak, { number, failures: 1, connects: 0, tenants: 2 });
	});

	it('ignores what a slow thread reports about an earlier streak', () => {
		const { memory, cell } = closedCell();
		cell.fail(NORMAL, failure('a'), { failures: 100, tenants: 16 }, 0);
		const stale = new BigInt64Array(memory)[2]!;
		cell.report(NORMAL, 'success');
		new BigInt64Array(memory)[2] = stale;
		cell.fail(NORMAL, failure('a'), { failures: 100, tenants: 16 }, 0);
		const { failures, tenants } = read(memory).streak;
		assert.deepEqual([failures, tenants], [1, 1]);
	});

	it('does the same as the pure breaker, over any history', () => {
		const event = fc.oneof(
			fc.record({ type: fc.constant('pass' as const), ms: fc.oneof(fc.nat(1500), fc.nat(2 ** 36)) }),
			fc.record({ type: fc.constant('request' as const), cooldown: fc.constantFrom(1000, 3000) }),
			fc.record({
				type: fc.constant('report' as const),
				which: fc.nat(5),
				outcome: fc.constantFrom('success', 'status', 'timeout', 'broken', 'connect', 'abandoned'),
				tenant: fc.nat(20),
				rule: fc.record({ failures: fc.integer({ min: 1, max: 100 }), tenants: fc.integer({ min: 1, max: 16 }) }),
			}),
			fc.record({ type: fc.constant('health' as const), healthy: fc.boolean() }),
		);
		fc.assert(
			fc.property(
				fc.nat(2 ** 38),
				fc.boolean(),
				fc.array(event, { maxLength: 100, size: 'max' }),
				(start, isAmong, events) => {
					const place = isAmong ? { states: BreakerCell.allocateStates(3), at: 1 } : undefined;
					const memory = BreakerCell.allocate(start, OPEN, place);
					const cell = new BreakerCell(memory, undefined, place);
					let state: BreakerState = { ...INITIAL, since: start };
					let now = start;
					const inFlight: number[] = [];
					const tenants = new Set<number>();
					for (const event of events) {
						if (event.type === 'pass') now += event.ms;
						if (event.type === 'request') {
							const next = onRequest(state, now, event.cooldown);
							const wanted = next !== undefined ? next.probe : state.circuit === CLOSED ? NORMAL : REFUSED;
							state = next ?? state;
							assert.equal(cell.admit(now, event.cooldown), wanted);
							if (wanted !== REFUSED) inFlight.push(wanted);
						}
						if (event.type === 'report') {
							const admission = inFlight.splice(event.which, 1)[0];
							if (admission === undefined) continue;
							const { outcome, rule } = event;
							if (outcome === 'success' || outcome === 'abandoned') {
								const next = outcome === 'success' ? onSuccess(state, admission, 1) : onAbandoned(state, admission);
								if (next !== undefined) tenants.clear();
								state = next ?? state;
								cell.report(admission, outcome);
							} else {
								const isConnect = outcome === 'connect';
								const isKnown = tenants.has(event.tenant);
								const counts = isConnect ? 'connect' : isKnown ? 'known tenant' : 'new tenant';
								const next = onFailure(state, admission, counts, rule, now);
								if (next?.circuit !== CLOSED) tenants.clear();
								else if (!isConnect) tenants.add(event.tenant);
								state = next ?? state;
								cell.fail(admission, failure(`tenant-${event.tenant}`, outcome), rule, now);
							}
						}
						if (event.type === 'health') {
							const next = onHealth(state, event.healthy, now, 1);
							if (next !== undefined) tenants.clear();
							state = next ?? state;
							cell.health(event.healthy, now);
						}
						assert.equal(cell.circuit, state.circuit);
						const { streak, ...rest } = read(place?.states.slice(8, 16) ?? memory);
						// Numbers only have to differ.
						assert.deepEqual({ ...rest, streak: { ...streak, number: state.streak.number } }, state);
					}
					const [before, , behind] = new BigInt64Array(place?.states ?? new SharedArrayBuffer(24));
					assert.deepEqual([before, behind], [0n, 0n], 'the neighbours');
				},
			),
			{ numRuns: 1000 },
		);
	});
});

describe('the breaker cell over threads', () => {
	it('lets exactly one probe through a cooldown, whatever the outcome of the last one', async () => {
		const { memory, cell } = closedCell();
		cell.fail(NORMAL, failure(), FIRST, 0);
		const rounds = 200;
		const probes = new SharedArrayBuffer(4 * rounds);
		const normal = new SharedArrayBuffer(4 * rounds);
		const task: ProbeTask = { memory, cooldownMs: COOLDOWN, rounds, attempts: 75, probes, normal };
		await runThreads(new URL('./breaker-cell.thread.ts', import.meta.url), 4, task);
		assert.deepEqual([...new Int32Array(probes)], Array(rounds).fill(1));
		assert.deepEqual([...new Int32Array(normal)], Array(rounds).fill(0));
	});

	it('counts every failure and every tenant once, and opens at the last failure that the rule needs', async () => {
		const memory = BreakerCell.allocate(0, CLOSED);
		const [threads, rounds] = [4, 16 * 3 * 10];
		const [low, high, opened] = [0, 0, 0].map(() => new SharedArrayBuffer(4 * rounds));
		const task: StreakTask = { memory, threads, rounds, low: low!, high: high!, opened: opened! };
		await runThreads(new URL('./breaker-streak.thread.ts', import.meta.url), threads, task);
		const all = threads * FAILURES;
		for (let round = 0; round < rounds; round++) {
			const { tenants, rule, succeeds } = planOf(round, threads);
			const end = new SharedArrayBuffer(8);
			new Int32Array(end).set([new Int32Array(low!)[round]!, new Int32Array(high!)[round]!]);
			const { circuit, streak } = read(end);
			const opens = rule.failures === all;
			assert.equal(circuit, opens ? OPEN : CLOSED, `round ${round}`);
			assert.equal(new Int32Array(opened!)[round], Number(opens), `round ${round}`);
			if (opens) continue;
			if (!succeeds) assert.deepEqual([streak.failures, streak.tenants], [all, tenants], `round ${round}`);
			// Those before the success are gone.
			else assert.ok(streak.failures < all && streak.tenants <= Math.min(tenants, streak.failures), `round ${round}`);
		}
		const { streak } = read(memory);
		assert.deepEqual([streak.failures, streak.tenants], [0, 0]);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type BreakerState, INITIAL, onHealth, onOutcome, onRequest } from '../../../src/gates/breaker.ts';
import { BreakerCell, CLOSED, HALF_OPEN, NORMAL, OPEN, REFUSED } from '../../../src/shared/breaker-cell.ts';
import type { ProbeTask } from './breaker-cell.thread.ts';
import { runThreads } from './thread-pool.ts';

const COOLDOWN = 1000;

/** The layout that `breaker-cell.ts` documents. */
function read(memory: SharedArrayBuffer): BreakerState {
	const word = new BigInt64Array(memory)[0]!;
	const bits = BigInt.asUintN(64, word);
	const since = BigInt.asIntN(42, bits >> 22n);
	return {
		circuit: Number(bits & 3n) as BreakerState['circuit'],
		probe: Number((bits >> 2n) & 0xfffffn),
		since: Number(since),
	};
}

function write(memory: SharedArrayBuffer, { circuit, probe, since }: BreakerState): void {
	new BigInt64Array(memory)[0] = (BigInt(since) << 22n) | (BigInt(probe) << 2n) | BigInt(circuit);
}

function closedCell(): { memory: SharedArrayBuffer; cell: BreakerCell } {
	const memory = BreakerCell.allocate(0);
	const cell = new BreakerCell(memory);
	cell.health(true, 0);
	return { memory, cell };
}

describe('the breaker cell', () => {
	it('is one 64-bit word', () => {
		assert.equal(BreakerCell.allocate(0).byteLength, 8);
	});

	it('starts open and unproven, and cools down from its allocation on', () => {
		const cell = new BreakerCell(BreakerCell.allocate(5000));
		assert.equal(cell.circuit, OPEN);
		assert.equal(cell.admit(5999, COOLDOWN), REFUSED);
		assert.ok(cell.admit(6000, COOLDOWN) > NORMAL);
		assert.equal(cell.circuit, HALF_OPEN);
	});

	it('is one breaker, however many look at it', () => {
		const { memory, cell } = closedCell();
		const other = new BreakerCell(memory);
		assert.equal(other.admit(1, COOLDOWN), NORMAL);
		other.report(NORMAL, 'failure', 2);
		assert.equal(cell.circuit, OPEN);
		assert.equal(cell.admit(3, COOLDOWN), REFUSED);
		const probe = cell.admit(1002, COOLDOWN);
		other.report(probe, 'success', 1003);
		assert.equal(cell.circuit, CLOSED);
	});

	it('waits for the whole cooldown, also when it opened between two milliseconds', () => {
		for (const opened of [0, 0.25, 0.999, 12.5, 1e9 + 0.75]) {
			const { cell } = closedCell();
			cell.report(NORMAL, 'failure', opened);
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
				cell.report(7, 'abandoned', now);
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
				assert.deepEqual(read(memory), { circuit: HALF_OPEN, probe: admission, since });
				cell.report(admission, 'failure', since);
				assert.deepEqual(read(memory), { circuit: OPEN, probe: admission, since });
			}
		}
	});

	it('tells whether a health verdict changed what requests get', () => {
		const cell = new BreakerCell(BreakerCell.allocate(0));
		assert.equal(cell.health(false, 1), false);
		assert.equal(cell.health(true, 2), true);
		assert.equal(cell.health(true, 3), false);
		assert.equal(cell.health(false, 4), true);
		assert.equal(cell.health(false, 5), false);
		cell.admit(5000, COOLDOWN);
		assert.equal(cell.circuit, HALF_OPEN);
		assert.equal(cell.health(false, 5001), false);
		cell.admit(9000, COOLDOWN);
		assert.equal(cell.health(true, 9001), true);
	});

	it('does with any history what the pure breaker does', () => {
		const event = fc.oneof(
			fc.record({ type: fc.constant('pass' as const), ms: fc.oneof(fc.nat(1500), fc.nat(2 ** 36)) }),
			fc.record({ type: fc.constant('request' as const), cooldown: fc.constantFrom(1000, 3000) }),
			fc.record({
				type: fc.constant('report' as const),
				which: fc.nat(5),
				outcome: fc.constantFrom('success' as const, 'failure' as const, 'abandoned' as const),
			}),
			fc.record({ type: fc.constant('health' as const), healthy: fc.boolean() }),
		);
		fc.assert(
			fc.property(fc.nat(2 ** 38), fc.array(event, { maxLength: 100, size: 'max' }), (start, events) => {
				const memory = BreakerCell.allocate(start);
				const cell = new BreakerCell(memory);
				let state: BreakerState = { ...INITIAL, since: start };
				let now = start;
				const inFlight: number[] = [];
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
						state = onOutcome(state, admission, event.outcome, now) ?? state;
						cell.report(admission, event.outcome, now);
					}
					if (event.type === 'health') {
						state = onHealth(state, event.healthy, now) ?? state;
						cell.health(event.healthy, now);
					}
					assert.equal(cell.circuit, state.circuit);
					assert.deepEqual(read(memory), state);
				}
			}),
			{ numRuns: 1000 },
		);
	});
});

describe('the breaker cell over threads', () => {
	it('lets exactly one probe through a cooldown, whatever became of the last one', async () => {
		const { memory, cell } = closedCell();
		cell.report(NORMAL, 'failure', 0);
		const rounds = 400;
		const probes = new SharedArrayBuffer(4 * rounds);
		const normal = new SharedArrayBuffer(4 * rounds);
		const task: ProbeTask = { memory, cooldownMs: COOLDOWN, rounds, attempts: 75, probes, normal };
		await runThreads(new URL('./breaker-cell.thread.ts', import.meta.url), 4, task);
		assert.deepEqual([...new Int32Array(probes)], Array(rounds).fill(1));
		assert.deepEqual([...new Int32Array(normal)], Array(rounds).fill(0));
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rate } from '../../../../packages/gate/src/gates/tenant-limit.ts';
import { ProcessMemory } from '../../../../packages/proxy/src/control/process-memory.ts';
import { FleetLimits } from '../../../../packages/proxy/src/control/store/fleet-limits.ts';
import { FleetLimiter } from '../../../../packages/proxy/src/memory/fleet/fleet-limiter.ts';
import { Ledger, storeOf, UNREACHABLE } from '../../../models/ledger.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { MEMORY_SIZES } from './memory-sizes.ts';

/** One process and its store, in fake time. */
function build() {
	const time = new FakeTime();
	const log = new RecordedLog();
	const ledger = new Ledger();
	const memory = new ProcessMemory({ ...MEMORY_SIZES, fleetSecret: new Uint8Array(32) });
	const state = { isAway: false, hangs: false, latencyMs: 0, calls: 0 };
	const real = storeOf(ledger, 'a', () => (1_700_000_000_000 + time.now()) * 1000);
	const through = async <T>(run: () => Promise<T>): Promise<T> => {
		state.calls++;
		if (state.hangs) return new Promise(() => {});
		if (state.latencyMs > 0) await new Promise<void>((resolve) => void time.after(state.latencyMs, resolve));
		if (state.isAway) throw UNREACHABLE;
		return run();
	};
	const limits = new FleetLimits({
		store: {
			settle: (spendings) => through(() => real.settle(spendings)),
			report: (reports) => through(() => real.report(reports)),
			register: (leaving, delayMs) => through(() => real.register(leaving, delayMs)),
		},
		...{ onFailure: 'share', cluster: false, expected: 2, timers: time, clock: time, log: log.logger },
		...{ limiter: memory.limiter, fleet: memory.fleet!, concurrency: memory.concurrency },
	});
	const limiter = new FleetLimiter(memory.limiter, 0, memory.fleet!);
	const pass = async (ms: number) => {
		for (let left = ms; left > 0; left -= 50) await time.advance(50);
	};
	const begin = async () => {
		const started = limits.start(1_000);
		await pass(1_000);
		await started;
	};
	return { time, log, ledger, state, limits, limiter, pass, begin };
}

const RATE = new Rate(10, 10);

describe('the limits of a fleet, in one process', () => {
	it('begin with the store, settle what was admitted, also at the end, and leave the registry', async () => {
		const { log, ledger, limits, limiter, pass, begin, time } = build();
		await begin();
		assert.deepEqual(log.lines, ['info proxy::limiter: limits are shared with the other replicas']);
		const micros = () => (1_700_000_000_000 + time.now()) * 1000;
		const ahead = () => ledger.settle([{ key: 5n, costMicros: 0, aheadMicros: -1 }], micros())[0]! / 1000;
		for (let i = 0; i < 4; i++) assert.ok(limiter.admit(5n, time.now(), RATE));
		await pass(200);
		assert.ok(Math.abs(ahead() - 200) <= 100, `${ahead()} of 400 ms`);
		// What another replica has spent is in the bucket of this one, less what is uncertain.
		ledger.settle([{ key: 5n, costMicros: 900_000, aheadMicros: 0 }], micros());
		assert.ok(limiter.admit(5n, time.now(), RATE));
		await pass(200);
		let admitted = 0;
		while (limiter.admit(5n, time.now(), RATE)) admitted++;
		assert.ok(admitted >= 1 && admitted <= 4, `${admitted} of 10`);
		const before = ahead();
		await limits.stop();
		assert.ok(ahead() > before, 'settled');
		assert.equal(ledger.register('b', false, 0, micros()).replicas, 1);
	});

	it('begin without a store that does not answer, say so once, and once that it is back', async () => {
		const { log, limits, state, pass, begin } = build();
		state.isAway = true;
		await begin();
		assert.deepEqual(log.lines, ['warn proxy::limiter: limiter store is unavailable']);
		assert.deepEqual([limits.facts.isAway, limits.facts.part, limits.facts.reason], [true, undefined, 'unreachable']);
		assert.equal(limits.facts.replicas, 2);
		state.isAway = false;
		await pass(1_500);
		state.isAway = true;
		await pass(5_000);
		state.isAway = false;
		await pass(1_500);
		const said = ['warn proxy::limiter: limiter store is unavailable', 'info proxy::limiter: limiter store is back'];
		assert.deepEqual(log.lines, [...said, ...said]);
	});

	it('log that the store is slow if an answer takes longer than an interval, and that it is fast again', async () => {
		const { log, limits, limiter, state, pass, begin, time } = build();
		await begin();
		state.latencyMs = 300;
		const ask = async (ms: number) => {
			for (let left = ms; left > 0; left -= 100) {
				limiter.admit(5n, time.now(), RATE);
				await pass(100);
			}
		};
		await ask(3_000);
		assert.equal(log.lines[1], 'warn proxy::limiter: limiter store is slow: replicas learn of each other late');
		assert.ok(limits.facts.delayMs >= 500 && limits.facts.delayMs <= 1_000, String(limits.facts.delayMs));
		state.latencyMs = 0;
		await ask(25_000);
		assert.deepEqual(log.lines.slice(2), ['info proxy::limiter: limiter store is fast again']);
	});

	it('log a key that has another type in the store', async () => {
		const { log, ledger, limiter, pass, begin, time } = build();
		await begin();
		ledger.foreign.add(5n);
		limiter.admit(5n, time.now(), RATE);
		await pass(400);
		assert.deepEqual(log.lines.slice(1), ['warn proxy::limiter: a key of the limiter has another type in the store']);
	});

	it('without requests send the store one ping a second, and end within a limit', async () => {
		const { limits, state, pass, begin } = build();
		await begin();
		await pass(2_000);
		state.calls = 0;
		await pass(10_000);
		assert.ok(state.calls >= 9 && state.calls <= 11, `${state.calls} calls`);
		state.hangs = true;
		let hasStopped = false;
		const stopped = limits.stop().then(() => {
			hasStopped = true;
		});
		await pass(450);
		assert.equal(hasStopped, false);
		await pass(50);
		await stopped;
	});
});

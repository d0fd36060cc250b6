import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HealthProber, type Probe, type Verdict, type Watched } from '../../../src/control/health.ts';
import { BreakerCell, CLOSED, OPEN } from '../../../src/shared/breaker-cell.ts';
import { FakeTime, settle } from './fixtures/fake-time.ts';
import { RecordedLog } from './fixtures/recorded-log.ts';

const HEALTHY: Verdict = { healthy: true };
const SICK: Verdict = { healthy: false, cause: 'status 503' };
const INTERVAL_MS = 5_000;

/** A prober whose probes end when the test says so. */
class TestProber extends HealthProber {
	readonly time: FakeTime;
	readonly log: RecordedLog;
	/** Every probe made so far. */
	readonly probes: ScriptedProbe[];

	constructor() {
		const time = new FakeTime();
		const log = new RecordedLog();
		const probes: ScriptedProbe[] = [];
		const probe: Probe = ({ authority }, abandoned) => {
			const { promise, resolve } = Promise.withResolvers<Verdict>();
			probes.push({ authority, abandoned, end: resolve });
			return promise;
		};
		super({ intervalMs: INTERVAL_MS, probe, timers: time, clock: time, log: log.logger });
		this.time = time;
		this.log = log;
		this.probes = probes;
	}

	/** Who was asked so far, in order. */
	get asked(): string[] {
		return this.probes.map(({ authority }) => authority);
	}

	/** Ends the probes of this upstream that are under way. */
	async answer({ address }: Watched, verdict: Verdict): Promise<void> {
		for (const probe of this.probes) if (probe.authority === address.authority) probe.end(verdict);
		await settle();
	}
}

interface ScriptedProbe {
	readonly authority: string;
	readonly abandoned: AbortSignal;
	readonly end: (verdict: Verdict) => void;
}

function upstream(authority: string): Watched {
	const [host, port] = authority.split(':') as [string, string];
	const breaker = new BreakerCell(BreakerCell.allocate(0));
	return { address: { authority, host, port: Number(port) }, breaker, alive: undefined };
}

describe('when the prober asks', () => {
	test('all upstreams are asked side by side, at once and at every interval', async () => {
		const prober = new TestProber();
		const [a, b] = [upstream('a:1'), upstream('b:2')];
		prober.watch([a, b]);
		void prober.start();
		assert.deepEqual(prober.asked, ['a:1', 'b:2']);
		await prober.answer(a, HEALTHY);
		await prober.answer(b, HEALTHY);
		await prober.time.advance(INTERVAL_MS - 1);
		assert.equal(prober.asked.length, 2);
		await prober.time.advance(1);
		assert.deepEqual(prober.asked, ['a:1', 'b:2', 'a:1', 'b:2']);
	});

	test('the first round ends with its last verdict, and each verdict counts when it is there', async () => {
		const prober = new TestProber();
		const [a, b] = [upstream('a:1'), upstream('b:2')];
		prober.watch([a, b]);
		let ended = false;
		const started = prober.start().then(() => {
			ended = true;
		});
		await prober.answer(a, HEALTHY);
		assert.equal(a.breaker.circuit, CLOSED);
		assert.equal(ended, false);
		await prober.answer(b, SICK);
		await started;
	});

	test('without upstreams the first round is over at once', async () => {
		await new TestProber().start();
	});

	test('an upstream that has not answered yet is not asked again', async () => {
		const prober = new TestProber();
		const [slow, quick] = [upstream('slow:1'), upstream('quick:2')];
		prober.watch([slow, quick]);
		void prober.start();
		await prober.answer(quick, HEALTHY);
		await prober.time.advance(INTERVAL_MS);
		assert.deepEqual(prober.asked, ['slow:1', 'quick:2', 'quick:2']);
		await prober.answer(slow, HEALTHY);
		await prober.time.advance(INTERVAL_MS);
		assert.equal(prober.asked.filter((authority) => authority === 'slow:1').length, 2);
	});

	test('an upstream that is no longer watched is not asked, and what is under way for it is dropped', async () => {
		const prober = new TestProber();
		const [stays, leaves] = [upstream('stays:1'), upstream('leaves:2')];
		prober.watch([stays, leaves]);
		void prober.start();
		prober.watch([stays]);
		assert.deepEqual(
			prober.probes.map(({ abandoned }) => abandoned.aborted),
			[false, true],
		);
		await prober.answer(leaves, HEALTHY);
		assert.equal(leaves.alive, undefined);
		assert.equal(leaves.breaker.circuit, OPEN);
		await prober.answer(stays, HEALTHY);
		await prober.time.advance(INTERVAL_MS);
		assert.deepEqual(prober.asked, ['stays:1', 'leaves:2', 'stays:1']);
	});

	test('one that is about to be watched is asked once, at once', async () => {
		const prober = new TestProber();
		await prober.start();
		const fresh = upstream('fresh:1');
		const proved = prober.probe([fresh]);
		await prober.answer(fresh, HEALTHY);
		await proved;
		assert.equal(fresh.breaker.circuit, CLOSED);
		await prober.time.advance(INTERVAL_MS);
		assert.deepEqual(prober.asked, ['fresh:1']);
	});

	test('after the stop nobody is asked', async () => {
		const prober = new TestProber();
		prober.watch([upstream('a:1')]);
		void prober.start();
		prober.stop();
		assert.equal(prober.probes[0]!.abandoned.aborted, true);
		await prober.time.advance(10 * INTERVAL_MS);
		assert.deepEqual(prober.asked, ['a:1']);
		assert.equal(prober.time.pending, 0);
	});
});

describe('what a verdict does', () => {
	test('a passing probe closes the breaker, a failing one opens it', async () => {
		const prober = new TestProber();
		const a = upstream('a:1');
		prober.watch([a]);
		void prober.start();
		await prober.answer(a, HEALTHY);
		assert.deepEqual([a.alive, a.breaker.circuit], [true, CLOSED]);
		await prober.time.advance(INTERVAL_MS);
		await prober.answer(a, SICK);
		assert.deepEqual([a.alive, a.breaker.circuit], [false, OPEN]);
	});

	test('every failing probe restarts the cooldown: an upstream without a 2xx stays at 503', async () => {
		const prober = new TestProber();
		const a = upstream('a:1');
		prober.watch([a]);
		void prober.start();
		await prober.answer(a, SICK);
		for (let round = 0; round < 5; round++) {
			await prober.time.advance(INTERVAL_MS);
			await prober.answer(a, SICK);
		}
		assert.equal(a.breaker.admit(prober.time.now(), INTERVAL_MS), -1);
		assert.notEqual(a.breaker.admit(prober.time.now() + INTERVAL_MS, INTERVAL_MS), -1);
	});

	test('changes are logged, with the cause; repetitions are not', async () => {
		const prober = new TestProber();
		const a = upstream('a:1');
		prober.watch([a]);
		void prober.start();
		for (const verdict of [HEALTHY, HEALTHY, SICK, SICK, HEALTHY]) {
			await prober.answer(a, verdict);
			await prober.time.advance(INTERVAL_MS);
		}
		assert.deepEqual(prober.log.lines, [
			'info proxy::health: upstream is healthy',
			'warn proxy::health: upstream is unhealthy',
			'info proxy::health: upstream is healthy',
		]);
		assert.deepEqual(prober.log.fields('upstream is unhealthy'), { upstream: 'a:1', cause: 'status 503' });
	});

	test('where there is nothing left to ask with, the last verdict holds, and that is told of once', async () => {
		const prober = new TestProber();
		const a = upstream('a:1');
		prober.watch([a]);
		void prober.start();
		const exhausted = { healthy: 'unknown', cause: 'EMFILE' } as const;
		for (const verdict of [HEALTHY, exhausted, exhausted, HEALTHY]) {
			await prober.answer(a, verdict);
			assert.deepEqual([a.alive, a.breaker.circuit], [true, CLOSED]);
			await prober.time.advance(INTERVAL_MS);
		}
		assert.deepEqual(prober.log.lines, [
			'info proxy::health: upstream is healthy',
			'warn proxy::health: health cannot be probed; keeping the last verdict',
		]);
	});

	test('an upstream that was never healthy is told of once', async () => {
		const prober = new TestProber();
		const a = upstream('a:1');
		prober.watch([a]);
		void prober.start();
		await prober.answer(a, SICK);
		assert.deepEqual(prober.log.lines, ['warn proxy::health: upstream is unhealthy']);
	});
});

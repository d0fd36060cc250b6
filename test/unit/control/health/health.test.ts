import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
	HealthProber,
	MAX_ROUND_PROBES,
	PROVE_LIMIT_MS,
	type Probe,
	type Verdict,
	type Watched,
} from '../../../../packages/proxy/src/control/health/health.ts';
import { inWords } from '../../../../packages/proxy/src/control/health/outcome.ts';
import { BreakerCell, CLOSED, OPEN, type Transition } from '../../../../packages/proxy/src/memory/breaker-cell.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { HEALTH } from '../fixtures/routes.ts';

const HEALTHY: Verdict = { healthy: true, cause: 'status 200', status: 200 };
const SICK: Verdict = { healthy: false, cause: 'status 503', status: 503 };
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
		const probe: Probe = ({ authority }, _settings, abandoned) => {
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

function upstream(authority: string, health: Watched['health'] = HEALTH, made: Transition[] = []): Watched {
	const [host, port] = authority.split(':') as [string, string];
	const breaker = new BreakerCell(BreakerCell.allocate(0), (transition) => made.push(transition));
	return {
		address: { authority, host, port: Number(port) },
		group: undefined,
		breaker,
		health,
		alive: undefined,
		aliveSince: undefined,
		lastProbe: undefined,
	};
}

/** A prober that has begun with one upstream. */
function begun(health?: Watched['health'], made?: Transition[]) {
	const prober = new TestProber();
	const a = upstream('a:1', health, made);
	prober.watch([a]);
	void prober.start();
	return { prober, a };
}

describe('when the prober asks', () => {
	test('all upstreams are asked side by side at once, and then spread over each interval', async () => {
		const prober = new TestProber();
		const [a, b] = [upstream('a:1'), upstream('b:2')];
		prober.watch([a, b]);
		void prober.start();
		assert.deepEqual(prober.asked, ['a:1', 'b:2']);
		await prober.answer(a, HEALTHY);
		await prober.answer(b, HEALTHY);
		await prober.time.advance(INTERVAL_MS / 2 - 1);
		assert.equal(prober.asked.length, 2);
		await prober.time.advance(1);
		assert.deepEqual(prober.asked, ['a:1', 'b:2', 'a:1']);
		await prober.answer(a, HEALTHY);
		await prober.time.advance(INTERVAL_MS / 2);
		assert.deepEqual(prober.asked, ['a:1', 'b:2', 'a:1', 'b:2']);
		await prober.answer(b, HEALTHY);
		await prober.time.advance(INTERVAL_MS);
		assert.equal(prober.asked.length, 6);
	});

	test('many are asked in groups of four', async () => {
		const prober = new TestProber();
		const many = Array.from({ length: 50 }, (_, i) => upstream(`many:${i}`));
		prober.watch(many);
		void prober.start();
		for (const one of many) await prober.answer(one, HEALTHY);
		const asked: number[] = [];
		for (let i = 0; i < 13; i++) {
			const before = prober.asked.length;
			await prober.time.advance(INTERVAL_MS / 13);
			asked.push(prober.asked.length - before);
		}
		assert.equal(Math.max(...asked), 4);
		assert.equal(new Set(prober.asked.slice(50)).size, 50);
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

	test('the first round of probes is over at once without upstreams', async () => {
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

	test('a new upstream is probed once, immediately', async () => {
		const prober = new TestProber();
		await prober.start();
		const fresh = upstream('fresh:1');
		const proved = prober.prove([fresh]);
		await prober.answer(fresh, HEALTHY);
		await proved;
		assert.equal(fresh.breaker.circuit, CLOSED);
		await prober.time.advance(INTERVAL_MS);
		assert.deepEqual(prober.asked, ['fresh:1']);
	});

	test('thousands of upstreams are probed a few at a time, and the start waits 2 s for the first round', async () => {
		const prober = new TestProber();
		const many = Array.from({ length: 1000 }, (_, i) => upstream(`u:${i}`));
		prober.watch(many);
		let ended = false;
		void prober.start().then(() => {
			ended = true;
		});
		assert.equal(prober.asked.length, MAX_ROUND_PROBES);
		await prober.answer(many[0]!, HEALTHY);
		assert.equal(prober.asked.length, MAX_ROUND_PROBES + 1);
		await prober.time.advance(PROVE_LIMIT_MS - 1);
		assert.equal(ended, false);
		await prober.time.advance(1);
		assert.equal(ended, true);
	});

	test('an upstream that passed early is not probed again by the same round', async () => {
		const prober = new TestProber();
		const many = Array.from({ length: MAX_ROUND_PROBES + 1 }, (_, i) => upstream(`u:${i}`));
		const proved = prober.prove(many);
		const last = many.at(-1)!;
		prober.watch([last]);
		void prober.start();
		assert.equal(prober.asked.at(-1), last.address.authority);
		await prober.answer(last, HEALTHY);
		for (const one of many) await prober.answer(one, HEALTHY);
		await proved;
		assert.equal(prober.asked.filter((authority) => authority === last.address.authority).length, 1);
		prober.stop();
	});

	test('thousands are asked evenly: each once an interval, and never more at a time than their share', async () => {
		const prober = new TestProber();
		const many = Array.from({ length: 2345 }, (_, i) => upstream(`u:${i}`));
		prober.watch(many);
		void prober.start();
		for (let next = 0; next < prober.probes.length; next++) {
			prober.probes[next]!.end(HEALTHY);
			if (next % 50 === 0) await settle();
		}
		const begun = prober.asked.length;
		let most = 0;
		for (let passed = 0; passed < INTERVAL_MS; passed += 10) {
			const before = prober.asked.length;
			await prober.time.advance(10);
			most = Math.max(most, prober.asked.length - before);
			for (const probe of prober.probes.slice(before)) probe.end(HEALTHY);
		}
		assert.equal(begun, many.length);
		assert.equal(prober.asked.length, 2 * many.length);
		assert.equal(new Set(prober.asked.slice(begun)).size, many.length);
		assert.ok(most <= Math.ceil(many.length / (INTERVAL_MS / 10)), `${most} at a time`);
		assert.ok(many.every(({ alive }) => alive === true));
	});

	test('reloads in quick succession all end', async () => {
		const prober = new TestProber();
		const all = ['a:1', 'b:2', 'c:3', 'd:4'].map((authority) => upstream(authority));
		prober.watch(all);
		void prober.start();
		for (const one of all) await prober.answer(one, HEALTHY);
		for (let reload = 0; reload < 8; reload++) {
			await prober.time.advance(INTERVAL_MS / 4);
			prober.watch([...all]);
		}
		assert.deepEqual([...new Set(prober.asked.slice(4))].sort(), ['a:1', 'b:2', 'c:3', 'd:4']);
	});

	test('an upstream without probes is never probed', async () => {
		const prober = new TestProber();
		const unwatched = { ...upstream('silent:1'), health: undefined };
		prober.watch([unwatched]);
		await prober.start();
		await prober.prove([unwatched]);
		await prober.time.advance(2 * INTERVAL_MS);
		assert.deepEqual(prober.asked, []);
	});

	test('no upstream is probed after the stop', async () => {
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
		const { prober, a } = begun();
		await prober.answer(a, HEALTHY);
		assert.deepEqual([a.alive, a.breaker.circuit], [true, CLOSED]);
		await prober.time.advance(INTERVAL_MS);
		await prober.answer(a, SICK);
		assert.deepEqual([a.alive, a.breaker.circuit], [false, OPEN]);
	});

	test('every failing probe restarts the cooldown: an upstream without a 2xx stays at 503', async () => {
		const { prober, a } = begun();
		await prober.answer(a, SICK);
		for (let round = 0; round < 5; round++) {
			await prober.time.advance(INTERVAL_MS);
			await prober.answer(a, SICK);
		}
		assert.equal(a.breaker.admit(prober.time.now(), INTERVAL_MS), -1);
		assert.notEqual(a.breaker.admit(prober.time.now() + INTERVAL_MS, INTERVAL_MS), -1);
	});

	for (const [verdicts, alive] of [
		['+', true],
		['-', false],
		['+ - -', true],
		['+ - - -', false],
		['+ - - + - -', true],
		['+ - - - +', false],
		['+ - - - + +', true],
		['- +', false],
		['- + +', true],
		['- + - +', false],
	] as const) {
		test(`unhealthy after 3, healthy after 2 in a row; the first one counts at once: ${verdicts}`, async () => {
			const { prober, a } = begun({ ...HEALTH, unhealthyAfter: 3, healthyAfter: 2 });
			for (const [i, verdict] of verdicts.split(' ').entries()) {
				if (i > 0) await prober.time.advance(INTERVAL_MS);
				await prober.answer(a, verdict === '+' ? HEALTHY : SICK);
			}
			assert.deepEqual([a.alive, a.breaker.circuit], [alive, alive ? CLOSED : OPEN]);
		});
	}

	test('a breaker that requests have opened is closed by the next probe of an upstream that is known to be well', async () => {
		const { prober, a } = begun({ ...HEALTH, healthyAfter: 3 });
		await prober.answer(a, HEALTHY);
		a.breaker.fail(0, { reason: 'status', cause: 'x', tenant: 't' }, { failures: 1, tenants: 1 }, 0);
		assert.equal(a.breaker.circuit, OPEN);
		await prober.time.advance(INTERVAL_MS);
		await prober.answer(a, HEALTHY);
		assert.equal(a.breaker.circuit, CLOSED);
	});

	test('its breaker transitions have a cause', async () => {
		const made: Transition[] = [];
		const { prober, a } = begun(HEALTH, made);
		for (const verdict of [HEALTHY, SICK, HEALTHY, { healthy: false, cause: 'connection refused' } as const]) {
			await prober.answer(a, verdict);
			await prober.time.advance(INTERVAL_MS);
		}
		assert.deepEqual(
			made.map(({ reason, cause }) => `${reason} ${cause}`),
			['health health: 200', 'health health: 503', 'health health: 200', 'health health: connection refused'],
		);
	});

	test('changes are logged, with the cause; repetitions are not', async () => {
		const { prober, a } = begun();
		for (const verdict of [HEALTHY, HEALTHY, SICK, SICK, HEALTHY]) {
			await prober.answer(a, verdict);
			await prober.time.advance(INTERVAL_MS);
		}
		assert.deepEqual(prober.log.lines, [
			'info proxy::health: upstream is healthy',
			'warn proxy::health: upstream is unhealthy',
			'info proxy::health: upstream is healthy',
		]);
		assert.deepEqual(prober.log.fields('upstream is unhealthy'), {
			upstream: 'a:1',
			group: undefined,
			cause: 'GET /health answered 503',
			remedy: 'its own log says why',
		});
	});

	test('the last verdict holds while there are no descriptors for probes, with one log line', async () => {
		const { prober, a } = begun();
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

	test('an upstream that was never healthy has one log line', async () => {
		const { prober, a } = begun();
		await prober.answer(a, SICK);
		assert.deepEqual(prober.log.lines, ['warn proxy::health: upstream is unhealthy']);
	});

	test('what the last probe found is kept, and another cause of an unhealthy upstream is logged', async () => {
		const { prober, a } = begun();
		const missing: Verdict = { healthy: false, cause: 'status 404', status: 404 };
		for (const verdict of [{ healthy: false, cause: 'connection refused' } as const, missing, missing]) {
			await prober.answer(a, verdict);
			await prober.time.advance(INTERVAL_MS);
		}
		assert.deepEqual(prober.log.lines, [
			'warn proxy::health: upstream is unhealthy',
			'info proxy::health: upstream is still unhealthy, for another cause',
		]);
		assert.equal(inWords(a.lastProbe!), 'GET /health answered 404: set health_path, or health = false');
		await prober.answer(a, HEALTHY);
		assert.deepEqual([a.lastProbe!.passed, inWords(a.lastProbe!)], [true, 'GET /health answered 200']);
	});
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { History, MAX_CHARTED, type Sampled } from '../../../../packages/proxy/src/control/status/history.ts';
import { POINT_MS, POINTS } from '../../../../packages/proxy/src/control/status/ring.ts';
import { NOTHING_COUNTED } from '../../../../packages/proxy/src/control/status/shares.ts';
import { HISTOGRAM_BYTES, Histogram } from '../../../../packages/proxy/src/memory/histogram.ts';

/** A history of made-up upstreams, and the hands that move their counters. */
function historyOf(...keys: string[]) {
	const answers = new Map(keys.map((key) => [key, 0]));
	const durations = new Map(keys.map((key) => [key, new Histogram(new SharedArrayBuffer(HISTOGRAM_BYTES))]));
	const counters = new Map<string, number>();
	const errors = new Map<string, number>();
	const calls = new Map<string, Record<number, number>>();
	const own = { ...NOTHING_COUNTED };
	const sampledAt: { key: string; ms: number }[] = [];
	const upstreams = (): Sampled[] =>
		[...answers.keys()].map((key) => ({
			key,
			responses: () => answers.get(key)!,
			serverErrors: () => errors.get(key) ?? 0,
			addGrpcTo: (to) => {
				for (const [code, count] of Object.entries(calls.get(key) ?? {})) to[Number(code)]! += count;
			},
			addRoundTrips: (to, ms) => {
				sampledAt.push({ key, ms });
				return durations.get(key)?.addLastSliceTo(to, ms) ?? false;
			},
		}));
	const history = new History({ upstreams, own: () => ({ ...own }), counters: () => counters }, 0);
	let now = 0;
	/** Seconds pass, each with `during` in it. */
	const pass = (seconds: number, during: () => void = () => {}) => {
		for (let i = 0; i < seconds; i++) {
			during();
			now += 1_000;
			history.tick(now);
		}
	};
	return { history, answers, errors, calls, durations, counters, own, sampledAt, pass, now: () => now };
}

const bounds = { share: { '401': 0, '429': 0, '5xx': 0.05, grpc: 0.05, handshakes: 0 }, least: 20 };

describe('the last minute', () => {
	test('adds answers of upstreams to those of the proxy itself', () => {
		const { history, answers, errors, own, pass } = historyOf('a:1', 'b:2');
		pass(60, () => {
			for (const [key, count] of answers) answers.set(key, count + 10);
			errors.set('a:1', (errors.get('a:1') ?? 0) + 4);
			own.responses += 5;
			own['5xx'] += 1;
		});
		const { count, total, over_since: since } = history.shares(bounds, String).find(({ kind }) => kind === '5xx')!;
		assert.ok(
			Math.abs(count / total - 0.2) < 0.01 && total >= 1_000 && Number(since) <= 12_000,
			`${count} ${total} ${since}`,
		);
	});

	test('has the gRPC calls that failed, among those that have ended with a status', () => {
		const { history, calls, pass } = historyOf('a:1', 'b:2');
		let seconds = 0;
		pass(61, () => {
			seconds++;
			// OK, NOT_FOUND and UNAVAILABLE.
			calls.set('a:1', { 0: 6 * seconds, 5: 3 * seconds, 14: seconds });
		});
		const { count, total } = history.shares(bounds, String).find(({ kind }) => kind === 'grpc')!;
		assert.ok(total >= 500 && Math.abs(count / total - 0.1) < 0.01, `${count} ${total}`);
	});
});

describe('gRPC calls of the last ten minutes', () => {
	test('are counted by upstream and status, and forgotten after that', () => {
		const { history, calls, pass } = historyOf('a:1', 'b:2');
		calls.set('a:1', { 0: 5, 14: 2 });
		assert.equal(history.grpcRise('a:1', 14, 2), 2, 'before the first point');
		pass(15);
		calls.set('a:1', { 0: 9, 14: 2 });
		assert.deepEqual([history.grpcRise('a:1', 0, 9), history.grpcRise('a:1', 14, 2)], [9, 2], 'within a point');
		pass(560);
		assert.deepEqual([history.grpcRise('a:1', 0, 9), history.grpcRise('a:1', 14, 2)], [9, 2]);
		pass(45);
		assert.deepEqual([history.grpcRise('a:1', 0, 9), history.grpcRise('a:1', 14, 2)], [0, 0]);
		assert.equal(history.grpcRise('b:2', 0, 0), 0);
	});

	test('do not have those of before the table that has brought the upstream in, and begin anew when it comes back', () => {
		const { history, answers, calls, pass } = historyOf('a:1');
		pass(11);
		calls.set('b:2', { 14: 100 });
		answers.set('b:2', 0);
		pass(20);
		assert.equal(history.grpcRise('b:2', 14, 100), 0);
		calls.set('b:2', { 14: 3 });
		pass(20);
		assert.equal(history.grpcRise('b:2', 14, 3), 3);
	});

	test('cost memory only if there are any', () => {
		const { history, calls, pass } = historyOf('a:1', 'b:2');
		pass(11);
		const before = history.bytes;
		calls.set('a:1', { 0: 1 });
		pass(10);
		assert.equal(history.bytes - before, POINTS * 4);
	});
});

describe('the last ten minutes', () => {
	test('are a point every ten seconds: its rate and the quantiles of its own round trips', () => {
		const { history, answers, durations, pass, now } = historyOf('a:1');
		const serve = (perSecond: number, ms: number) => () => {
			answers.set('a:1', answers.get('a:1')! + perSecond);
			for (let i = 0; i < perSecond; i++) durations.get('a:1')!.record(ms, now());
		};
		pass(10, serve(20, 5));
		pass(10, serve(40, 50));
		// The turn of the second point, which looks at what was complete by then.
		pass(1);
		const { requests_per_second, p50_seconds, p99_seconds } = history.chart('a:1', now())!;
		assert.equal(requests_per_second.length, POINTS);
		assert.deepEqual(requests_per_second.slice(0, -3), Array(POINTS - 3).fill(null));
		const [, first, second] = requests_per_second.slice(-3);
		assert.ok(Math.abs(first! - 20) < 2 && Math.abs(second! - 40) < 3, `${first} ${second}`);
		for (const values of [p50_seconds, p99_seconds]) {
			const [, first, second] = values.slice(-3);
			assert.ok(Math.abs(first! - 0.005) < 0.0002 && Math.abs(second! - 0.05) < 0.002, `${first} ${second}`);
		}
	});

	test('count from the second in which the first table comes, which is after the start', () => {
		const { history, answers, pass, now } = historyOf();
		pass(2);
		answers.set('a:1', 0);
		pass(1);
		answers.set('a:1', 30);
		pass(10);
		assert.deepEqual(history.total(now()).requests_per_second.slice(-1), [3]);
		// The upstream is known for seven of the ten seconds.
		assert.equal(history.chart('a:1', now())!.requests_per_second.at(-1), 4.29);
	});

	test('have the requests that met the first table before the history did', () => {
		const { history, answers, pass, now } = historyOf();
		pass(2);
		answers.set('a:1', 30);
		pass(11);
		assert.deepEqual(history.total(now()).requests_per_second.slice(-1), [3]);
	});

	test('have the errors of each point, and their share of all answers', () => {
		const { history, answers, errors, own, pass, now } = historyOf('a:1', 'b:2');
		pass(11);
		pass(20, () => {
			for (const [key, count] of answers) answers.set(key, count + 10);
		});
		pass(20, () => {
			for (const [key, count] of answers) answers.set(key, count + 10);
			errors.set('a:1', (errors.get('a:1') ?? 0) + 5);
			own.responses += 20;
		});
		const known = (values: readonly (number | null)[]) => values.filter((value) => value !== null).map(Math.round);
		assert.deepEqual(known(history.chart('a:1', now())!.errors_per_second), [0, 0, 0, 0, 5, 5]);
		assert.deepEqual(known(history.total(now()).errors_per_second), [0, 0, 0, 0, 5, 5]);
		const near = (share: number | null, expected: number) => assert.ok(Math.abs(share! - expected) < 0.01, `${share}`);
		near(history.latest('a:1').error_share, 0.25);
		assert.equal(history.latest('b:2').error_share, 0);
		near(history.latest().error_share, 100 / 1_200);
		assert.equal(history.latest('unknown').error_share, null);
		pass(610);
		assert.equal(history.latest('a:1').error_share, null);
	});

	test('are forgotten after ten minutes; a gap between samples stays a gap', () => {
		const { history, answers, pass, now } = historyOf('a:1');
		const busy = () => answers.set('a:1', answers.get('a:1')! + 7);
		pass(20, busy);
		const known = () => history.chart('a:1', now())!.requests_per_second.filter((value) => value !== null);
		assert.ok(known().some((value) => value > 0));
		pass(600);
		assert.deepEqual(new Set(known()), new Set([0]));
		// A main thread that stood still for a minute.
		history.tick(now() + 60_000);
		const after = history.chart('a:1', now() + 60_000)!.requests_per_second;
		assert.deepEqual(after.slice(-6, -1), [null, null, null, null, null]);
	});

	test('the last ten minutes of all upstreams include responses without an upstream, and continue when one leaves', () => {
		const { history, answers, own, pass, now } = historyOf('a:1', 'b:2');
		const busy = () => {
			for (const [key, count] of answers) answers.set(key, count + 10);
			own.responses += 5;
		};
		pass(31, busy);
		assert.ok(Math.abs(history.total(now()).requests_per_second.at(-1)! - 25) < 3);
		answers.delete('b:2');
		pass(30, busy);
		const last = history.total(now()).requests_per_second;
		assert.ok(Math.abs(last.at(-1)! - 15) < 2, `${last.at(-1)}`);
		assert.ok(last.every((value) => value === null || value >= 0));
		assert.equal(history.chart('b:2', now()), undefined);
	});

	test('begin anew if the counters of an upstream do, after it was gone so long that they were forgotten', () => {
		const { history, answers, pass, now } = historyOf('a:1');
		pass(20, () => answers.set('a:1', answers.get('a:1')! + 1_000));
		answers.set('a:1', 30);
		pass(11);
		assert.equal(history.chart('a:1', now())!.requests_per_second.at(-1), 3);
		assert.equal(history.total(now()).requests_per_second.at(-1), 3);
	});

	test('the history samples thousands of upstreams in turns, each once in ten seconds', () => {
		const keys = Array.from({ length: 1_000 }, (_, i) => `up:${i}`);
		const { sampledAt, pass } = historyOf(...keys);
		pass(9);
		sampledAt.length = 0;
		pass(10);
		assert.equal(sampledAt.length, 1_000);
		assert.equal(new Set(sampledAt.map(({ key }) => key)).size, 1_000);
		const most = Math.max(...Array.from(Map.groupBy(sampledAt, ({ ms }) => ms).values(), (all) => all.length));
		assert.ok(most <= 125, `${most} in one turn`);
	});

	test('cost 960 bytes an upstream, and no more than 2,048 have a chart', () => {
		const keys = Array.from({ length: MAX_CHARTED + 100 }, (_, i) => `up:${i}`);
		const { history, answers, pass, now } = historyOf(...keys);
		pass(20, () => answers.set(keys.at(-1)!, answers.get(keys.at(-1)!)! + 3));
		assert.equal(history.bytes, (MAX_CHARTED + 1) * 960);
		assert.equal(history.chart(keys.at(-1)!, now()), undefined);
		// It counts in the sum all the same.
		const total = history.total(now()).requests_per_second.findLast((value) => value !== null)!;
		assert.ok(total > 2, `${total}`);
	});

	test('the last ten minutes of a counter are its rise', () => {
		const { history, counters, pass } = historyOf();
		counters.set('refusal x', 0);
		pass(15);
		counters.set('refusal x', 8);
		assert.equal(history.rise('refusal x', 8), 8);
		pass(580);
		counters.set('refusal x', 11);
		assert.equal(history.rise('refusal x', 11), 11);
		pass(30);
		assert.equal(history.rise('refusal x', 11), 3);
		pass((POINTS * POINT_MS) / 1000);
		assert.equal(history.rise('refusal x', 11), 0);
		assert.equal(history.rise('of which nothing is known', 4), 4);
	});

	test('the last ten minutes of a counter that is new are all of it, for ten minutes', () => {
		const { history, counters, pass } = historyOf();
		pass(700);
		counters.set('refusal x', 37);
		assert.equal(history.rise('refusal x', 37), 37);
		pass(15);
		assert.equal(history.rise('refusal x', 37), 37);
		pass((POINTS * POINT_MS) / 1000);
		assert.equal(history.rise('refusal x', 37), 0);
	});
});

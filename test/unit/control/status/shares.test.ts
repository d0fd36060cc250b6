import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
	NOTHING_COUNTED,
	ownShareCounts,
	type ShareCounts,
	ShareHistory,
	type ShareKind,
} from '../../../../packages/proxy/src/control/status/shares.ts';
import { WorkerStats } from '../../../../packages/proxy/src/memory/worker-stats.ts';

const BOUNDS = { share: { '401': 0.2, '429': 0.2, '5xx': 0.05, grpc: 0.05, handshakes: 0.2 }, least: 20 };

/** Points of ten seconds each. */
function after(...points: readonly Partial<ShareCounts>[]) {
	const history = new ShareHistory();
	for (const [i, counts] of points.entries()) history.add({ ...NOTHING_COUNTED, ...counts }, (i + 1) * 10_000);
	return (kind: ShareKind, bounds = BOUNDS) => history.judge(bounds, String).find((one) => one.kind === kind)!;
}

describe('the share of failures', () => {
	test('is a problem from its bound on, and not below', () => {
		for (const kind of ['401', '429', '5xx'] as const) {
			const of = (count: number) => after({ responses: 100, [kind]: count })(kind);
			const bound = BOUNDS.share[kind] * 100;
			const figures = { count: bound, total: 100 };
			assert.deepEqual(of(bound), {
				kind,
				...figures,
				last_ten_minutes: figures,
				bound: BOUNDS.share[kind],
				over_since: '10000',
			});
			assert.equal(of(bound - 1).over_since, null);
		}
		assert.equal(after({ responses: 1_000, calls: 100, grpc: 5 })('grpc').over_since, '10000');
		assert.equal(after({ responses: 1, calls: 100, grpc: 4 })('grpc').over_since, null);
		assert.equal(after({ attempts: 25, handshakes: 5 })('handshakes').over_since, '10000');
		assert.equal(after({ attempts: 26, handshakes: 5 })('handshakes').over_since, null);
	});

	test('is none of fewer than the least number, and never with a bound of 0', () => {
		assert.equal(after({ responses: 19, '401': 19 })('401').over_since, null);
		assert.equal(after({ responses: 20, '401': 20 })('401').over_since, '10000');
		const never = { ...BOUNDS, share: { ...BOUNDS.share, '401': 0 } };
		assert.equal(after({ responses: 20, '401': 20 })('401', never).over_since, null);
	});

	test('looks at one minute, and is over when that has passed', () => {
		const bad = { responses: 10, '5xx': 10 };
		const good = { responses: 10 };
		assert.deepEqual(after(bad, bad, good, good, good, good)('5xx'), {
			kind: '5xx',
			count: 20,
			total: 60,
			last_ten_minutes: { count: 20, total: 60 },
			bound: 0.05,
			over_since: '20000',
		});
		const later = after(bad, bad, ...Array(6).fill(good))('5xx');
		assert.deepEqual([later.over_since, later.count, later.last_ten_minutes.count], [null, 0, 20]);
	});

	test('began with the point that brought it over its bound, ten minutes ago at most', () => {
		const good = { responses: 30 };
		const bad = { responses: 30, '401': 30 };
		assert.equal(after(...Array(10).fill(good), bad, bad, bad)('401').over_since, '120000', 'two of six points');
		assert.equal(after(...Array(80).fill(bad))('401').over_since, '210000', 'the oldest of sixty points');
	});

	test('counts 5xx of the proxy itself, and refused handshakes among all', () => {
		const stats = new WorkerStats(WorkerStats.allocate());
		for (const [status, count] of Object.entries({ 200: 1, 401: 2, 429: 3, 500: 4, 503: 5 })) {
			for (let i = 0; i < count; i++) stats.responded(Number(status));
		}
		for (let i = 0; i < 3; i++) stats.count('TLSv1.2', 'x25519');
		for (let i = 0; i < 4; i++) stats.count('TLSv1.3', 'other');
		for (let i = 0; i < 2; i++) stats.count('handshakeRefusals', 'expired');
		const shares = { ...NOTHING_COUNTED, responses: 15, '401': 2, '429': 3, '5xx': 9, attempts: 9, handshakes: 2 };
		assert.deepEqual(ownShareCounts(stats.read()), shares);
	});
});

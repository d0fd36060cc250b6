import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { byKind, type FleetFigures } from '../load/fleet-figures.ts';
import { REPLICA_KILLED, runFailover, runFleet } from '../load/fleet-run.ts';
import { missingTools } from './tools.ts';

/** Proxies, one store, and one balancer that speaks the PROXY protocol; the long form is `npm run fleet:load`. */

const RPS = 20;
/** Time between two requests of the fastest tenant whose requests all reach one replica. */
const PROMPT_MS = 50;
const LIMIT = { rps: RPS, burst: RPS };
const PLAN = { awaySeconds: 1, logsAll: true } as const;

test('replicas share limits, whatever happens to their store', {
	skip: missingTools('redis-server', 'haproxy'),
}, async (t) => {
	const say = (line: string) => t.diagnostic(line);
	const outcome = await runFleet({
		...PLAN,
		limit: { ...LIMIT, replicas: 4 },
		replicas: 4,
		tenants: 12,
		calmSeconds: 5,
		say,
	});
	assertPromise(t, outcome);
	// The 95 % are proved with a fake clock (fleet.properties.test.ts). A machine on which the store seemed to be away, or responses come
	// late, proves nothing about them.
	t.diagnostic(`99 of 100 answers came within ${Math.round(outcome.answeredMs)} ms`);
	const isPrompt = outcome.wasCalm && outcome.answeredMs < PROMPT_MS;
	for (const { asks, least, average } of isPrompt ? byKind(outcome.tenants) : []) {
		assert.ok(average >= 0.95 && least >= 0.9, `those that ask for ${asks} got ${average} of their due, one ${least}`);
	}
	for (const [protocol, { passed, seconds, refusal }] of Object.entries(outcome.limited)) {
		const most = 4 * RPS + RPS * (seconds + 5);
		assert.ok(passed <= most, `over ${protocol} ${passed} passed in ${seconds} s, more than ${most}`);
		const { status, text, headers } = refusal;
		assert.deepEqual([status, text], [429, 'rate limited']);
		assert.match(String(headers['ratelimit-policy']), /^"tenant";q=20;w=1$/);
		// An excess over all replicas is paid back first, so this may take longer than one period.
		assert.match(String(headers.ratelimit), /^"tenant";r=0;t=[1-9]$/);
		assert.match(String(headers['retry-after']), /^[1-9]$/);
	}
	const times = Object.entries(outcome.revokedAfterMs);
	t.diagnostic(`revoked after ${times.map(([protocol, ms]) => `${Math.round(ms)} ms over ${protocol}`).join(', ')}`);
});

test('replicas share limits while Sentinel chooses another store', {
	skip: missingTools('redis-server', 'redis-sentinel', 'haproxy'),
}, async (t) => {
	const say = (line: string) => t.diagnostic(line);
	assertPromise(
		t,
		await runFailover({ ...PLAN, limit: { ...LIMIT, replicas: 2 }, replicas: 2, tenants: 12, calmSeconds: 1, say }),
	);
});

/** Holds on any machine: no tenant gets too much, no request is lost, and every client has its own address. */
function assertPromise(t: TestContext, { tenants, phases, withheld, logged, mislogged, errors }: FleetFigures): void {
	for (const { plan, sent, passed, refused, worst, most, part, misnamed } of tenants) {
		const { name, asksRps, connections, protocol } = plan;
		t.diagnostic(
			`${name}: ${asksRps}/s over ${connections} ${protocol}: sent ${sent}, 200 ${passed}, 429 ${refused}; ` +
				`at most ${worst} of ${most} in 10 s, ${(part * 100).toFixed(1)} % of its due`,
		);
		assert.ok(worst <= most, `${name} got ${worst} in 10 s, more than ${most}`);
		assert.equal(misnamed, 0, `${name} was taken for somebody else`);
		assert.ok(passed > 0, `${name} got nothing`);
	}
	for (const { what, all, codes } of phases) {
		t.diagnostic(`${what}: ${JSON.stringify(all)}`);
		assert.equal(all.other, 0, `${what}: answers that were neither 200 nor 429`);
		// Requests in flight at a killed proxy end with it.
		if (what !== REPLICA_KILLED) assert.deepEqual(codes, {}, `${what}: requests were lost`);
	}
	assert.equal(withheld, 0);
	assert.ok(logged > 0);
	assert.deepEqual(mislogged, [], 'lines that name another address');
	assert.deepEqual(errors, []);
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byKind, runFleet } from '../load/fleet-run.ts';
import { missingTools } from './tools.ts';

/** Four proxies, one store, one balancer; the long form is `npm run fleet:load`. */

test('replicas share limits, whatever happens to their store', {
	skip: missingTools('redis-server', 'haproxy'),
}, async (t) => {
	const { tenants, wasCalm, others, lost, revokedAfterMs, requests } = await runFleet({
		replicas: 4,
		tenants: 12,
		limit: { rps: 20, burst: 20 },
		calmSeconds: 6,
		awaySeconds: 1,
		say: (line) => t.diagnostic(line),
	});
	for (const { tenant, asksRps, connections, worst, most, part } of tenants) {
		t.diagnostic(`${tenant}: ${asksRps}/s over ${connections}: ${worst} of ${most}, ${(part * 100).toFixed(1)} %`);
		assert.ok(worst <= most, `${tenant} got ${worst} in 10 s, more than ${most}`);
	}
	// A machine on which the store seemed to be away says nothing of this; one that is busy is late with some of it.
	for (const { asks, least, average } of wasCalm ? byKind(tenants) : []) {
		assert.ok(average >= 0.95 && least >= 0.85, `those that ask for ${asks} got ${average} of their due, one ${least}`);
	}
	assert.deepEqual(others, []);
	assert.deepEqual(lost, {});
	t.diagnostic(`${requests} requests; revoked after ${revokedAfterMs.map(Math.round).join(', ')} ms`);
});

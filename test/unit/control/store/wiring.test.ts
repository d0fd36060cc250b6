import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RateLimitFields, routePolicy } from '../../../../packages/gate/src/gates/rate-limit-fields.ts';
import { Rate } from '../../../../packages/gate/src/gates/tenant-limit.ts';
import { ConcurrencyCounts } from '../../../../packages/gate/src/memory/concurrency.ts';
import { tenantKey } from '../../../../packages/gate/src/memory/tenant-key.ts';
import {
	limitOf,
	refuseOverRouteRate,
	refuseOverTenantRate,
} from '../../../../packages/gate/src/shared/quota-gates.ts';
import { ProcessMemory } from '../../../../packages/proxy/src/control/process-memory.ts';
import { FleetLimiter } from '../../../../packages/proxy/src/memory/fleet/fleet-limiter.ts';
import { SpendingTable, type Spent } from '../../../../packages/proxy/src/memory/fleet/spending.ts';
import { MEMORY_SIZES } from './memory-sizes.ts';

const SECRET = new Uint8Array(32).fill(9);

describe('the memory of a process', () => {
	it('without a store shares nothing, and has a random secret', () => {
		const [one, other] = [new ProcessMemory(MEMORY_SIZES), new ProcessMemory(MEMORY_SIZES)];
		assert.deepEqual([one.fleet, one.concurrency.shared], [undefined, undefined]);
		assert.notDeepEqual(one.tenantSecret, other.tenantSecret);
	});

	it('knows tenants by the keys that other replicas know them by, where limits are shared', () => {
		const [one, other] = [0, 1].map(() => new ProcessMemory({ ...MEMORY_SIZES, fleetSecret: SECRET }));
		assert.equal(tenantKey(one!.tenantSecret, 'a'), tenantKey(other!.tenantSecret, 'a'));
		assert.equal(one!.concurrency.shared!.storeHealth, one!.fleet!.storeHealth);
		const slots = new ConcurrencyCounts(one!.concurrency, 0).slots(5n, 2);
		assert.deepEqual([slots.tryClaim(), slots.tryClaim(), slots.tryClaim()], [true, true, false]);
	});

	it('notes what tenants and routes were admitted for the other replicas, with their rates', () => {
		const memory = new ProcessMemory({ ...MEMORY_SIZES, fleetSecret: SECRET });
		const limiter = new FleetLimiter(memory.limiter, 0, memory.fleet!);
		const table = new SpendingTable(memory.fleet!.spending, memory.limiter);
		const principal = { tenantKey: 77n, quota: { rate: new Rate(10, 10), slots: undefined } };
		const route = { rate: new Rate(4, 5), key: 99n, policy: routePolicy('/a') };
		const report = new RateLimitFields();
		assert.equal(refuseOverTenantRate(limiter, principal, 0, report), undefined);
		assert.equal(refuseOverRouteRate(limiter, principal, route, 0, report), undefined);
		assert.match(report.fields[3]!, /^"tenant";r=9;t=1, "route";r=4;t=1;pk=/);
		for (let i = 0; i < 4; i++) assert.equal(refuseOverRouteRate(limiter, principal, route, 0, undefined), undefined);
		const refused = refuseOverRouteRate(limiter, principal, route, 0, undefined)!;
		assert.equal(limitOf(refused), 'route');
		assert.deepEqual(refused.headers.slice(-2), ['retry-after', '1']);
		const all: Spent[] = [];
		table.collect(
			() => true,
			(spent) => void all.push(spent),
		);
		assert.deepEqual(
			all
				.map(({ key, requests, rps, burst, fullAtMs }) => [key, requests, rps, burst, Math.round(fullAtMs)])
				.sort(([a], [b]) => Number(a) - Number(b)),
			[
				[77n ^ 99n, 5, 4, 5, 1250],
				[77n, 1, 10, 10, 100],
			],
		);
		table.collect(
			() => true,
			() => assert.fail('taken twice'),
		);
	});
});

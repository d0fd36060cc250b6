import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProcessMemory } from '../../../../src/control/process-memory.ts';
import { RateLimitFields, routePolicy } from '../../../../src/gates/rate-limit-fields.ts';
import { Rate } from '../../../../src/gates/tenant-limit.ts';
import { ConcurrencyCounts } from '../../../../src/shared/concurrency.ts';
import { FleetLimiter } from '../../../../src/shared/fleet/fleet-limiter.ts';
import { LeaseTable } from '../../../../src/shared/fleet/leases.ts';
import { limitOf, refuseOverRouteRate, refuseOverTenantRate } from '../../../../src/shared/quota-gates.ts';
import { tenantKey } from '../../../../src/shared/tenant-key.ts';

const SIZES = {
	workers: 2,
	maxBufferedBytes: 2 ** 20,
	maxBufferedBytesPerTenant: 2 ** 20,
	maxConnections: 10,
	histograms: {
		upstream: { bounds: [1], exemplars: false },
		handshake: { bounds: [1], exemplars: false },
		gate: { bounds: [1], exemplars: false },
	},
};
const SECRET = new Uint8Array(32).fill(9);

describe('the memory of a process', () => {
	it('has no leases where limits are its own, and a secret of its own', () => {
		const [one, other] = [new ProcessMemory(SIZES), new ProcessMemory(SIZES)];
		assert.deepEqual([one.leases, one.concurrency.leases], [undefined, undefined]);
		assert.notDeepEqual(one.tenantSecret, other.tenantSecret);
	});

	it('has leases where limits are shared, and knows tenants by the keys that others know them by', () => {
		const [one, other] = [0, 1].map(() => new ProcessMemory({ ...SIZES, fleetSecret: SECRET }));
		assert.equal(tenantKey(one!.tenantSecret, 'a'), tenantKey(other!.tenantSecret, 'a'));
		assert.equal(one!.concurrency.leases!.standing, one!.leases!.standing);
		const slots = new ConcurrencyCounts(one!.concurrency, 0).slots(5n, 10);
		assert.deepEqual([slots.tryTake(), slots.tryTake()], [true, false], 'one without asking');
		new Int32Array(one!.leases!.lock)[0] = 2;
		one!.reclaim(1);
		assert.equal(new Int32Array(one!.leases!.lock)[0], 0);
	});

	it('limits tenants and routes by leases of their own, and tells what is left of the fleet', () => {
		const memory = new ProcessMemory({ ...SIZES, fleetSecret: SECRET });
		const limiter = new FleetLimiter(memory.limiter, 0, memory.leases!);
		const leases = new LeaseTable(memory.leases!);
		const rate = new Rate(10, 10);
		const identity = { tenantKey: 77n, quota: { rate, slots: undefined } };
		const route = { rate: new Rate(4, 4), key: 99n, policy: routePolicy('/a') };
		const report = new RateLimitFields();
		assert.equal(refuseOverTenantRate(limiter, identity, 0, report), undefined);
		assert.equal(refuseOverRouteRate(limiter, identity, route, 0, report), undefined);
		// The allowances are 7 of 10 and 3 of 4; what the ledgers have nobody has asked yet.
		assert.match(report.fields[3]!, /^"tenant";r=6;t=1, "route";r=2;t=1;pk=/);
		const keys = [leases.key(leases.wake()), leases.key(leases.wake())];
		assert.deepEqual(
			keys,
			[77n, 77n ^ 99n].map((key) => key.toString(16).padStart(16, '0')),
		);
		for (let i = 0; i < 2; i++) assert.equal(refuseOverRouteRate(limiter, identity, route, 0, undefined), undefined);
		const refused = refuseOverRouteRate(limiter, identity, route, 0, undefined)!;
		assert.equal(limitOf(refused), 'route');
		assert.equal(refused.status, 429);
		assert.deepEqual(refused.headers.slice(-2), ['retry-after', '1']);
	});
});

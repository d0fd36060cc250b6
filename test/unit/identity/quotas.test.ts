import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RequestSlots } from '../../../packages/gate/src/gates/quota.ts';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { type QuotaSeed, Quotas, readRateClaim, type TenantSeed } from '../../../packages/gate/src/identity/quotas.ts';

const CLAIM = { name: 'rps', maxRps: 500 };

function tenant(name: string, rest: Partial<TenantSeed>): TenantSeed {
	return { name, rate: undefined, concurrency: undefined, ...rest };
}

/** Slots that only say of whom they are. */
const opened: { readonly tenant: string; readonly limit: number }[] = [];
const open = (tenant: string, limit: number): RequestSlots => {
	const slots = { tenant, limit, taken: 0, tryClaim: () => true, release: () => {} };
	opened.push(slots);
	return slots;
};
const quotas = (seed: QuotaSeed | undefined, defaultRps = 1000) => new Quotas(seed, defaultRps, open);

/** What a tenant may, in numbers. */
function allowed(of: Quotas, tenant: string, claimed?: number) {
	const { rate, slots } = of.of(tenant, claimed);
	return [rate?.rps, rate?.burst, slots?.limit];
}

describe('the quota of a tenant', () => {
	const all = quotas({
		tenants: [
			tenant('slow', { rate: { rps: 5, burst: 5 } }),
			tenant('bursty', { rate: { rps: 5, burst: 50 }, concurrency: 3 }),
			tenant('unlimited', { rate: null }),
			tenant('one at a time', { concurrency: 1 }),
		],
	});

	it('is tenant_rps by default, and 0 is no limit', () => {
		assert.deepEqual(allowed(all, 'somebody'), [1000, 1000, undefined]);
		assert.deepEqual(allowed(quotas(undefined, 0), 'somebody'), [undefined, undefined, undefined]);
		assert.deepEqual(allowed(quotas({ tenants: [tenant('slow', { rate: { rps: 5, burst: 5 } })] }, 0), 'slow'), [
			5,
			5,
			undefined,
		]);
	});

	it('comes from [[tenants]], then from the claim of the token, then from tenant_rps', () => {
		assert.deepEqual(allowed(all, 'slow', 100), [5, 5, undefined]);
		assert.deepEqual(allowed(all, 'bursty', 100), [5, 50, 3]);
		assert.deepEqual(allowed(all, 'unlimited', 100), [undefined, undefined, undefined]);
		assert.deepEqual(allowed(all, 'somebody', 100), [100, 100, undefined]);
		assert.deepEqual(allowed(quotas(undefined, 0), 'somebody', 100), [100, 100, undefined]);
	});

	it('has its concurrency limit whichever rate applies', () => {
		assert.deepEqual(allowed(all, 'one at a time'), [1000, 1000, 1]);
		assert.deepEqual(allowed(all, 'one at a time', 7), [7, 7, 1]);
		assert.deepEqual(allowed(quotas({ tenants: [tenant('one', { concurrency: 1 })] }, 0), 'one'), [
			undefined,
			undefined,
			1,
		]);
	});

	it('opens one slot for each tenant with a limit, and none for others', () => {
		opened.length = 0;
		const some = quotas({ tenants: [tenant('a', { concurrency: 2 }), tenant('b', { rate: null })] });
		for (const name of ['a', 'a', 'b', 'c']) some.of(name, undefined);
		assert.deepEqual(
			opened.map(({ tenant, limit }) => [tenant, limit]),
			[['a', 2]],
		);
	});
});

describe('a rate in a token', () => {
	it('is a whole number of at least 1, capped by max_rps', () => {
		for (const [claimed, wanted] of [
			[1, 1],
			[499, 499],
			[500, 500],
			[501, 500],
			[1e300, 500],
			[5.0, 5],
		]) {
			assert.equal(readRateClaim({ rps: claimed }, CLAIM), wanted);
		}
	});

	it('is absent if the token has no such claim, or none is configured', () => {
		assert.equal(readRateClaim({}, CLAIM), undefined);
		assert.equal(readRateClaim({ rps: 'much' }, undefined), undefined);
		// What every object inherits is nothing that a token says.
		assert.equal(readRateClaim({}, { name: 'constructor', maxRps: 5 }), undefined);
	});

	it('refuses the token if it is anything else: no limit can be guessed from it', () => {
		for (const claimed of [0, -1, -0, 0.5, 2.5, Number.POSITIVE_INFINITY, Number.NaN, '5', '', true, null, [5], {}]) {
			const refusal = readRateClaim({ rps: claimed }, CLAIM);
			assert.ok(refusal instanceof Rejection, `${claimed}`);
			assert.deepEqual([refusal.code, refusal.reason], ['token-invalid', 'bad rate claim']);
		}
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
	isRateLimitField,
	RateLimitFields,
	routePolicy,
	TENANT_POLICY,
} from '../../../packages/gate/src/gates/rate-limit-fields.ts';
import { Bucket, Rate } from '../../../packages/gate/src/gates/tenant-limit.ts';

/** By name. */
function read({ fields }: RateLimitFields): Record<string, string> {
	return Object.fromEntries(fields.map((name, i) => [name, fields[i + 1]!]).filter((_, i) => i % 2 === 0));
}

/** A bucket from which this many requests were taken at 0 ms. */
function taken(rate: Rate, requests: number): Bucket {
	const bucket = new Bucket();
	for (let i = 0; i < requests; i++) bucket.admit(rate, 0);
	return bucket;
}

describe('RateLimit-Policy and RateLimit', () => {
	it('say how many requests a bucket takes, how many are left, and when it is full again', () => {
		const rate = new Rate(100);
		const fields = new RateLimitFields();
		fields.admitted(TENANT_POLICY, rate, taken(rate, 1));
		assert.deepEqual(read(fields), { 'ratelimit-policy': '"tenant";q=100;w=1', ratelimit: '"tenant";r=99;t=1' });
	});

	it('say the window in which a burst fills up again, in whole seconds', () => {
		for (const [rps, burst, w] of [
			[10, 100, 10],
			[10, 101, 11],
			[10, 1, 1],
			[3, 10, 4],
		] as const) {
			const rate = new Rate(rps, burst);
			const fields = new RateLimitFields();
			fields.admitted(TENANT_POLICY, rate, taken(rate, burst));
			assert.deepEqual(read(fields), {
				'ratelimit-policy': `"tenant";q=${burst};w=${w}`,
				ratelimit: `"tenant";r=0;t=${w}`,
			});
		}
	});

	it('report a refusal as nothing left, until the time for a retry', () => {
		const bucket = taken(new Rate(10, 100), 100);
		const rate = new Rate(10, 5);
		assert.equal(bucket.admit(rate, 0), false);
		const fields = new RateLimitFields();
		assert.equal(fields.refused(TENANT_POLICY, rate, bucket), 10);
		assert.deepEqual(read(fields), { 'ratelimit-policy': '"tenant";q=5;w=1', ratelimit: '"tenant";r=0;t=10' });
	});

	it('list what has been asked, and tell the buckets of routes apart', () => {
		const rate = new Rate(5);
		const fields = new RateLimitFields();
		fields.admitted(TENANT_POLICY, rate, taken(rate, 2));
		fields.concurrency(4, 3);
		fields.admitted(routePolicy('/api'), rate, taken(rate, 1));
		assert.deepEqual(read(fields), {
			'ratelimit-policy': '"tenant";q=5;w=1, "concurrency";q=4;qu="concurrent-requests", "route";q=5;w=1;pk=:L2FwaQ==:',
			ratelimit: '"tenant";r=3;t=1, "concurrency";r=3, "route";r=4;t=1;pk=:L2FwaQ==:',
		});
	});

	it('are absent if no limit was checked', () => {
		assert.deepEqual(new RateLimitFields().fields, []);
	});

	it('are known by their names, as upstreams may send them', () => {
		assert.deepEqual(
			['ratelimit', 'ratelimit-policy', 'ratelimit-limit', 'x-ratelimit-limit'].filter(isRateLimitField),
			['ratelimit', 'ratelimit-policy'],
		);
	});
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isExpired, LEEWAY_SECONDS } from '../../../packages/gate/src/gates/jwt.ts';
import { UNLIMITED } from '../../../packages/gate/src/gates/quota.ts';
import {
	CACHE_CAPACITY,
	type Principal,
	TokenCache,
	usableUntil,
} from '../../../packages/gate/src/gates/token-cache.ts';

const NOW = 1_800_000_000;

function principal(exp: number, now = NOW): Principal {
	const claims = { sub: 'tenant', tenant: 'tenant', scope: '', scopes: new Set<string>(), exp, payload: {} };
	const verified = {
		claims,
		tenant: 'tenant',
		leewaySeconds: LEEWAY_SECONDS,
		vouchedBy: 'key',
		confirmation: undefined,
	};
	return { ...verified, tenantHeader: '', tenantKey: 1n, quota: UNLIMITED, usableUntil: usableUntil(claims, now) };
}

describe('the token cache', () => {
	it('finds a principal by the exact token', () => {
		const cache = new TokenCache();
		const kept = principal(NOW + 1000);
		cache.add('a.b.c', kept);
		assert.equal(cache.find('a.b.c', NOW), kept);
		for (const other of ['a.b.C', 'a.b.c ', 'a.b.', '']) assert.equal(cache.find(other, NOW), undefined);
	});

	it('holds 10,000 entries: the 10,001st pushes out the oldest', () => {
		assert.equal(CACHE_CAPACITY, 10_000);
		const cache = new TokenCache();
		for (let i = 0; i < 10_001; i++) {
			cache.add(`token ${i}`, principal(NOW + 1000));
			assert.ok(cache.size <= 10_000);
		}
		assert.equal(cache.size, 10_000);
		assert.equal(cache.find('token 0', NOW), undefined);
		for (const i of [1, 5000, 10_000]) assert.ok(cache.find(`token ${i}`, NOW), `token ${i}`);
	});

	it('drops the oldest entry that is left, and an expired one at its next lookup, as a list of entries does', () => {
		const CAPACITY = 3;
		const added = fc.record({ step: fc.constant('add' as const), name: fc.nat(7), seconds: fc.nat(4) });
		const asked = fc.record({ step: fc.constant('find' as const), name: fc.nat(7), seconds: fc.nat(4) });
		const swept = fc.record({ step: fc.constant('sweep' as const), name: fc.nat(7), seconds: fc.nat(4) });
		fc.assert(
			fc.property(fc.array(fc.oneof(added, added, asked, swept), { maxLength: 60 }), (steps) => {
				const cache = new TokenCache(CAPACITY);
				// Names of all entries, oldest first, with their principals.
				let kept: [name: number, principal: Principal][] = [];
				for (const { step, name, seconds } of steps) {
					const token = `token ${name}`;
					if (step === 'add') {
						const one = principal(NOW - LEEWAY_SECONDS + seconds, NOW);
						kept = kept.filter(([other]) => other !== name);
						if (kept.length === CAPACITY) kept.shift();
						kept.push([name, one]);
						cache.add(token, one);
					} else if (step === 'find') {
						const now = NOW + seconds;
						const found = kept.find(([other]) => other === name)?.[1];
						const isGood = found !== undefined && now < found.usableUntil;
						assert.equal(cache.find(token, now), isGood ? found : undefined);
						if (!isGood) kept = kept.filter(([other]) => other !== name);
					} else {
						const holds = ({ usableUntil: until }: Principal) => until !== NOW + seconds;
						kept = kept.filter(([, one]) => holds(one));
						cache.keepOnly(holds);
					}
					assert.equal(cache.size, kept.length);
				}
				for (const [name, one] of kept) {
					if (one.usableUntil > NOW) assert.equal(cache.find(`token ${name}`, NOW), one);
				}
			}),
			{ numRuns: 1000 },
		);
	});

	it('is not kept alive by lookups', () => {
		const cache = new TokenCache();
		cache.add('a', principal(NOW + 100_000));
		for (let second = 0; second < 300; second++) assert.ok(cache.find('a', NOW + second));
		assert.equal(cache.find('a', NOW + 300), undefined);
	});

	it('finds a principal for five minutes, or until its token expires', () => {
		fc.assert(
			fc.property(
				fc.double({ min: -400, max: 400, noNaN: true }),
				fc.double({ min: 0, max: 400, noNaN: true }),
				(ttl, age) => {
					const exp = NOW + ttl;
					fc.pre(!isExpired(exp, NOW));
					const cache = new TokenCache();
					cache.add('a', principal(exp));
					const now = NOW + age;
					assert.equal(cache.find('a', now) !== undefined, now < NOW + 300 && !isExpired(exp, now));
				},
			),
			{ numRuns: 1000 },
		);
	});
});

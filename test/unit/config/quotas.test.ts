import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { MINIMAL } from './minimal.ts';
import { errorIn, parseConfig as parse } from './parse.ts';

const ROUTE = '[[routes]]\nprefix = "/a"\nupstream = "http://a"\n';

/** What is wrong, without its line. */
function problems(text: string): string[] {
	return errorIn(text)?.problems.map(({ key, message }) => `${key}: ${message}`) ?? [];
}

describe('quotas in the configuration', () => {
	it('are read: [[tenants]], the claim of a token, and the rate of a route', () => {
		const { tenants, jwt, routes, reloadsIdentity, limits } = parse(`${MINIMAL}
			rate_claim = "rps"
			[limits]
			rate_limit_headers = true
			[[tenants]]
			name = "a"
			rps = 5
			[[tenants]]
			name = "b c"
			rps = 5
			burst = 50
			concurrency = 3
			[[tenants]]
			name = "d"
			rps = 0
			[[tenants]]
			name = "e"
			concurrency = 1
			[[routes]]
			prefix = "/a"
			upstream = "http://a"
			rps = 7
			[[routes]]
			prefix = "/b"
			upstream = "http://a"
			rps = 7
			burst = 70
			[[routes]]
			prefix = "/c"
			upstream = "http://a"
			rps = 0
		`);
		assert.deepEqual(tenants, [
			{ name: 'a', rate: { rps: 5, burst: 5 }, concurrency: undefined },
			{ name: 'b c', rate: { rps: 5, burst: 50 }, concurrency: 3 },
			{ name: 'd', rate: null, concurrency: undefined },
			{ name: 'e', rate: undefined, concurrency: 1 },
		]);
		assert.deepEqual(jwt?.rateClaim, { name: 'rps', maxRps: 10_000_000 });
		assert.deepEqual(
			routes.map(({ rate }) => rate),
			[{ rps: 7, burst: 7 }, { rps: 7, burst: 70 }, undefined],
		);
		assert.deepEqual([reloadsIdentity, limits.rateLimitHeaders], [true, true]);
		assert.equal(parse(`${MINIMAL}rate_claim = "rps"\nmax_rps = 9`).jwt?.rateClaim?.maxRps, 9);
	});

	it('are refused with key and remedy if they make no sense', () => {
		for (const [text, ...wanted] of [
			[
				'[[tenants]]\nrps = 5',
				'tenants[0].name: is missing; set it to the tenant as upstreams see it in x-proxy-tenant',
			],
			[
				'[[tenants]]\nname = "a"\n[[tenants]]\nname = "a"',
				'tenants[1].name: "a" is already the name of tenants[0] on line 9; remove one of the two',
			],
			[
				'[[tenants]]\nname = "a "',
				'tenants[0].name: cannot be the name of a tenant: write visible ASCII characters, as in x-proxy-tenant',
			],
			[
				'[[tenants]]\nname = "a"\nburst = 5',
				'tenants[0].burst: is the size of a bucket, and without rps nothing refills it; set rps too, or leave it out',
			],
			[
				'[[tenants]]\nname = "a"\nrps = 0\nburst = 5',
				'tenants[0].burst: is the size of a bucket, and without rps nothing refills it; set rps too, or leave it out',
			],
			[
				'[[tenants]]\nname = "a"\nrps = 1\nburst = 2000000',
				'tenants[0].burst: takes more than 1048576 s to refill; set it to 1048576 or less, or raise rps',
			],
			[
				'[[tenants]]\nname = "a"\nconcurrency = 0',
				'tenants[0].concurrency: must be a whole number of requests in flight, at least 1 (got 0); set it to 1 or more, or leave it out for no limit',
			],
			[
				'[[tenants]]\nname = "a"\nrps = 0.5',
				'tenants[0].rps: must be a whole number of requests per second, at least 0 (got 0.5); set it to 0 or more, or leave it out for what the token claims, or tenant_rps',
			],
			[
				'[tenants]\nname = "a"',
				'tenants: must be a list of tables (got a table); write [[tenants]], with two brackets',
			],
			[
				`${ROUTE}burst = 5`,
				'routes[0].burst: is the size of a bucket, and without rps nothing refills it; set rps too, or leave it out',
			],
			[
				'max_rps = 5',
				'jwt.max_rps: is the upper bound of rate_claim, which is not set; set rate_claim, too, or leave this out',
			],
			[
				'rate_claim = ""',
				'jwt.rate_claim: must be the name of a claim (got ""); set it to the claim with the requests per second, or leave it out for tenant_rps',
			],
		] as const) {
			assert.deepEqual(problems(`${MINIMAL}${text}`), wanted, text);
		}
		const issuers = `[[issuers]]\nissuer = "https://i.test"\njwks_path = "k"\nmax_rps = 5`;
		assert.deepEqual(problems(MINIMAL.replace(/\[jwt\][^[]*/, `${issuers}\n`)), [
			'issuers[0].max_rps: is the upper bound of rate_claim, which is not set; set rate_claim, too, or leave this out',
		]);
	});

	it('cause a warning if they limit nothing', () => {
		const doubts = (text: string) =>
			configWarnings(parse(text))
				.map(({ key, message }) => `${key}: ${message}`)
				.filter((doubt) => /^tenants|rate_claim/.test(doubt));
		assert.deepEqual(doubts(`tenant_rps = 0\n${MINIMAL}rate_claim = "rps"\n[[tenants]]\nname = "a"`), [
			'jwt.rate_claim: limits only tokens that have the claim, because tenant_rps is 0; set tenant_rps, too',
			'tenants[0].name: sets no limit for its tenant: add rps or concurrency, or remove the table',
		]);
		assert.deepEqual(doubts(`${MINIMAL}rate_claim = "rps"\n[[tenants]]\nname = "a"\nconcurrency = 1`), []);
		const issuer = '[[issuers]]\nissuer = "i"\njwks_path = "k"\nrate_claim = "rps"\n';
		assert.deepEqual(doubts(`tenant_rps = 0\n${MINIMAL.replace(/\[jwt\][^[]*/, issuer)}`), [
			'issuers[0].rate_claim: limits only tokens that have the claim, because tenant_rps is 0; set tenant_rps, too',
		]);
	});
});

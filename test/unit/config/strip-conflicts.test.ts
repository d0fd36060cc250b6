import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { VerifiedToken } from '../../../packages/gate/src/gates/token-cache.ts';
import { isAsStrict } from '../../../packages/proxy/src/config/strip-conflicts.ts';
import { Caller } from '../../../packages/proxy/src/identity/caller.ts';
import { RouteAccess, type RouteAccessSeed } from '../../../packages/proxy/src/identity/route-access.ts';
import { MINIMAL } from './minimal.ts';
import { errorIn } from './parse.ts';

const STRIP = 'strip_prefix = true';

/** @param routes prefix, further keys, and the upstream if it is another one. */
function messages(...routes: [prefix: string, keys?: string, upstream?: string][]): string[] {
	const tables = routes.map(
		([prefix, keys = '', upstream = 'http://a:1']) =>
			`[[routes]]\nprefix = "${prefix}"\nupstream = "${upstream}"\n${keys}\n`,
	);
	return errorIn(`${MINIMAL}${tables.join('')}`)?.message.split('\n') ?? [];
}

describe('a route that cuts its prefix', () => {
	it('does not open paths that another route to the same upstream protects', () => {
		assert.deepEqual(messages(['/api', STRIP], ['/admin', 'tenants = ["ops"]\nscopes = ["admin"]', 'http://A:1']), [
			'config.toml:11: routes[0].strip_prefix: opens "/admin" of the upstream, through "/api/admin", to callers whom routes[1] ' +
				'on line 12 refuses by tenants, scopes; give both the same rules, or write a route "/api/admin" with those of ' +
				'routes[1], or give one of them another upstream',
		]);
		assert.deepEqual(messages(['/in', `${STRIP}\ndeny = ["dns:a"]`], ['/out', STRIP]), [
			'config.toml:16: routes[1].strip_prefix: opens the same paths of the upstream to callers whom routes[0] on line 8 ' +
				'refuses by deny; give both the same rules, or give one of them another upstream',
		]);
	});

	it('is kept from all letter cases of a path only by a route that ignores case, too', () => {
		const kept = 'scopes = ["admin"]';
		const ignores = 'case_insensitive = true';
		assert.equal(
			messages(['/api', STRIP], ['/admin', `${kept}\n${ignores}`], ['/api/admin', kept, 'http://b:1']).length,
			1,
		);
		assert.deepEqual(messages(['/api', STRIP], ['/admin', kept], ['/api/admin', kept, 'http://b:1']), []);
		assert.deepEqual(
			messages(['/api', STRIP], ['/admin', `${kept}\n${ignores}`], ['/api/admin', `${kept}\n${ignores}`, 'http://b:1']),
			[],
		);
	});

	it('shares an upstream with each route to one of its addresses, by name or by URL', () => {
		const group = (name: string, ...addresses: string[]) =>
			`[[upstreams]]\nname = "${name}"\naddresses = ${JSON.stringify(addresses)}\n`;
		const groups = group('web', 'a:1', 'B:2') + group('other', 'b:2') + group('far', 'c:3');
		const kept = 'tenants = ["ops"]';
		const found = (strips: string, keeps: string) =>
			messages(['/api', STRIP, strips], ['/admin', `${kept}\n${groups}`, keeps]).length;
		assert.equal(found('web', 'web'), 1);
		assert.equal(found('web', 'http://a:1'), 1);
		assert.equal(found('http://b:2', 'other'), 1);
		assert.equal(found('web', 'other'), 1);
		assert.equal(found('web', 'far'), 0);
		assert.equal(found('http://a:1', 'other'), 0);
	});

	it('may share an upstream with a route that is not stricter, or that it cannot reach', () => {
		const kept = 'tenants = ["ops", "dev"]';
		assert.deepEqual(messages(['/api', STRIP], ['/admin']), []);
		assert.deepEqual(messages(['/api', STRIP], ['/admin', kept, 'http://a:2']), []);
		assert.deepEqual(messages(['/api'], ['/admin', kept]), []);
		assert.deepEqual(messages(['/api', `${STRIP}\ntenants = ["dev"]`], ['/admin', kept]), []);
		// A separate route takes the path, and leaves it unchanged or cuts another prefix.
		assert.deepEqual(messages(['/api', STRIP], ['/admin', kept], ['/api/admin']), []);
		assert.deepEqual(messages(['/api', STRIP], ['/admin', kept], ['/api/admin', `${kept}\n${STRIP}`]).length, 1);
		// Nothing is cut of the shortest prefix, and the paths of the other one are its own.
		assert.deepEqual(messages(['/', STRIP], ['/admin', kept]), []);
		// The number of tenants is the breaker's.
		assert.deepEqual(messages(['/api', STRIP], ['/admin', 'tenants = 2']), []);
	});

	it('is checked even if its other keys are wrong', () => {
		assert.equal(messages(['/api', `${STRIP}\nscopes = 5`], ['/admin', 'scopes = ["a"]']).length, 2);
		assert.equal(messages(['/api', 'strip_prefix = 1'], ['/admin', 'scopes = ["a"]']).length, 1);
	});
});

describe('rules of two routes', () => {
	it('are equally strict only if no caller passes just one of them', () => {
		const some = (...values: string[]) => fc.option(fc.subarray(values, { minLength: 1 }), { nil: undefined });
		const names = ['dns:a', 'dns:b', 'cn:c'];
		const rules = fc.record({
			allow: some(...names),
			deny: some(...names),
			tenants: some('t', 'u'),
			scopes: some('r', 'w'),
		});
		const caller = fc.record({
			dns: fc.subarray(['a', 'b', 'x']),
			commonNames: fc.subarray(['c', 'd']),
			tenant: fc.constantFrom('t', 'u', 'v'),
			scopes: fc.subarray(['r', 'w']),
		});
		let strict = 0;
		fc.assert(
			fc.property(rules, rules, fc.array(caller, { minLength: 5, maxLength: 5 }), (ours, theirs, callers) => {
				if (!isAsStrict(ours, theirs)) return;
				strict++;
				for (const one of callers) if (passes(ours, one)) assert.ok(passes(theirs, one), JSON.stringify(one));
			}),
			{ numRuns: 5000 },
		);
		assert.ok(strict > 50, `${strict}`);
		assert.ok(isAsStrict({ tenants: ['a'], scopes: ['r', 'w'] }, { tenants: ['b', 'a'], scopes: ['w'] }));
		assert.ok(isAsStrict({ allow: names, deny: ['dns:x'] }, { allow: [...names].reverse(), deny: ['dns:x'] }));
	});
});

function passes(
	rules: RouteAccessSeed,
	{ dns, commonNames, tenant, scopes }: { dns: string[]; commonNames: string[]; tenant: string; scopes: string[] },
): boolean {
	const access = new RouteAccess(rules, (certificate) => (certificate as unknown as { names: never }).names);
	const certificate = { names: { uris: [], dns, commonNames } };
	const connection = { caller: new Caller(certificate as never, () => undefined) };
	const token = { tenant, claims: { scopes: new Set(scopes) } } as unknown as VerifiedToken;
	return access.refuse(connection, token) === undefined;
}

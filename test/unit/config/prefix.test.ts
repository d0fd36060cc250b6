import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { prefixProblem } from '../../../packages/proxy/src/config/prefix.ts';
import { cleanTarget } from '../../../packages/proxy/src/gates/path.ts';
import { RouteTable } from '../../../packages/proxy/src/gates/routes.ts';

describe('a route prefix', () => {
	it('may be any path that a request can have', () => {
		for (const prefix of [
			'/',
			'/a',
			'/a/',
			'/a/b',
			'/.well-known',
			'/a..b',
			'/...',
			'/%41',
			"/a;b=c,d!$&'()*+:@~_-=",
		]) {
			assert.equal(prefixProblem(prefix), undefined, prefix);
		}
	});

	it('is refused with the remedy when no request could match it', () => {
		const cases: [prefix: string, message: RegExp][] = [
			['', /must begin with "\/" \(got ""\); write "\/"/],
			['api', /must begin with "\/" \(got "api"\); write "\/api"/],
			['http://a/b', /must begin with "\/"/],
			['^/', /a path, not a regular expression \(got "\^\/"\); write "\/"$/],
			['^/api/.*$', /not a regular expression .*; write "\/api"$/],
			['~ ^/api(/|$)', /not a regular expression .*; write "\/api"$/],
			['/a?b', /without query and fragment .*; write "\/a"/],
			['/a#b', /without query and fragment .*; write "\/a"/],
			['/a b', /visible ASCII.*; write "\/a%20b"/],
			['/a\n', /visible ASCII.*\(got "\/a\\n"\); write "\/a%0A"/],
			['/é', /visible ASCII.*; write "\/%C3%A9"/],
			['/\x7f', /visible ASCII/],
			['/..', /can never match/],
			['/a/./b', /can never match/],
			['/a/%2E%2e/b', /can never match/],
			['/a%2f..', /can never match/],
			['/a\\b', /can never match/],
			['/a%00', /can never match/],
			['/a%252e', /can never match/],
			['//a', /can never match/],
		];
		for (const [prefix, message] of cases) assert.match(prefixProblem(prefix) ?? 'accepted', message);
	});

	it('is refused with an escape that upstreams read differently', () => {
		for (const prefix of ['/a%0a', '/a%20', '/a%3fb', '/%23', '/a%5Cb', '/100%25', '/caf%e9', '/%c0%af']) {
			assert.match(prefixProblem(prefix) ?? 'accepted', /upstreams read differently .*write a path without it/, prefix);
		}
		for (const prefix of ['/a%20b', '/%7Euser', '/caf%c3%a9', '/a%2fb']) assert.equal(prefixProblem(prefix), undefined);
	});

	it('is refused only if no clean path matches it', () => {
		const piece = fc.constantFrom('/', '.', '..', 'a', '%2e', '%2f', ';', '%', '25', '\\', '?', ' ', 'é');
		const path = fc.array(piece, { maxLength: 8 }).map((pieces) => `/${pieces.join('')}`);
		fc.assert(
			fc.property(path, path, (prefix, rest) => {
				if (!prefixProblem(prefix)?.includes('can never match')) return;
				const table = new RouteTable([{ prefix }]);
				for (const target of [prefix, `${prefix}${rest}`]) {
					if (typeof cleanTarget(target) !== 'string') continue;
					assert.ok(table.match(target.split('?')[0]!) instanceof Rejection, target);
				}
			}),
			{ numRuns: 1000 },
		);
	});
});

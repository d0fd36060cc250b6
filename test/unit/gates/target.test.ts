import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { cleanTarget } from '../../../packages/proxy/src/gates/path.ts';
import { authorityOf, originForm, withoutQuery } from '../../../packages/proxy/src/gates/target.ts';

describe('the request target', () => {
	it('stays as it is in origin form', () => {
		for (const target of ['/', '/a?b', '/http://x/', '//x', '/..', '/a?http://x/'])
			assert.equal(originForm(target), target);
	});

	it('loses scheme and authority in absolute form', () => {
		for (const [target, origin] of [
			['http://edge.test/a/b?c', '/a/b?c'],
			['https://edge.test:8443/a', '/a'],
			['HTTPS://EDGE.test/a', '/a'],
			['http://[::1]:80/a', '/a'],
			['http://edge.test', '/'],
			['http://edge.test?q', '/?q'],
			['http://edge.test/', '/'],
			['http://a/http://b/c', '/http://b/c'],
		] as const) {
			assert.equal(originForm(target), origin, target);
			assert.equal(cleanTarget(originForm(target)), origin);
		}
	});

	it('has an authority in absolute form, which replaces Host (RFC 9112 section 3.2.2)', () => {
		for (const [target, authority] of [
			['http://edge.test/a/b?c', 'edge.test'],
			['HTTPS://Edge.test:8443?c', 'Edge.test:8443'],
			['http://[::1]:80/', '[::1]:80'],
			['http://a/http://b/c', 'a'],
			// These name a host that is none.
			['http://a:b/', null],
			['http://a:1:2/', null],
			['http://[a/', null],
			['http://a\x80/', null],
			['http://a:123456/', null],
			// The others are refused by the path gate, or have none.
			['/a', undefined],
			['//a/b', undefined],
			['*', undefined],
			['edge.test:443', undefined],
			['http://user@edge.test/', undefined],
		] as const) {
			assert.equal(authorityOf(target), authority, target);
		}
	});

	it('is refused by the path gate in every other form', () => {
		for (const target of [
			...['*', '', 'a', 'edge.test:443', 'ftp://edge.test/a', 'http:/a', 'http:///a', 'http://', 'http:a', 'https:'],
			...['http://user@edge.test/a', 'http://user:pass@edge.test/a', 'http://edge.test#a', 'http://edge.test\\a'],
			...[
				'http://edge.test//a',
				'http://edge.test/../a',
				'http://edge.test/%2e%2e',
				'http://edge test/a',
				'xhttp://a/b',
			],
			...['http://edge.test\\@evil.test/a', 'http://edge.test/\\a', ' http://edge.test/a'],
		]) {
			assert.notEqual(typeof cleanTarget(originForm(target)), 'string', target);
		}
	});

	it('keeps the path that the URL standard sees, or is refused', () => {
		const piece = fc.constantFrom(
			'http://',
			'https://',
			'/',
			'/',
			'a',
			'b.c',
			'@',
			':',
			'80',
			'?',
			'#',
			'\\',
			'..',
			'[::1]',
			'//',
		);
		fc.assert(
			fc.property(fc.array(piece, { minLength: 1, maxLength: 7 }), (pieces) => {
				const target = pieces.join('');
				const clean = cleanTarget(originForm(target));
				if (typeof clean !== 'string') return;
				// An origin-form target is a path, whatever it looks like.
				const url = URL.parse(target.startsWith('/') ? `http://host${target}` : target);
				if (url === null) return;
				assert.equal(clean, url.pathname + (target.includes('?') ? `?${target.slice(target.indexOf('?') + 1)}` : ''));
			}),
			{ numRuns: 5000 },
		);
	});
});

describe('what of a target is logged', () => {
	it('ends before a query and before a fragment', () => {
		for (const [target, logged] of [
			['/a/b', '/a/b'],
			['/a?secret', '/a'],
			['/a?b#secret', '/a'],
			['/a#access_token=secret?x', '/a'],
			['?secret', ''],
			['', ''],
		] as const) {
			assert.equal(withoutQuery(target), logged);
		}
	});
});

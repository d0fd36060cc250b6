import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PrefixTable } from '../../../packages/proxy/src/gates/prefix-table.ts';

describe('the longest prefix of a path', () => {
	const table = (...prefixes: string[]) => new PrefixTable(prefixes.map((prefix) => [prefix, prefix]));
	const chosen = (routes: ReturnType<typeof table>, path: string) => routes.longest(path)?.route;

	it('ends a match on a segment boundary: /a matches /a and /a/x, not /ab', () => {
		const routes = table('/a');
		for (const path of ['/a', '/a/', '/a/x', '/a//', '/a/x/y']) assert.equal(chosen(routes, path), '/a', path);
		for (const path of ['/', '/ab', '/a.', '/a;x', '/a%2fx', '/A', '/b/a', '//a', '']) {
			assert.equal(chosen(routes, path), undefined, path);
		}
	});

	it('matches /a/ against /a/ and /a/x, not against /a', () => {
		const routes = table('/a/');
		for (const path of ['/a/', '/a/x', '/a//']) assert.equal(chosen(routes, path), '/a/', path);
		for (const path of ['/a', '/ab', '/ab/']) assert.equal(chosen(routes, path), undefined, path);
	});

	it('matches / against everything', () => {
		for (const path of ['/', '/x', '/x/y', '/.well-known']) assert.equal(chosen(table('/'), path), '/', path);
	});

	it('lets the longest prefix win, whatever the order in the file', () => {
		for (const order of [
			['/', '/a', '/a/', '/a/b'],
			['/a/b', '/a/', '/a', '/'],
			['/a/', '/', '/a/b', '/a'],
		]) {
			const routes = table(...order);
			assert.equal(chosen(routes, '/a/b'), '/a/b');
			assert.equal(chosen(routes, '/a/b/c'), '/a/b');
			assert.equal(chosen(routes, '/a/bc'), '/a/');
			assert.equal(chosen(routes, '/a'), '/a');
			assert.equal(chosen(routes, '/ab'), '/');
		}
	});

	it('treats names of object members as any other prefix', () => {
		const routes = table('/__proto__', '/constructor');
		assert.equal(chosen(routes, '/__proto__/x'), '/__proto__');
		assert.equal(chosen(routes, '/constructor'), '/constructor');
		assert.equal(chosen(routes, '/toString'), undefined);
		assert.equal(chosen(table('/a'), '__proto__'), undefined);
	});

	it('agrees with a search through all routes', () => {
		const text = fc
			.array(fc.constantFrom('/', '/', 'a', 'b', '%2f', ';'), { maxLength: 7 })
			.map((parts) => `/${parts.join('')}`);
		fc.assert(
			fc.property(
				fc.uniqueArray(text, { maxLength: 12 }),
				fc.array(text, { minLength: 1, maxLength: 12 }),
				(prefixes, paths) => {
					const routes = table(...prefixes);
					for (const path of [...paths, ...prefixes, ...prefixes.map((prefix) => `${prefix}/x`)]) {
						assert.equal(chosen(routes, path), longestBySearch(prefixes, path), `${path} in ${prefixes.join(' ')}`);
					}
				},
			),
			{ numRuns: 500 },
		);
	});
});

/** A model of the lookup: cut the path into heads that end where a segment ends, take the longest. */
function longestBySearch(prefixes: readonly string[], path: string): string | undefined {
	const heads: string[] = [];
	for (let end = path.length; end > 0; end--) {
		const endsSegment = end === path.length || path[end] === '/';
		const endsWithSlash = path[end - 1] === '/';
		if (endsSegment || endsWithSlash) heads.push(path.slice(0, end));
	}
	return heads.find((head) => prefixes.includes(head));
}

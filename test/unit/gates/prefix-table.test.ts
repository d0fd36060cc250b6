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

	it('is the one that a search through all prefixes finds, in whatever order they are', () => {
		const text = fc
			.array(fc.constantFrom('/', '/', 'a', 'b', '%2f', ';', '__proto__', 'constructor'), { maxLength: 7 })
			.map((parts) => `/${parts.join('')}`);
		// Many prefixes of one length are searched in another way than a few.
		const short = fc
			.array(fc.constantFrom('/', 'a', 'b', 'c'), { minLength: 2, maxLength: 2 })
			.map((parts) => `/${parts.join('')}`);
		const prefix = fc.oneof(text, short);
		fc.assert(
			fc.property(
				fc.uniqueArray(prefix, { maxLength: 40, size: 'max' }),
				fc.array(prefix, { minLength: 1, maxLength: 12 }),
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

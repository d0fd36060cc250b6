import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BAD_PATH, NO_ROUTE, Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { prefixProblem } from '../../../packages/proxy/src/config/prefix.ts';
import { cleanTarget } from '../../../packages/proxy/src/gates/path.ts';
import { prefixConflicts, RouteTable } from '../../../packages/proxy/src/gates/routes.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';
import { anyReader, KNOWN_READERS, type PathReader } from '../../models/path-readings.ts';

const table = (...prefixes: string[]) => new RouteTable(prefixes.map((prefix) => ({ prefix })));
const ignoringCase = (...prefixes: string[]) =>
	new RouteTable(prefixes.map((prefix) => ({ prefix, caseInsensitive: true })));

function leads(routes: RouteTable<{ prefix: string }>, path: string, prefix: string): void {
	const route = routes.match(path);
	assert.equal(route instanceof Rejection ? route.reason : route.prefix, prefix, path);
}

function refuses(routes: RouteTable<{ prefix: string }>, path: string, other: string): void {
	assertRefusal(routes.match(path), BAD_PATH, path, `leads to ${other} by another reading`);
}

describe('the route table', () => {
	it('returns the very route it was given', () => {
		const route = { prefix: '/a', upstream: 'somewhere' };
		assert.equal(new RouteTable([route]).match('/a/x'), route);
	});

	it('answers "no route" to everything when there are no routes', () => {
		for (const path of ['/', '/a', '/a%2fb']) assert.equal(table().match(path), NO_ROUTE);
	});

	it('refuses two routes with the same prefix, and names it', () => {
		assert.throws(() => table('/a', '/b', '/a'), /\/a/);
	});

	it('refuses a path that leads to another route by another reading', () => {
		const routes = table('/', '/admin');
		for (const path of [
			...['/%61dmin/x', '/%61%64%6d%69%6e', '/admin;a=1/x', '/admin;/x', '/admin%3bx/y', '/admin%2fx', '/admin%2F'],
			...['/admin%5cx', '/%2fadmin', '/;/admin', '/;x=1/admin/y', '/%5cadmin', '/%2561dmin', '/%252561dmin'],
			...['/%c1%a1dmin', '/%e0%81%a1dmin', '/%f0%80%81%a1dmin', '/%c1!dmin', '/adm%ffin', '/ad%0amin', '/%c0%afadmin'],
			...['/admin%3fx', '/admin%23', '/admin%20', '/admin%2500x', '/admin%c0%80', '/%2fhost/admin', '/;/host/admin'],
		]) {
			refuses(routes, path, '/admin');
		}
		refuses(table('/api', '/api/admin'), '/api//admin/x', '/api/admin');
		refuses(table('/api', '/api/admin'), '/api/;v=1/admin/x', '/api/admin');
	});

	it('forwards a path of which every reading leads to the same route', () => {
		const routes = table('/', '/admin');
		for (const path of [
			'/%61dmim',
			'/x/admin',
			'/x%2fadmin',
			'/a%20b',
			'/caf%c3%a9',
			'/caf%e9',
			'/a;b',
			'/x//y',
			'/%2541',
		]) {
			leads(routes, path, '/');
		}
		for (const path of ['/admin/x%2fy', '/admin//x', '/admin/;a', '/admin/%61', '/admin/%ff'])
			leads(routes, path, '/admin');
	});

	it('answers "no route" where what was sent has none, whatever else it could be read as', () => {
		for (const path of ['/%61dmin', '/admin;x', '/admin%2fx', '/ADMIN'])
			assert.equal(table('/admin').match(path), NO_ROUTE);
	});

	it('reads prefixes as it reads paths', () => {
		const routes = table('/', '/s%20p', '/%7Euser', '/v;1');
		for (const [path, prefix] of [
			['/s%20p/x', '/s%20p'],
			['/%7Euser', '/%7Euser'],
			['/%7Euser/a%2fb', '/%7Euser'],
			['/v;1/x', '/v;1'],
		] as const)
			leads(routes, path, prefix);
		for (const [path, other] of [
			['/~user/x', '/%7Euser'],
			['/%7euser', '/%7Euser'],
			['/v/x', '/v;1'],
			['/v;2/x', '/v;1'],
		] as const)
			refuses(routes, path, other);
		assert.equal(table('/%7Euser').match('/~user'), NO_ROUTE);
	});

	it('refuses routes that are one by another reading', () => {
		for (const prefixes of [
			['/a', '/%61'],
			['/a', '/a;x'],
			['/a/b', '/a//b'],
			['/a;x', '/a;y'],
			['/', '/;a'],
			['/a%2fb', '/a/b'],
		]) {
			assert.throws(() => table(...prefixes), /two routes/, prefixes.join(' '));
			assert.equal(prefixConflicts(prefixes.map((prefix) => ({ prefix }))).length, 1);
		}
		assert.throws(() => new RouteTable([{ prefix: '/A', caseInsensitive: true }, { prefix: '/a' }]), /two routes/);
		table('/a', '/A', '/a/b', '/a/', '/b');
	});

	it('refuses with caseInsensitive what another letter case would lead to that route', () => {
		const routes = new RouteTable([{ prefix: '/' }, { prefix: '/Admin', caseInsensitive: true }, { prefix: '/api' }]);
		leads(routes, '/Admin/x', '/Admin');
		leads(routes, '/API/x', '/');
		leads(routes, '/administrators', '/');
		for (const path of ['/admin', '/ADMIN/x', '/%41DMIN', '/aDmIn;x/y', '/ADMiN']) refuses(routes, path, '/Admin');
		// U+212A is a k, U+017F an s, and U+0130 an i, where letter case is that of Unicode.
		refuses(ignoringCase('/', '/ci'), '/c%C4%B0', '/ci');
		refuses(ignoringCase('/', '/keys'), '/%E2%84%AAeys', '/keys');
		refuses(ignoringCase('/', '/keys'), '/key%C5%BF', '/keys');
	});

	it('lets no reading of a forwarded path have another route, whatever the table', () => {
		const piece = fc.constantFrom(
			...['/', '/', '/', 'a', 'a', 'b', 'A', ';', '%3b', '%2f', '%5c', '%61', '%62', '%25', '61', '%41', '.', '%2e'],
			...['%c1', '%a1', '%c0', '%af', '%ae', '%e0', '%81', '%ff', '%c3', '%a9', '%0a', '%3f', '%20'],
		);
		const path = fc.array(piece, { maxLength: 8 }).map((parts) => `/${parts.join('')}`);
		const plain = fc
			.array(fc.constantFrom('/', 'a', 'b', 'A'), { maxLength: 4 })
			.map((parts) => `/${parts.join('').replace(/\/+/g, '/')}`.replace('//', '/'));
		const route = fc.record({ prefix: fc.oneof({ weight: 4, arbitrary: plain }, path), caseInsensitive: fc.boolean() });
		const readers = fc.array(fc.array(fc.nat(), { maxLength: 6 }), { minLength: 1, maxLength: 6 });
		let forwarded = 0;
		let refused = 0;
		fc.assert(
			fc.property(
				fc.array(route, { maxLength: 6 }),
				fc.array(path, { minLength: 1, maxLength: 6 }),
				readers,
				(routes, paths, picks) => {
					const clean = routes.filter(({ prefix }) => prefixProblem(prefix) === undefined);
					if (prefixConflicts(clean).length > 0 || new Set(clean.map(({ prefix }) => prefix)).size < clean.length)
						return;
					const all = new RouteTable(clean);
					for (const sent of [...paths, ...clean.map(({ prefix }) => `${prefix}${paths[0]}`)]) {
						if (typeof cleanTarget(sent) !== 'string') continue;
						const match = all.match(sent);
						if (match instanceof Rejection) {
							if (match !== NO_ROUTE) refused++;
							continue;
						}
						forwarded++;
						for (const read of [...Object.values(KNOWN_READERS), ...picks.map(anyReader)]) {
							assertServedBy(match, read, sent, clean);
						}
					}
				},
			),
			{ numRuns: 3000 },
		);
		assert.ok(forwarded > 1000 && refused > 100, `${forwarded} forwarded, ${refused} refused`);
	});

	it('lets no reading of any short path have another route', () => {
		const tokens = ['/', 'a', ';', '%2f', '%61', '%5c', '%3b', '%c1%a1', '%ff', '%25'];
		const routes = [{ prefix: '/' }, { prefix: '/a' }, { prefix: '/a/a' }];
		const all = new RouteTable(routes);
		const readers = Object.values(KNOWN_READERS);
		const forwarded = wordsOf(tokens, 4).filter((word) => {
			const sent = `/${word}`;
			const match = typeof cleanTarget(sent) === 'string' ? all.match(sent) : undefined;
			if (match === undefined || match instanceof Rejection) return false;
			for (const read of readers) assertServedBy(match, read, sent, routes);
			return true;
		});
		assert.ok(forwarded.length > 1000, `${forwarded.length}`);
	});
});

/** The handler that a server with this way of reading has for a path: the routes' prefixes are its handlers, read by it as well. */
function assertServedBy(
	match: { prefix: string },
	read: PathReader,
	sent: string,
	routes: readonly { prefix: string; caseInsensitive?: boolean }[],
): void {
	const path = read(sent);
	const fits = (prefix: string, text: string) =>
		text === prefix || (text.startsWith(prefix) && (prefix.endsWith('/') || text[prefix.length] === '/'));
	const [served] = routes
		.map((route) => ({ route, prefix: read(route.prefix) }))
		.filter(
			({ route, prefix }) =>
				fits(prefix, path) || (route.caseInsensitive && fits(prefix.toLowerCase(), path.toLowerCase())),
		)
		.sort((a, b) => b.prefix.length - a.prefix.length);
	assert.equal(served?.route.prefix, match.prefix, `${sent} read as ${JSON.stringify(path)}`);
	for (const segment of path.split('/')) assert.ok(segment !== '.' && segment !== '..', `${sent} read as ${path}`);
}

/** All texts of up to this many tokens. */
function wordsOf(tokens: readonly string[], length: number): string[] {
	if (length === 0) return [''];
	const shorter = wordsOf(tokens, length - 1);
	return [...new Set([...shorter, ...shorter.flatMap((word) => tokens.map((token) => word + token))])];
}

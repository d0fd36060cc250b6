import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BAD_PATH, Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { type CleanTarget, cleanTarget } from '../../../packages/proxy/src/gates/path.ts';
import { fitOf } from '../../../packages/proxy/src/gates/prefix-table.ts';
import { stripPrefix } from '../../../packages/proxy/src/gates/strip-prefix.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';
import { KNOWN_READERS } from '../../models/path-readings.ts';

const strip = (target: string, prefix: string) => {
	assert.equal(cleanTarget(target), target);
	assert.equal(fitOf(prefix, target.replace(/\?.*/, '')), 'matches');
	return stripPrefix(target as CleanTarget, prefix);
};

describe('a target without the prefix of its route', () => {
	it('is the rest after the prefix, with its query, and begins with a slash', () => {
		for (const [target, prefix, left] of [
			['/api/items', '/api', '/items'],
			['/api/items?page=2&x=/../y', '/api', '/items?page=2&x=/../y'],
			['/api/items', '/api/', '/items'],
			['/api', '/api', '/'],
			['/api?page=2', '/api', '/?page=2'],
			['/api/', '/api', '/'],
			['/api/', '/api/', '/'],
			['/api/?x', '/api/', '/?x'],
			['/api/api/x', '/api', '/api/x'],
			['/a/b/c/d', '/a/b', '/c/d'],
			['/api/a//b', '/api', '/a//b'],
			['/api/.well-known/x', '/api', '/.well-known/x'],
			['/api/%41%2fb;v=1', '/api', '/%41%2fb;v=1'],
			['/api?//x', '/api', '/?//x'],
			['/a//b', '/a//', '/b'],
			// Of the shortest prefix nothing is left to cut.
			['/x?y', '/', '/x?y'],
			['/%2fx', '/', '/%2fx'],
		] as const) {
			assert.equal(strip(target, prefix), left, `${target} without ${prefix}`);
		}
	});

	it('is refused if it could be read as another host: an empty segment after the prefix, encoded or with parameters', () => {
		for (const rest of [
			'//evil.test',
			'//',
			'/%2Fevil.test',
			'/%2f',
			'/%5cevil.test',
			'/%5C/',
			'/;/evil.test',
			'/;v=1',
			'/%3b/x',
			'/%ff/x',
			'/%0a/evil.test',
			'/%c0%afevil.test',
			'/;%2fevil.test',
		]) {
			for (const prefix of ['/api', '/api/']) {
				assertRefusal(strip(`/api${rest}?q`, prefix), BAD_PATH, rest, 'empty segment after the prefix');
			}
		}
	});

	it("is a clean path and the end of the client's path, by every reading", () => {
		const piece = fc.constantFrom(
			'/',
			'/',
			'a',
			'b',
			'api',
			';',
			'=',
			'%2f',
			'%5C',
			'%3B',
			'%2e',
			'%ff',
			'%c0%af',
			'.',
			'%41',
			'?',
			'&',
		);
		const path = fc.array(piece, { maxLength: 10 }).map((pieces) => `/${pieces.join('')}`);
		let stripped = 0;
		fc.assert(
			fc.property(path, fc.nat(), (target, at) => {
				const whole = target.replace(/\?.*/s, '');
				// Any prefix that matches: it ends before a slash, after one, or at the end.
				const ends = Array.from({ length: whole.length }, (_, i) => i + 1).filter(
					(end) => fitOf(whole.slice(0, end), whole) === 'matches',
				);
				const prefix = whole.slice(0, ends[at % ends.length]);
				if (typeof cleanTarget(target) !== 'string' || typeof cleanTarget(prefix) !== 'string') return;
				const left = stripPrefix(target as CleanTarget, prefix);
				if (left instanceof Rejection) return;
				stripped++;
				assert.equal(cleanTarget(left), left);
				const cut = prefix.replace(/\/$/, '');
				assert.ok(cut + left === target || cut + left.slice(1) === target, `${target} became ${left}`);
				if (cut === '') return;
				for (const reader of Object.values(KNOWN_READERS))
					assert.ok(!reader(left.split('?')[0]!).startsWith('//'), left);
				// A reader that decodes separators and cuts parameters off sees one slash, and no dot segment.
				const [read = ''] = left.split('?');
				const segments = read.split(/\/|%2f|%5c/i).map((segment) => segment.replace(/(?:;|%3b).*/i, ''));
				assert.equal(segments[0], '');
				assert.ok(read === '/' || segments[1] !== '', left);
				assert.ok(!segments.some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment)), left);
			}),
			{ numRuns: 5000 },
		);
		assert.ok(stripped > 1000, `${stripped}`);
	});
});

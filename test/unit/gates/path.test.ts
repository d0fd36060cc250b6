import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BAD_PATH, Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { type CleanTarget, cleanTarget, pathOf } from '../../../packages/proxy/src/gates/path.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';
import { refusedByTheModel } from '../../models/path-gate.ts';
import { allReadings } from '../../models/path-readings.ts';

function passes(target: string): void {
	assert.equal(cleanTarget(target), target, `${target} is refused or changed`);
}

function refuses(target: string): void {
	assertRefusal(cleanTarget(target), BAD_PATH, `${JSON.stringify(target)} passes`);
}

/** Each dot plain or encoded, one or two of them. */
const DOT_SEGMENTS = ['.', '%2e', '%2E'].flatMap((one) => [one, ...['.', '%2e', '%2E'].map((two) => one + two)]);
const SEPARATORS = ['/', '%2f', '%2F', '%5c', '%5C', '\\'];

const RUNS = 5000;

describe('a refused path has a reason', () => {
	for (const [reason, ...targets] of [
		['target is not a path', '', '*', 'a', '?a', 'http://x/', '..', '%2f', 'x:443', ' /', '#/'],
		['fragment, space or byte outside ASCII', '/a#b', '/a b HTTP/1.1\r\nHost: x', '/\xff', '/\u2028', '/a?\xff'],
		['two slashes at the start', '//', '//evil.test/a', '///'],
		['backslash', '/\\evil.test', '/a\\b', '/..\\a'],
		['malformed percent-encoding', '/%', '/%2', '/%zz', '/%2g', '/%g2', '/%%32e', '/%2%65', '/%u002e', '/%U0041'],
		['encoded NUL', '/%00', '/a%00b', '/..%00', '/%2f%00'],
		['double-encoded', '/%252e', '/%252F', '/a%255c', '/%25%32%65', '/%252%45', '/%25%32E', '/%25%35%63', '/%255%43'],
		['dot segment', '/..', '/a/./b', '/a%2f..', '/..?', '/../?x', '/%c0%ae%c0%ae/', '/%e0%80%ae/x'],
		['dot segment', '/.%ff./x', '/x/..%0a', '/..%20', '/..%3fx', '/x/.%23', '/..%253b/x', '/%25252e%25252e/x'],
		['too many readings', `/%${'25'.repeat(70)}41`, '/%2fx;%3b%5c%3f%ff%0a//%25%34%31', `/${'%5c;/'.repeat(3000)}`],
	] as const) {
		for (const target of targets) {
			it(`${reason}: ${target.slice(0, 40)}`, () => assertRefusal(cleanTarget(target), BAD_PATH, target, reason));
		}
	}
});

describe('the path gate', () => {
	it('refuses every spelling of a dot segment, after and before every kind of separator', () => {
		for (const dots of DOT_SEGMENTS) {
			refuses(`/${dots}`);
			for (const separator of SEPARATORS) {
				for (const path of [`/a${separator}${dots}`, `/${dots}${separator}a`, `/%61/b${separator}${dots}/c?query`]) {
					refuses(path);
				}
			}
		}
	});

	it('cuts segments at a semicolon, plain or encoded, before it looks at them', () => {
		for (const dots of DOT_SEGMENTS) {
			for (const parameter of [';', ';a=1;b=2', '%3b', '%3Bx']) {
				for (const path of [`/${dots}${parameter}`, `/a/${dots}${parameter}/b`, `/a%2f${dots}${parameter}`])
					refuses(path);
			}
		}
		for (const path of ['/a;..', '/a;/b', '/;', '/a;x=..;y', '/a%3b..', '/;..']) passes(path);
	});

	it('passes names with dots, two slashes inside, and honest escapes', () => {
		for (const path of ['/...', '/a..b', '/..a', '/a..', '/.well-known/acme', '/%2ea', '/a%2e%2e', '/.%2e.'])
			passes(path);
		for (const path of ['/a//b', '/a//', '/%2fx', '/a;v=1/b%3bc//d%2fe%20f']) passes(path);
		for (const path of ['/%25', '/100%25', '/%2541', '/%252', '/%25%32', '/%25zz', '/%2500', '/%252d', '/%255b'])
			passes(path);
		for (const path of ['/%25%32%64', '/%252%67', '/%25%33e', '/%25%35%64', '/%32%65', '/%25%41']) passes(path);
		for (const path of [`/${'%d0%b6'.repeat(2000)}`, `/${'%20/'.repeat(3000)}x`]) passes(path);
	});

	it('refuses characters that are invalid on a request line: controls, space, #, anything beyond ASCII', () => {
		for (let code = 0; code <= 0x17f; code++) {
			const char = String.fromCharCode(code);
			const visible = code > 0x20 && code < 0x7f;
			for (const target of [`/a${char}b`, `/${char}`, `/a?b${char}c`, `/a?${char}`]) {
				const plain = visible && !'#\\%?;'.includes(char);
				if (plain) target === '//' || target === '/.' ? refuses(target) : passes(target);
				else if (!visible || char === '#') refuses(target);
			}
		}
	});

	it('looks for no path in the query', () => {
		for (const query of ['/../x', '%2e%2e', '%252e', '%00', '%u002e', '%zz', '\\', '//', 'a?b/../c', '']) {
			passes(`/a?${query}`);
			passes(`/?${query}`);
		}
	});

	it('cuts the query off at the first question mark', () => {
		for (const [target, path] of [
			['/', '/'],
			['/a%2Fb;c?d=%2f', '/a%2Fb;c'],
			['/a?', '/a'],
			['/a?b?c', '/a'],
		] as const) {
			assert.equal(pathOf(cleanTarget(target) as CleanTarget), path);
		}
	});

	it('stays fast on long hostile paths', () => {
		const before = process.cpuUsage();
		for (const piece of ['%2e', '/.', '/..;', '%25', '%2f%2e', '%20', '%0a', '%c0%af', '%5c;/', ';', '/', '%', '.']) {
			cleanTarget(`/x${piece.repeat(50_000)}`);
		}
		// Linear work takes some 30 ms; quadratic work would take a minute.
		assert.ok(process.cpuUsage(before).user < 10_000_000);
	});

	it('agrees with a model that reads one character at a time', () => {
		let refused = 0;
		let passed = 0;
		fc.assert(
			fc.property(target, (text) => {
				const readings = allReadings(text.split('?')[0]!);
				const said = cleanTarget(text);
				const isTooMuch = said instanceof Rejection && said.reason === 'too many readings';
				if (isTooMuch) assert.ok(readings.size > 64, text);
				if (isTooMuch || refusedByTheModel(text) || [...readings].some(hasDotSegment)) {
					assertRefusal(cleanTarget(text), BAD_PATH, text);
					refused++;
				} else {
					assert.equal(cleanTarget(text), text);
					passed++;
				}
			}),
			{ numRuns: RUNS },
		);
		assert.ok(passed > 500 && refused > 500, `${passed} passed, ${refused} refused`);
	});

	it('passes no path that the URL standard would change', () => {
		fc.assert(
			fc.property(target, (text) => {
				if (cleanTarget(text) !== text) return;
				const path = text.split('?', 1)[0]!;
				// The standard encodes some characters that RFC 3986 forbids; where there are none it changes nothing.
				fc.pre(!/["<>^`{|}]/.test(path));
				assert.equal(new URL(`http://host${text}`).pathname, path);
			}),
			{ numRuns: RUNS },
		);
	});
});

const target = fc
	.array(
		fc.constantFrom(
			...['/', '/', '/', '/.', '/..', '.', '..', '%2e', '%2E', '%2f', '%5C', '\\', ';', '%3b', 'a', 'b', '...', '%61'],
			...[
				'%',
				'%25',
				'%32',
				'%65',
				'%35',
				'%63',
				'%252e',
				'%255c',
				'25',
				'2',
				'5',
				'e',
				'f',
				'c',
				'%00',
				'%u',
				'%U',
				'%c0',
				'%ae',
				'%af',
				'%ff',
				'%0a',
				'%3f',
				'0',
			],
			...['?', '#', ' ', '\u0080', '{', '"'],
		),
		{ maxLength: 9 },
	)
	.map((parts) => `/${parts.join('')}`);

function hasDotSegment(path: string): boolean {
	return path.split('/').some((segment) => segment === '.' || segment === '..');
}

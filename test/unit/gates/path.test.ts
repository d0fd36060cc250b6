import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BAD_PATH, Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { cleanTarget, pathOf } from '../../../packages/proxy/src/gates/path.ts';
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

/** `npm run fuzz` goes on with other seeds. */
const RUNS = 5000;

describe('the path gate', () => {
	it('refuses every spelling of a dot segment, after and before every kind of separator', () => {
		for (const dots of DOT_SEGMENTS) {
			refuses(`/${dots}`);
			for (const separator of SEPARATORS) {
				for (const path of [
					`/a${separator}${dots}`,
					`/${dots}${separator}a`,
					`/a${separator}${dots}${separator}b`,
					`/a/b${separator}${dots}/c`,
					`/%61${separator}${dots}`,
				]) {
					refuses(path);
					refuses(`${path}?query`);
				}
			}
		}
	});

	it('cuts segments at a semicolon, plain or encoded, before it looks at them', () => {
		for (const dots of DOT_SEGMENTS) {
			for (const parameter of [';', ';x', ';a=1;b=2', '%3b', '%3Bx']) {
				for (const path of [`/${dots}${parameter}`, `/a/${dots}${parameter}/b`, `/a%2f${dots}${parameter}`])
					refuses(path);
			}
		}
		for (const path of ['/a;..', '/a;/b', '/;', '/a;x=..;y', '/a%3b..', '/;..']) passes(path);
	});

	it('refuses dot segments that only some readers see: overlong, with bytes that decoders drop, before a decoded end of the path', () => {
		for (const path of [
			'/%c0%ae%c0%ae/',
			'/x/%c0%ae%c0%ae%c0%afy',
			'/%c0.%c0./',
			'/%e0%80%ae/x',
			'/%f0%80%80%ae./x',
			'/%25c0%25ae%c0%ae/x',
			'/.%ff./x',
			'/x/..%0a',
			'/..%20',
			'/..%3fx',
			'/x/.%23',
			'/..%2500/x',
			'/..%c0%80/x',
			'/..%253b/x',
			'/%25252e%25252e/x',
		])
			refuses(path);
	});

	it('refuses a path with too many readings, and follows those of honest paths', () => {
		for (const path of [`/%${'25'.repeat(70)}41`, '/%2fx;%3b%5c%3f%ff%0a//%25%34%31', `/${'%5c;/'.repeat(3000)}`]) {
			assertRefusal(cleanTarget(path), BAD_PATH, path, 'too many readings');
		}
		for (const path of ['/a;v=1/b%3bc//d%2fe%20f', `/${'%d0%b6'.repeat(2000)}`, `/${'%20/'.repeat(3000)}x`])
			passes(path);
	});

	it('passes names that merely have dots in them', () => {
		for (const path of [
			'/...',
			'/....',
			'/a..b',
			'/..a',
			'/a..',
			'/.a',
			'/a.',
			'/.well-known/acme',
			'/.well-known',
			'/a/.../b',
			'/.git',
			'/a.b.c/..d/e..',
			'/%2ea',
			'/a%2e',
			'/a%2e%2e',
			'/%2e%2e%2e',
			'/.%2e.',
		]) {
			passes(path);
		}
	});

	it('refuses NUL and %u in every case', () => {
		for (const path of ['/%00', '/a%00b', '/..%00', '/%u002e%u002e/x', '/%U002e', '/%u', '/a%u0041', '/%2f%00'])
			refuses(path);
	});

	it('refuses a doubly encoded dot or separator', () => {
		for (const inner of ['2e', '2E', '2f', '2F', '5c', '5C']) {
			for (const path of [`/%25${inner}`, `/a%25${inner}b`, `/a/%25${inner}%25${inner}/b`]) refuses(path);
		}
		for (const path of ['/%25', '/100%25', '/%2541', '/%252', '/%25%32', '/%25zz', '/%2500', '/%252d', '/%255b'])
			passes(path);
	});

	it('refuses a doubly encoded dot or separator also if its hex digits are what is encoded', () => {
		for (const path of [
			'/%25%32%65',
			'/%25%32%45',
			'/%252%65',
			'/%25%32e',
			'/%25%32E%25%32E/x',
			'/a%25%32%66b',
			'/%252%46',
			'/%25%35%63',
			'/%255%43',
			'/%25%35c',
		]) {
			refuses(path);
		}
		for (const path of ['/%25%32%64', '/%252%67', '/%25%33e', '/%25%35%64', '/%32%65', '/%25%41']) passes(path);
	});

	it('refuses a percent sign that begins no octet', () => {
		for (const path of ['/%', '/%2', '/a%', '/%zz', '/%2g', '/%g2', '/%%32e', '/%2%65', '/% 2e', '/%-1']) refuses(path);
	});

	it('refuses a backslash and a second slash at the start, which some readers take for a host', () => {
		for (const path of ['//x', '//', '//evil.test/a', '///', '/\\evil.test', '/a\\b', '\\a', '\\\\a', '/\\'])
			refuses(path);
		for (const path of ['/a//b', '/a//', '/a///b', '/%2fx']) passes(path);
	});

	it('refuses what does not begin with a slash', () => {
		for (const target of ['', '*', 'a', '?', '?a', 'http://x/', 'https://x/a', '.', '..', '%2f', 'x:443', ' /', '#/']) {
			refuses(target);
		}
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
		for (const target of ['/a b HTTP/1.1\r\nHost: x', '/a\r\n', '/\u2028', '/\ud83d\ude00']) refuses(target);
	});

	it('never looks at the query for paths', () => {
		for (const query of [
			'/../x',
			'..',
			'%2e%2e',
			'%252e',
			'%00',
			'%u002e',
			'%',
			'%zz',
			'\\',
			'//',
			'?',
			'a?b/../c',
			'',
		]) {
			passes(`/a?${query}`);
			passes(`/?${query}`);
		}
		refuses('/..?');
		refuses('/../?x');
	});

	it('returns the target byte for byte, and the path without the query', () => {
		for (const [target, path] of [
			['/', '/'],
			['/a%2Fb;c?d=%2f', '/a%2Fb;c'],
			['/a?', '/a'],
			['/a?b?c', '/a'],
		] as const) {
			const clean = cleanTarget(target);
			assert.ok(typeof clean === 'string');
			assert.equal(clean, target);
			assert.equal(pathOf(clean), path);
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

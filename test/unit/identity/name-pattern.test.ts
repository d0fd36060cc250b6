import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import {
	matches,
	type NameKind,
	type NamePattern,
	namesOfKind,
	parseNamePattern,
} from '../../../packages/proxy/src/identity/name-pattern.ts';

function pattern(text: string): NamePattern {
	const parsed = parseNamePattern(text);
	assert.ok(!('wanted' in parsed), `${text}: ${JSON.stringify(parsed)}`);
	return parsed;
}

function problem(text: string): string {
	const parsed = parseNamePattern(text);
	assert.ok('wanted' in parsed, `${text} is taken for a pattern`);
	return `must be ${parsed.wanted}; ${parsed.remedy}`;
}

/** Whether a certificate with this one name has a name of the pattern. */
function names(text: string, name: string): boolean {
	const { kind } = pattern(text);
	const known = read(kind, name);
	assert.ok(!(known instanceof Rejection), `${name}: ${known instanceof Rejection && known.reason}`);
	return known.some((one) => matches(pattern(text), one));
}

function read(kind: NameKind, name: string) {
	return namesOfKind(kind, {
		uris: kind === 'spiffe' ? [name] : [],
		dns: kind === 'dns' ? [name] : [],
		commonNames: kind === 'cn' ? [name] : [],
	});
}

describe('a pattern of a name', () => {
	it('matches a SPIFFE ID, or those that differ in whole path segments', () => {
		const all = 'spiffe://example.org/ns/pay/*';
		assert.ok(names(all, 'spiffe://example.org/ns/pay/card'));
		assert.ok(names(all, 'SPIFFE://Example.ORG/ns/pay/card'));
		for (const other of [
			'spiffe://example.org/ns/pay',
			'spiffe://example.org/ns/pay/card/x',
			'spiffe://example.org/ns/Pay/card',
			'spiffe://example.com/ns/pay/card',
			'spiffe://example.org.evil/ns/pay/card',
			'spiffe://example.org',
		]) {
			assert.equal(names(all, other), false, other);
		}
		assert.ok(names('spiffe://example.org/*/pay/*', 'spiffe://example.org/ns/pay/x'));
		assert.ok(names('spiffe://example.org', 'spiffe://EXAMPLE.org'));
		assert.equal(names('spiffe://example.org/a', 'spiffe://example.org/b'), false);
	});

	it('matches a host, or those that differ in whole labels, without regard to case and a final dot', () => {
		const all = 'dns:*.billing.internal';
		for (const host of ['a.billing.internal', 'A.Billing.INTERNAL', 'a.billing.internal.', '*.billing.internal']) {
			assert.ok(names(all, host), host);
		}
		for (const host of ['billing.internal', 'a.b.billing.internal', 'abilling.internal', 'a.billing.internal.evil']) {
			assert.equal(names(all, host), false, host);
		}
		assert.ok(names('dns:db.*.internal', 'db.eu-1.internal'));
		// A certificate for all hosts is no certificate of each.
		assert.equal(names('dns:a.billing.internal', '*.billing.internal'), false);
	});

	it('matches a common name exactly', () => {
		assert.ok(names('cn:legacy-client', 'legacy-client'));
		for (const other of ['Legacy-client', 'legacy-client ', 'legacy-client.', 'legacy']) {
			assert.equal(names('cn:legacy-client', other), false, other);
		}
		assert.ok(names('cn:a:b, c', 'a:b, c'));
	});

	it('is refused with the mistake and the remedy', () => {
		const cases: [text: string, message: RegExp][] = [
			['example.org', /^must be "spiffe:\/\/…", "dns:…" or "cn:…"; name the kind, for example "dns:example\.org"$/],
			['', /name the kind/],
			['URI:spiffe://a/b', /write "spiffe:\/\/a\/b"/],
			['spiffe:a/b', /write "spiffe:\/\/a\/b"/],
			['DNS:a.b', /write "dns:a\.b"/],
			['CN:x', /write "cn:x"/],
			['spiffe://*/a', /name the trust domain/],
			['spiffe://', /letters, digits/],
			['spiffe://example.org/pay-*', /does not match a part of a segment/],
			['spiffe://example.org/**', /one "\*" for each segment: "\*\/\*" for two/],
			[
				'spiffe://example.org/ns/',
				/to match each ID that is one segment longer, write "spiffe:\/\/example\.org\/ns\/\*"/,
			],
			['spiffe://example.org//a', /exactly as in the certificate/],
			['spiffe://example.org/../a', /exactly as in the certificate/],
			['spiffe://example.org/a%2fb', /exactly as in the certificate/],
			['spiffe://example.org/a?b', /exactly as in the certificate/],
			['spiffe://user@example.org/a', /exactly as in the certificate/],
			['spiffe://example.org:8443/a', /exactly as in the certificate/],
			['dns:', /host name/],
			['dns:a b', /host name/],
			['dns:a..b', /host name/],
			['dns:**.internal', /"\*\.\*" for two/],
			['dns:a*.internal', /does not match a part of a segment/],
			['cn:', /whole common name/],
			['cn:legacy-*', /no segments/],
		];
		for (const [text, message] of cases) assert.match(problem(text), message, text);
	});

	it('is never partial: what it matches has as many segments, each the same or its "*" (property)', () => {
		const segment = fc.stringMatching(/^[a-z0-9_]{1,4}$/);
		const path = fc.array(segment, { minLength: 1, maxLength: 4 });
		const stars = fc.array(fc.boolean(), { minLength: 4, maxLength: 4 });
		fc.assert(
			fc.property(path, path, stars, (wanted, given, star) => {
				const starred = wanted.map((one, i) => (star[i] ? '*' : one));
				const expected = wanted.length === given.length && given.every((one, i) => star[i] || one === wanted[i]);
				assert.equal(names(`spiffe://td/${starred.join('/')}`, `spiffe://td/${given.join('/')}`), expected);
				assert.equal(names(`dns:${starred.join('.')}`, given.join('.')), expected);
			}),
		);
	});

	it('parses each text as a pattern or refuses it, and a parsed pattern matches itself (property)', () => {
		const text = fc
			.tuple(fc.constantFrom('spiffe://', 'dns:', 'cn:', ''), fc.stringMatching(/^[a-zA-Z0-9*./:_ -]{0,20}$/))
			.map(([scheme, rest]) => scheme + rest);
		fc.assert(
			fc.property(text, (one) => {
				const parsed = parseNamePattern(one);
				if ('wanted' in parsed) return;
				const name = one.replace(/^(?:dns|cn):/, '').replaceAll('*', 'any');
				assert.ok(names(one, name));
			}),
		);
	});
});

describe('names that leave a doubt', () => {
	const reasonOf = (known: string[][] | Rejection) => (known instanceof Rejection ? known.reason : known);

	it('refuse the certificate if patterns are about their kind: readers could mistake them for others', () => {
		const spiffe = [
			'spiffe://example.org/ns/%70ay',
			'spiffe://example.org/ns//pay',
			'spiffe://example.org/ns/./pay',
			'spiffe://example.org/ns/../pay',
			'spiffe://example.org/ns/pay/',
			'spiffe://example.org/a\0b',
			'spiffe://example.org/a\nb',
			'spiffe://example.org/a,URI:spiffe://example.org/b',
			'spiffe://example.org/a"',
			'spiffe://user@example.org/a',
			'spiffe://example.org:1/a',
			'spiffe://example.org/a?x',
			'spiffe://example.org/a#x',
			'spiffe:///a',
			'spiffe:a',
			'spiffe://example.org/\xe4',
			`spiffe://example.org/${'a'.repeat(2048)}`,
		];
		for (const name of spiffe) assert.equal(reasonOf(read('spiffe', name)), 'malformed name in the certificate', name);
		const hosts = [
			'',
			'.',
			'a..b',
			'.a',
			'a b',
			'a\0.b',
			'a,b',
			'a/b',
			'a.*.b',
			'a*',
			'-a',
			'a:1',
			'\xe4',
			'a'.repeat(64),
		];
		for (const name of hosts) assert.equal(reasonOf(read('dns', name)), 'malformed name in the certificate', name);
	});

	it('do not matter to patterns about other kinds', () => {
		const odd = { uris: ['https://x/%'], dns: ['a b'], commonNames: ['x'] };
		assert.deepEqual(namesOfKind('spiffe', odd), []);
		assert.deepEqual(namesOfKind('cn', odd), [['x']]);
	});

	it('are a SPIFFE ID with another URI, and several common names', () => {
		const none = { uris: [], dns: [], commonNames: [] };
		for (const other of ['spiffe://b/x', 'https://b/']) {
			assert.equal(
				reasonOf(namesOfKind('spiffe', { ...none, uris: ['spiffe://a/x', other] })),
				'several URIs in the certificate',
			);
		}
		assert.deepEqual(namesOfKind('spiffe', { ...none, uris: ['https://a/', 'https://b/'] }), []);
		assert.equal(
			reasonOf(namesOfKind('cn', { ...none, commonNames: ['a', 'b'] })),
			'several common names in the certificate',
		);
	});
});

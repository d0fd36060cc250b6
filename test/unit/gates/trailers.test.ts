import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { fateOf } from '../../../packages/proxy/src/gates/field-kinds.ts';
import {
	announcedNames,
	mayBeTrailer,
	namesOf,
	passableTrailers,
	withoutNamed,
} from '../../../packages/proxy/src/gates/trailers.ts';

/** One of each category of RFC 9110 section 6.5.1, and what only the proxy says. */
const NEVER = [
	...[
		'transfer-encoding',
		'content-length',
		'te',
		'trailer',
		'connection',
		'keep-alive',
		'upgrade',
		'proxy-connection',
	],
	...['host', 'max-forwards', 'via', 'forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'],
	...['x-real-ip', 'x-original-url', 'x-rewrite-url', 'x-http-method-override', 'script-name', 'path-info'],
	...['authorization', 'proxy-authorization', 'www-authenticate', 'proxy-authenticate', 'cookie', 'set-cookie'],
	...['x-proxy-tenant', 'x-proxy-anything', 'client-cert', 'client-cert-chain', 'x-forwarded-client-cert'],
	...['expect', 'range', 'if-match', 'if-none-match', 'accept', 'accept-encoding', 'prefer', 'pragma'],
	...['age', 'cache-control', 'date', 'expires', 'location', 'retry-after', 'vary', 'warning', 'ratelimit'],
	...['content-type', 'content-encoding', 'content-range', 'content-location', 'content-security-policy'],
	...['traceparent', 'tracestate', 'x-request-id', 'sec-fetch-site', 'access-control-allow-origin', 'status'],
];

const ALWAYS = [
	...['grpc-status', 'grpc-message', 'grpc-status-details-bin', 'grpc-retry-pushback-ms', 'endpoint-load-metrics-bin'],
	...['x-custom', 'my_key', 'trace-proto-bin', 'a.b', 'etag', 'server-timing', 'x-checksum', 'x-late', 'signature'],
	...['content-digest', 'repr-digest', 'digest', 'x-amz-checksum-crc32'],
];

describe('a trailer', () => {
	it('passes unless a field of that name belongs into a head', () => {
		assert.deepEqual(ALWAYS.filter(mayBeTrailer), ALWAYS);
		assert.deepEqual(NEVER.filter(mayBeTrailer), []);
	});

	it('is dropped in each spelling that a reader could mistake for such a name', () => {
		for (const separator of ['_', '.', '!', "'", '~']) {
			const spelled = NEVER.filter((name) => name.includes('-')).map((name) => name.replaceAll('-', separator));
			assert.deepEqual(spelled.filter(mayBeTrailer), [], separator);
		}
	});

	it('is dropped if its name is invalid: control data, upper case, blanks', () => {
		assert.deepEqual([':protocol', ':path', 'X-A', 'x a', '', 'x:'].filter(mayBeTrailer), []);
	});

	it('never has a name that the client could not have sent as a field', () => {
		const word = fc.constantFrom(...NEVER, ...ALWAYS).map((name) => name.split('-'));
		const name = fc
			.tuple(word, fc.constantFrom('-', '_', '.'), fc.constantFrom('', '', 'x-', 'x_'))
			.map(([words, separator, before]) => before + words.join(separator));
		fc.assert(
			fc.property(name, (text) => {
				for (const apart of ['none', 'trace', 'trace and request'] as const) {
					if (fateOf(text, undefined, apart) !== 'forwarded') assert.equal(mayBeTrailer(text), false, text);
				}
			}),
			{ numRuns: 3000 },
		);
	});
});

describe('trailers', () => {
	it('lose the forbidden ones, and keep the others in order, with duplicates', () => {
		const mixed = ['x-a', '1', 'host', 'evil', 'x-b', '', 'x-a', '2', 'content_length', '5'];
		assert.deepEqual(passableTrailers(mixed), ['x-a', '1', 'x-b', '', 'x-a', '2']);
	});

	it('stay the same list if all may pass, and are absent if none may', () => {
		const all = ['grpc-status', '0', 'grpc-message', ''];
		assert.equal(passableTrailers(all), all);
		assert.equal(passableTrailers(['host', 'a', 'te', 'trailers']), undefined);
	});

	it('lose those that Connection names (RFC 9110 section 7.6.1)', () => {
		const trailers = ['x-a', '1', 'x-b', '2'];
		assert.deepEqual(withoutNamed(trailers, new Set(['close', 'x-a'])), ['x-b', '2']);
		assert.equal(withoutNamed(trailers, undefined), trailers);
		assert.equal(withoutNamed(undefined, new Set(['x-a'])), undefined);
		assert.equal(withoutNamed(['x-a', '1'], new Set(['x-a'])), undefined);
	});

	it('are announced by their names, each once, of those that may pass', () => {
		assert.equal(announcedNames(''), '');
		assert.equal(announcedNames('X-Sum, content-length ,x-b, x-sum,, X Y, a:b'), 'x-sum, x-b');
		assert.equal(namesOf(['x-a', '1', 'x-b', '2', 'x-a', '3']), 'x-a, x-b');
	});
});

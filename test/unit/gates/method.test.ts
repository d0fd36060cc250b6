import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BAD_REQUEST, METHOD_NOT_IMPLEMENTED } from '../../../packages/gate/src/gates/rejection.ts';
import { refuseMethod } from '../../../packages/proxy/src/gates/method.ts';
import { assertRefusal } from '../../fixtures/refusal.ts';

describe('a method', () => {
	it('passes if the HTTP/1.1 parser reads it: otherwise it would pass over HTTP/2 only', () => {
		for (const method of METHODS) assert.equal(refuseMethod(method), undefined, method);
	});

	it('is refused with 501 if it is not on the list', () => {
		for (const method of ['FOO', 'PRI', 'get', 'GETX', 'GE', 'A'.repeat(9999)]) {
			assert.equal(refuseMethod(method), METHOD_NOT_IMPLEMENTED, method);
		}
	});

	it('is refused with 400 if it is not a token', () => {
		for (const method of ['', 'G T', 'GET\n', 'G\x80', 'G/']) {
			assertRefusal(refuseMethod(method), BAD_REQUEST, JSON.stringify(method), 'malformed method');
		}
	});

	it('is checked against the same list for both protocols', () => {
		const known = new Set(METHODS);
		const bytes = fc.array(fc.integer({ min: 0, max: 255 }), { maxLength: 12 });
		fc.assert(
			fc.property(
				fc.oneof(
					bytes,
					fc.constantFrom(...METHODS).map((method) => [...Buffer.from(method)]),
				),
				(codes) => {
					const method = String.fromCharCode(...codes);
					const isToken = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method);
					if (known.has(method)) assert.equal(refuseMethod(method), undefined);
					else assertRefusal(refuseMethod(method), isToken ? METHOD_NOT_IMPLEMENTED : BAD_REQUEST);
				},
			),
		);
	});
});

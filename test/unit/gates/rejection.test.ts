import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as table from '../../../packages/gate/src/gates/rejection.ts';

/** Bodies and headers of the proxy's own responses, word for word. */
const CONTRACT: Record<string, { status: number; body: string; headers?: string[] }> = {
	TOKEN_MISSING: { status: 401, body: 'unauthorized', headers: ['www-authenticate', 'Bearer'] },
	TOKEN_INVALID: { status: 401, body: 'unauthorized', headers: ['www-authenticate', 'Bearer'] },
	RATE_LIMITED: { status: 429, body: 'rate limited', headers: ['retry-after', '1'] },
	BAD_PATH: { status: 400, body: 'bad path' },
	BODY_ERROR: { status: 400, body: 'body error' },
	CERTIFICATE_FORBIDDEN: { status: 403, body: 'forbidden', headers: [] },
	TENANT_FORBIDDEN: { status: 403, body: 'forbidden', headers: [] },
	INSUFFICIENT_SCOPE: {
		status: 403,
		body: 'insufficient scope',
		headers: ['www-authenticate', 'Bearer error="insufficient_scope"'],
	},
	NO_ROUTE: { status: 404, body: 'no route' },
	METHOD_NOT_ALLOWED: { status: 405, body: 'method not allowed' },
	SLOW_CLIENT: { status: 408, body: 'slow client' },
	PAYLOAD_TOO_LARGE: { status: 413, body: 'payload too large' },
	HEADERS_TOO_LARGE: { status: 431, body: 'headers too large' },
	UPGRADE_UNSUPPORTED: { status: 501, body: 'protocol upgrades are not supported' },
	METHOD_NOT_IMPLEMENTED: { status: 501, body: 'method not implemented' },
	BAD_GATEWAY: { status: 502, body: 'bad gateway' },
	UPSTREAM_UNAVAILABLE: { status: 503, body: 'upstream unavailable' },
	OVERLOADED: { status: 503, body: 'overloaded', headers: ['retry-after', '1'] },
	UPSTREAM_TIMEOUT: { status: 504, body: 'upstream timeout' },
	INTERNAL_ERROR: { status: 500, body: 'internal error' },
};

const rejections: [string, table.Rejection][] = Object.entries(table).flatMap(([name, value]) =>
	value instanceof table.Rejection ? [[name, value]] : [],
);

describe('the table of refusals', () => {
	for (const [name, { status, body, headers }] of Object.entries(CONTRACT)) {
		it(`answers ${status} "${body}" for ${name}`, () => {
			const rejection = new Map(rejections).get(name);
			assert.ok(rejection, 'is not in the table');
			assert.equal(rejection.status, status);
			assert.equal(rejection.body, body);
			if (headers !== undefined) assert.deepEqual(rejection.headers, headers);
		});
	}

	it('gives every refusal a unique code', () => {
		assert.equal(new Set(rejections.map(([, { code }]) => code)).size, rejections.length);
	});

	it('has texts that fit on one line of ASCII, so their length in bytes is their length', () => {
		for (const [name, { body, headers }] of rejections) {
			for (const text of [body, ...headers]) assert.match(text, /^[\x20-\x7e]+$/, name);
			assert.equal(headers.length % 2, 0, name);
		}
	});

	it('closes the connection if the end of the request is in doubt', () => {
		const closing = rejections.filter(([, { closes }]) => closes).map(([name]) => name);
		for (const name of [
			'BAD_REQUEST',
			'BODY_ERROR',
			'SLOW_CLIENT',
			'PAYLOAD_TOO_LARGE',
			'HEADERS_TOO_LARGE',
			'METHOD_NOT_IMPLEMENTED',
		]) {
			assert.ok(closing.includes(name), name);
		}
	});

	it('is immutable', () => {
		for (const [, rejection] of rejections) assert.ok(Object.isFrozen(rejection));
	});
});

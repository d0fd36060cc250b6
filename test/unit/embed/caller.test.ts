import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { authorizationIn, authorizationOf } from '../../../packages/gate/src/embed/caller.ts';

describe('authorizationIn', () => {
	it('finds the header in any spelling, or nothing', () => {
		assert.equal(authorizationIn(['Host', 'a', 'AUTHORIZATION', 'b']), 'b');
		assert.equal(authorizationIn(['Host', 'authorization', 'x-authorization', 'b']), undefined);
		assert.equal(authorizationIn([]), undefined);
	});

	it('shows every value of a header that came more than once', () => {
		assert.deepEqual(authorizationIn(['authorization', 'a', 'Authorization', 'b']), ['a', 'b']);
		assert.deepEqual(authorizationIn(['authorization', 'a', 'authorization', '', 'authorization', 'c']), [
			'a',
			'',
			'c',
		]);
	});
});

describe('authorizationOf', () => {
	it('reads requests of node:http and node:http2, and web-standard ones, and shows two headers as what no gate admits', () => {
		assert.equal(authorizationOf({ rawHeaders: ['Authorization', 'a'] }), 'a');
		assert.deepEqual(authorizationOf({ rawHeaders: ['Authorization', 'a', 'authorization', 'b'] }), ['a', 'b']);
		const request = (...values: string[]) =>
			new Request('https://localhost', {
				headers: values.map((value) => ['Authorization', value] as [string, string]),
			});
		assert.equal(authorizationOf(request()), undefined);
		assert.equal(authorizationOf(request('a')), 'a');
		assert.equal(authorizationOf(request('a', 'b')), 'a, b');
	});

	it('refuses a value that is not a request', () => {
		for (const other of [{}, { headers: { authorization: 'a' } }, { rawHeaders: 'a' }, { headers: undefined }]) {
			assert.throws(() => authorizationOf(other as never), { code: 'ERR_GATE_REQUEST' });
		}
	});
});

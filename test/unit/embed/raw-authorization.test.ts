import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { authorizationIn } from '../../../src/embed/raw-authorization.ts';

describe('authorizationIn', () => {
	it('finds the header in any spelling, and nothing where there is none', () => {
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

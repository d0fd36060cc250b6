import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readScopes, SCOPE_TOKEN } from '../../../packages/gate/src/gates/scopes.ts';

describe('the scopes that a token grants', () => {
	const granted = (payload: Record<string, unknown>) => [...readScopes(payload)];

	it('are those of scope, as a text or as a list', () => {
		assert.deepEqual(granted({ scope: 'a b:read  c' }), ['a', 'b:read', 'c']);
		assert.deepEqual(granted({ scope: ['a', 'b:read'] }), ['a', 'b:read']);
	});

	it('are those of scp if there is no scope', () => {
		assert.deepEqual(granted({ scp: ['a', 'b'] }), ['a', 'b']);
		assert.deepEqual(granted({ scp: 'a b' }), ['a', 'b']);
		assert.deepEqual(granted({ scope: 'a', scp: 'b' }), ['a']);
		assert.deepEqual(granted({ scope: '', scp: 'b' }), []);
		assert.deepEqual(granted({ scope: null, scp: 'b' }), []);
	});

	it('are none of a claim in any other shape', () => {
		for (const scope of [1, true, null, { a: 1 }, ['a', 1], [['a']]])
			assert.deepEqual(granted({ scope }), [], `${scope}`);
		assert.deepEqual(granted({}), []);
	});

	it('are never split out of a list entry, or at another separator', () => {
		assert.equal(readScopes({ scope: ['a b'] }).has('a'), false);
		assert.equal(readScopes({ scope: 'a\tb,c' }).has('a'), false);
	});

	it('have names that a challenge can quote', () => {
		for (const name of ['a', 'billing:read', 'https://x/y', '~!']) assert.match(name, SCOPE_TOKEN);
		for (const name of ['', 'a b', 'a"', 'a\\', 'é', 'a\n']) assert.doesNotMatch(name, SCOPE_TOKEN);
	});
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectionCause, silenceCause } from '../../../packages/gate/src/words/causes.ts';

test('failed connections have names that operators know', () => {
	for (const [code, cause] of [
		['ECONNREFUSED', 'connection refused'],
		['ECONNRESET', 'connection reset'],
		['ENOTFOUND', 'no such host'],
		['EHOSTUNREACH', 'no route to host'],
		['EMFILE', 'no file descriptor left'],
		['ESOMETHING', 'connection failed (ESOMETHING)'],
	] as const) {
		assert.equal(connectionCause(Object.assign(new Error('x'), { code })), cause);
	}
	assert.equal(connectionCause(new Error('never shown: it may hold anything')), 'connection failed (without a code)');
});

test('silence is stated in seconds', () => {
	assert.equal(silenceCause('response', 30_000), 'no response within 30 s');
	assert.equal(silenceCause('connection', 250), 'no connection within 0.25 s');
});

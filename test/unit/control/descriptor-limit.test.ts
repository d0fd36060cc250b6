import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectionsFor, openFilesLimit, parseProcLimits } from '../../../src/control/descriptor-limit.ts';

const PROC_LIMITS = `Limit                     Soft Limit           Hard Limit           Units     
Max processes             63448                63448                processes 
Max open files            20000                524288               files     
Max locked memory         8388608              8388608              bytes     
`;

test('half of the descriptors that are not reserved are for clients, the other half for upstreams', () => {
	assert.equal(connectionsFor(20_000, 2), (20_000 - 256 - 64) / 2);
});

test('without a limit of the system there is one all the same', () => {
	assert.equal(connectionsFor(Number.POSITIVE_INFINITY, 1), (1_000_000 - 256 - 32) / 2);
});

test('a tiny limit still leaves room for some clients', () => {
	assert.equal(connectionsFor(64, 8), 16);
});

test('the soft limit is the one that counts', () => {
	assert.equal(parseProcLimits(PROC_LIMITS), 20_000);
	assert.equal(parseProcLimits(PROC_LIMITS.replace('20000 ', 'unlimited ')), Number.POSITIVE_INFINITY);
});

test('this process has a limit, and it is a number', () => {
	assert.ok(openFilesLimit() > 0);
});

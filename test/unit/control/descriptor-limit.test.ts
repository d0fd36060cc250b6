import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	assertEnoughFiles,
	connectionsFor,
	openFilesLimit,
	parseProcLimits,
} from '../../../packages/proxy/src/control/descriptor-limit.ts';

const PROC_LIMITS = `Limit                     Soft Limit           Hard Limit           Units     
Max processes             63448                63448                processes 
Max open files            20000                524288               files     
Max locked memory         8388608              8388608              bytes     
`;

test('half of the descriptors that are not reserved are for clients, the other half for upstreams', () => {
	assert.equal(connectionsFor(20_000, 2), (20_000 - 256 - 64) / 2);
});

test('an unlimited number of descriptors is treated as a finite one', () => {
	assert.equal(connectionsFor(Number.POSITIVE_INFINITY, 1), (1_000_000 - 256 - 32) / 2);
});

test('a tiny limit still leaves room for some clients', () => {
	assert.equal(connectionsFor(64, 8), 16);
});

test('what a start needs grows with the workers, and less is refused with the remedy', () => {
	for (const [files, workers] of [
		[40, 1],
		[48, 2],
		[96, 8],
		[Number.POSITIVE_INFINITY, 256],
	] as const) {
		assert.doesNotThrow(() => assertEnoughFiles(files, workers));
	}
	assert.throws(() => assertEnoughFiles(39, 1), {
		name: 'StartError',
		message:
			'the open-file limit is 39, and with 1 worker the proxy needs at least 40; raise it (ulimit -n, LimitNOFILE)',
	});
	assert.throws(() => assertEnoughFiles(95, 8), /with 8 workers the proxy needs at least 96/);
});

test('the soft limit is the one that counts', () => {
	assert.equal(parseProcLimits(PROC_LIMITS), 20_000);
	assert.equal(parseProcLimits(PROC_LIMITS.replace('20000 ', 'unlimited ')), Number.POSITIVE_INFINITY);
});

test('this process has a limit, and it is a number', () => {
	assert.ok(openFilesLimit() > 0);
});

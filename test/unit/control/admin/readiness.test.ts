import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Readiness } from '../../../../packages/proxy/src/control/admin/readiness.ts';

const READY = { listening: () => 1, awaited: () => [], issuers: () => [], remark: () => undefined };

test('lasts from the end of the start to the first signal, while a worker accepts connections', () => {
	let listening = 2;
	const readiness = new Readiness({ ...READY, listening: () => listening });
	assert.equal(readiness.obstacle, 'starting', 'even if a worker already accepts connections');
	readiness.serving();
	assert.equal(readiness.obstacle, undefined);
	listening = 1;
	assert.equal(readiness.obstacle, undefined);
	listening = 0;
	assert.equal(readiness.obstacle, 'no worker accepts connections');
	listening = 2;
	assert.equal(readiness.obstacle, undefined, 'they have been replaced');
	readiness.stopping();
	assert.equal(readiness.obstacle, 'shutting down', 'though all still accept connections');
});

test('readiness waits for the first keys of each issuer whose keys come over the network', () => {
	const awaited = new Set(['https://a.test', 'https://b.test']);
	const readiness = new Readiness({ ...READY, awaited: () => awaited });
	readiness.serving();
	assert.equal(readiness.obstacle, 'no keys of https://a.test yet');
	awaited.delete('https://a.test');
	assert.equal(readiness.obstacle, 'no keys of https://b.test yet');
	awaited.clear();
	assert.equal(readiness.obstacle, undefined);
});

test('needs the keys of one issuer; the others are a remark', () => {
	const keys = { named: false, keys: [] };
	const first = { issuer: 'https://a.test', keys: undefined as typeof keys | undefined };
	const second = { issuer: 'https://b.test', keys: undefined as typeof keys | undefined };
	let besides: string | undefined = 'limits: store away';
	const readiness = new Readiness({ ...READY, issuers: () => [first, second], remark: () => besides });
	readiness.serving();
	assert.deepEqual([readiness.obstacle, readiness.remark], ['no keys of https://a.test', besides]);
	first.keys = keys;
	assert.deepEqual([readiness.obstacle, readiness.remark], [undefined, `no keys of https://b.test; ${besides}`]);
	besides = undefined;
	assert.equal(readiness.remark, 'no keys of https://b.test');
	second.keys = keys;
	assert.deepEqual([readiness.obstacle, readiness.remark], [undefined, undefined]);
});

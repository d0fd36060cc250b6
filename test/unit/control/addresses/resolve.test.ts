/** What is asked of a real name server, and what is made of its answers. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { resolveName } from '../../../../src/control/addresses/resolve.ts';
import { startDnsServer } from '../../../fixtures/dns-server.ts';

const server = await startDnsServer(7);
after(() => server[Symbol.asyncDispose]());

const ask = (host: string, asked: string | null = server.authority) =>
	resolveName(
		{ authority: `${host}:80`, host, port: 80, server: asked ?? undefined, refreshMs: 1_000 },
		AbortSignal.timeout(30_000),
	);

describe('a name', () => {
	test('has the addresses of both families, and the TTL of its records', async () => {
		server.names.set('both.test', ['10.0.0.1', '10.0.0.2', 'fd00::1']);
		assert.deepEqual(await ask('both.test'), { addresses: ['10.0.0.1', '10.0.0.2', 'fd00::1'], ttlMs: 7_000 });
	});

	test('may have addresses of one family alone', async () => {
		server.names.set('four.test', ['10.0.0.1']);
		server.names.set('six.test', ['fd00::1']);
		assert.deepEqual((await ask('four.test')).addresses, ['10.0.0.1']);
		assert.deepEqual((await ask('six.test')).addresses, ['fd00::1']);
	});

	test('without addresses, or of which the server cannot say, is a failure with its cause', async () => {
		server.names.set('empty.test', []);
		server.names.set('broken.test', undefined);
		await assert.rejects(ask('empty.test'), /^Error: the name has no addresses$/);
		await assert.rejects(ask('nobody.test'), /^Error: the name has no addresses$/);
		await assert.rejects(ask('broken.test'), /^Error: the name server has failed \(SERVFAIL\)$/);
	});

	test('may be known to the machine alone: then nobody says for how long', async () => {
		const { addresses, ttlMs } = await ask('localhost', null);
		assert.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'), addresses.join());
		assert.ok(ttlMs === undefined || ttlMs >= 0);
	});
});

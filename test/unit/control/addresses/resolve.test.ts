/** What is asked of a real name server, and what is made of its answers. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import {
	hostsFileAddresses,
	resolveName,
	resolveWith,
} from '../../../../packages/proxy/src/control/addresses/resolve.ts';
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

	test('may have addresses of only one family', async () => {
		server.names.set('four.test', ['10.0.0.1']);
		server.names.set('six.test', ['fd00::1']);
		assert.deepEqual((await ask('four.test')).addresses, ['10.0.0.1']);
		assert.deepEqual((await ask('six.test')).addresses, ['fd00::1']);
	});

	test('a name without addresses, and an error of the DNS server, is a failure with its cause', async () => {
		server.names.set('empty.test', []);
		server.names.set('broken.test', undefined);
		await assert.rejects(ask('empty.test'), /^Error: the name has no addresses$/);
		await assert.rejects(ask('nobody.test'), /^Error: the name has no addresses$/);
		await assert.rejects(ask('broken.test'), /^Error: the name server has failed \(SERVFAIL\)$/);
	});

	test('a name that is no longer needed is not looked up, however slow the hosts file is', async () => {
		server.names.set('late.test', ['10.0.0.1']);
		const { asked } = server;
		const source = { host: 'late.test', server: server.authority };
		await assert.rejects(resolveWith('/etc/hosts', source, AbortSignal.abort()));
		assert.equal(server.asked, asked);
	});

	test('may be known only to the machine: then the TTL is unknown', async () => {
		const { addresses, ttlMs } = await ask('localhost', null);
		assert.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'), addresses.join());
		assert.ok(ttlMs === undefined || ttlMs >= 0);
	});

	test('a name in the hosts file is found before DNS, even without a name server', async () => {
		const folder = mkdtempSync(join(tmpdir(), 'proxy-hosts-'));
		after(() => rmSync(folder, { recursive: true }));
		const path = join(folder, 'hosts');
		writeFileSync(path, '10.9.0.1 Pinned.Test alias\nfd00::9\tpinned.test # pinned.test\n');
		const ask = (asked?: string) =>
			resolveWith(path, { host: 'pinned.test', server: asked }, AbortSignal.timeout(30_000));
		assert.deepEqual(await ask(), { addresses: ['10.9.0.1', 'fd00::9'], ttlMs: undefined });
		server.names.set('pinned.test', ['10.0.0.1']);
		assert.deepEqual((await ask(server.authority)).addresses, ['10.0.0.1'], 'nobody but the server that is named');
	});
});

test('a file of hosts is read as hosts(5) says', () => {
	const text = [
		'# 10.0.0.1 web',
		'10.0.0.2\tweb.test  WEB # a comment with other',
		'  fd00::2 web',
		'not-an-address web',
		'10.0.0.3',
		'10.0.0.4 webserver web.test.\r',
		'10.0.0.5 last\r',
	].join('\n');
	assert.deepEqual(hostsFileAddresses(text, 'web'), ['10.0.0.2', 'fd00::2']);
	assert.deepEqual(hostsFileAddresses(text, 'web.test'), ['10.0.0.2']);
	assert.deepEqual(
		hostsFileAddresses(text, 'web.test.'),
		['10.0.0.4'],
		'a name with a dot is another text, as for libc',
	);
	assert.deepEqual(hostsFileAddresses(text, 'last'), ['10.0.0.5']);
	assert.deepEqual(hostsFileAddresses(text, 'other'), []);
	assert.deepEqual(hostsFileAddresses('', 'web'), []);
});

/** An upstream whose addresses come from DNS, over the real command. The body mode has no effect on it. */
import { deepEqual, equal } from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { Snapshot } from '../../packages/proxy/src/control/status/problems.ts';
import { PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { startDnsServer } from '../fixtures/dns-server.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const NAME = 'billing.test';

/** One listener for all loopback addresses: it says which of them it was asked on, and by which name. */
const server = createServer(({ socket, headers, url }, response) => {
	if (url === '/health') probed.add(headers.host!);
	else if (url === '/held') return void held.push(socket);
	else seen.push(`${socket.localAddress} ${headers.host}`);
	response.end();
});
const seen: string[] = [];
/** Connections of requests that get no answer. */
const held: Socket[] = [];
/** `Host` of health probes. */
const probed = new Set<string>();
await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
const { port } = server.address() as AddressInfo;
const dns = await startDnsServer(1);
dns.names.set(NAME, ['127.0.1.1', '127.0.1.2']);
const proxy = await startProxy({
	config: { health_interval_secs: 3600 },
	upstreams: [{ name: 'billing', dns: `${NAME}:${port}`, dns_server: dns.authority, dns_refresh_secs: 0.5 }],
	routes: [{ prefix: '/', upstream: 'billing', failures: 100 }],
});
after(async () => {
	await proxy[Symbol.asyncDispose]();
	await dns[Symbol.asyncDispose]();
	server.close();
});

/** Which of the addresses some requests have met. */
async function met(protocol: Protocol): Promise<string[]> {
	seen.length = 0;
	for (let i = 0; i < 16; i++) equal((await request(protocol, proxy)).status, 200);
	return [...new Set(seen)].sort();
}

/** Waits until requests meet these and no others: each thread has to have the new table. */
async function untilMet(protocol: Protocol, expected: readonly string[]): Promise<void> {
	let last: readonly string[] = [];
	const isMet = async () => {
		last = await met(protocol);
		return isDeepStrictEqual(last, expected);
	};
	await until(isMet, () => `${expected} to be met; it was ${last}`);
}

const host = `${NAME}:${port}`;

describe('an upstream with dns', () => {
	for (const protocol of PROTOCOLS) {
		test(`is served by all of its addresses, as the name that was asked for, over ${protocol}`, async () => {
			deepEqual(await met(protocol), [`127.0.1.1 ${host}`, `127.0.1.2 ${host}`]);
		});
	}

	test('follows what DNS says, and keeps the connections and the breaker of an address that stays', async () => {
		const changes = () => proxy.logs.filter(({ message }) => message === 'addresses of an upstream have changed');
		const underWay = [request('h1', proxy, { path: '/held' })];
		await until(() => held.length === 1, 'the first request');
		underWay.push(request('h2', proxy, { path: '/held' }));
		await until(() => held.length === 2, 'the second request');
		deepEqual(held.map(({ localAddress }) => localAddress).sort(), ['127.0.1.1', '127.0.1.2']);
		dns.names.set(NAME, ['127.0.1.2', '127.0.1.3']);
		const change = await until(() => changes()[1], 'the change');
		deepEqual(change.added, [`127.0.1.3:${port}`]);
		deepEqual(change.removed, [`127.0.1.1:${port}`]);
		await until(async () => !(await met('h2')).some((one) => one.startsWith('127.0.1.1 ')), 'the new table');
		// What fails by then goes to an address of now.
		for (const socket of held.splice(0)) socket.destroy();
		await until(() => held.length === 2, 'the two requests to be sent again');
		equal(held.map(({ localAddress }) => localAddress).includes('127.0.1.1'), false);
		for (const socket of held.splice(0)) socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
		for (const { status } of await Promise.all(underWay)) equal(status, 200);
		for (const protocol of PROTOCOLS) await untilMet(protocol, [`127.0.1.2 ${host}`, `127.0.1.3 ${host}`]);
		const opened = (upstream: string) => proxy.metric('proxy_circuit_transitions_total', { to: 'closed', upstream });
		equal(await opened(`127.0.1.2:${port}`), 1, 'proven once, at the start');
	});

	test('keeps the last addresses while the name server fails, and says so', async () => {
		dns.names.set(NAME, undefined);
		const kept = () => proxy.logs.find(({ message }) => message === 'addresses not resolved; keeping old');
		equal((await until(kept, 'the failure')).cause, 'the name server has failed (SERVFAIL)');
		deepEqual(await met('h2'), [`127.0.1.2 ${host}`, `127.0.1.3 ${host}`]);
		equal(await proxy.metric('proxy_dns_addresses', { group: 'billing' }), 2);
	});

	test('has no addresses if its name has none: 503, until it has some', async () => {
		proxy.writeConfig({
			config: { health_interval_secs: 3600 },
			upstreams: [
				// Only the look-up needs the dot.
				{ name: 'later', dns: `later.test.:${port}`, dns_server: dns.authority, dns_refresh_secs: 0.5 },
				{ name: 'site', addresses: [`127.0.1.9:${port}`] },
			],
			routes: [
				{ prefix: '/', upstream: 'later' },
				{ prefix: '/site', upstream: 'site', host: 'site.internal' },
			],
		});
		await proxy.reload();
		const { status, text } = await request('h1', proxy);
		deepEqual([status, text], [503, 'upstream unavailable']);
		const page = await fetch(`http://127.0.0.1:${proxy.metricsPort}/status.json`);
		const [name] = ((await page.json()) as Snapshot).dns;
		deepEqual(
			[name!.group, name!.routes, name!.addresses, name!.cause],
			['later', ['/'], 0, 'the name has no addresses'],
			'it is told of where no row of an address can be',
		);
		dns.names.set('later.test', ['127.0.1.1']);
		await until(async () => (await request('h2', proxy)).status === 200, 'the first address');
		deepEqual(await met('h1'), [`127.0.1.1 later.test:${port}`]);
		deepEqual([...probed], [host, 'site.internal', `later.test:${port}`], 'probes ask as requests do');
	});
});

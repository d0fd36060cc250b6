import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { type Connection, connect, connectTls, PROTOCOLS, request } from '../fixtures/clients.ts';
import { HAS_PROC, limitOpenFiles, openFiles } from '../fixtures/proc.ts';
import { type ProxyProcess, spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

const FAST_PROBES = { health_interval_secs: 0.1, tenant_rps: 0 };

/** Connections that do nothing, each with a descriptor, as many as the proxy lets in; three more are shed at once. */
async function occupy(proxy: ProxyProcess): Promise<TLSSocket[]> {
	const sockets: TLSSocket[] = [];
	for (let shed = 0; shed < 3; ) {
		await connectTls(proxy).then(
			(socket) => sockets.push(socket.on('error', () => {})),
			() => shed++,
		);
	}
	return sockets;
}

/** Waits until the proxy has noticed the end of all other connections; until then it may have no descriptor for a scrape. */
async function onlyLeft(proxy: ProxyProcess, count: number): Promise<void> {
	const connections = () => proxy.metric('proxy_connections').catch(() => 'no descriptor for the scrape');
	await until(async () => (await connections()) === count, `${count} connections to be left`);
}

const NEEDS_PROC = { skip: HAS_PROC ? false : 'prlimit and /proc' };

describe('without file descriptors to spare', NEEDS_PROC, () => {
	test('new connections are shed at once, those that are up are served, and it recovers by itself', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: FAST_PROBES,
			routes: [{ prefix: '/', upstream: upstream.url }],
			limits: { max_connections: 10_000 },
		});
		const live: Connection[] = await Promise.all([...PROTOCOLS, ...PROTOCOLS].map((one) => connect(one, proxy)));
		const served = async () => {
			// One after the other: what each needs upstream, the one before has left behind.
			for (const connection of live) {
				const { status, text } = await connection.request();
				assert.equal(`${status} ${text}`, '200 ok');
			}
		};
		await served();
		limitOpenFiles(proxy.pid, openFiles(proxy.pid) + 4);
		const occupied = await occupy(proxy);
		const crowd = await Promise.all(
			Array.from({ length: 20 }, () =>
				connect('h1', proxy).then(
					() => 'served',
					() => 'closed',
				),
			),
		);
		// A descriptor that comes free meanwhile (an idle upstream connection has aged, a probe has ended) lets one more in.
		const closed = crowd.filter((outcome) => outcome === 'closed').length;
		assert.ok(closed >= 10, `${closed} of 20 closed`);

		const warning = await proxy.waitForLog(({ message }) => /^health cannot be probed/.test(message));
		assert.deepEqual([warning.level, warning.cause], ['warn', 'EMFILE']);
		await served();
		assert.deepEqual(
			proxy.logs.filter(({ message }) => message === 'upstream is unhealthy'),
			[],
		);

		for (const socket of occupied) socket.destroy();
		await onlyLeft(proxy, live.length);
		const answer = () =>
			request('h1', proxy).then(
				({ status }) => status,
				() => 0,
			);
		await until(async () => (await answer()) === 200, 'a new connection to be served');
		assert.equal(await proxy.metric('proxy_circuit_state'), 0);
		await served();
		for (const connection of live) await connection.close();
	});

	test('a request that needs a new upstream connection gets 503 overloaded, and no breaker opens', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: FAST_PROBES,
			routes: [{ prefix: '/', upstream: upstream.url }],
			limits: { max_connections: 10_000 },
		});
		await using h1 = await connect('h1', proxy);
		await using h2 = await connect('h2', proxy);
		limitOpenFiles(proxy.pid, openFiles(proxy.pid) + 2);
		const occupied = await occupy(proxy);
		for (const connection of [h1, h2]) {
			// Now and then a probe is through and has left its descriptor.
			const overloaded = async () => {
				const { status, text, headers } = await connection.request();
				assert.ok(status === 200 || `${status} ${text}` === '503 overloaded', `${status} ${text}`);
				return status === 503 && headers['retry-after'] === '1';
			};
			upstream.closeConnections();
			await until(overloaded, 'the refusal');
		}
		for (const socket of occupied) socket.destroy();
		await onlyLeft(proxy, 2);
		await until(async () => (await h1.request()).status === 200, 'it to be served again');
		assert.equal((await h2.request()).status, 200);
		assert.equal(await proxy.metric('proxy_circuit_state'), 0);
	});

	test('a limit of 64 is enough to start, and is the limit of connections where none is set', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: FAST_PROBES,
			routes: [{ prefix: '/', upstream: upstream.url }],
			launcher: ['prlimit', '--nofile=64:64'],
		});
		const sockets = await occupy(proxy);
		assert.ok(sockets.length > 4 && sockets.length <= 16, `${sockets.length} connections`);
		assert.ok(openFiles(proxy.pid) <= 64);
		for (const socket of sockets) socket.destroy();
		await until(async () => (await proxy.metric('proxy_connections')) === 0, 'all to be gone');
		for (const protocol of PROTOCOLS) assert.equal((await request(protocol, proxy)).status, 200);
		assert.equal(proxy.stderr, '');
	});

	test('a limit that is too low for a start ends it with one clear line', async () => {
		const proxy = await spawnProxy({ launcher: ['prlimit', '--nofile=28:28'] });
		assert.equal(await within(proxy.exited, 'the end'), 1);
		assert.match(proxy.stderr, /^proxy: [^\n]*EMFILE[^\n]*\n$/);
		await proxy.kill();
	});

	test('a limit of connections that the descriptors do not allow is warned of', async () => {
		await using proxy = await startProxy({
			launcher: ['prlimit', '--nofile=1000:1000'],
			limits: { max_connections: 900 },
		});
		const { level } = await proxy.waitForLog(({ message }) => /^limits\.max_connections is 900, but/.test(message));
		assert.equal(level, 'warn');
	});
});

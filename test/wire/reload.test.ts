import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type Connection, connect, connectTls, isAccepted, PROTOCOLS, request } from '../fixtures/clients.ts';
import { EchoUpstream, Load } from '../fixtures/load.ts';
import { type CertFiles, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type ConfigOverrides, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();

/** Probes come at the start, and where a reload needs one: none of them heals a breaker behind a test's back. */
const CONFIG = { health_interval_secs: 3600, default_cooldown_secs: 60, tenant_rps: 0 };

const TLS_DONE = 'mTLS config reloaded';
const TLS_FAILED = 'mTLS reload failed; keeping old';
const ROUTES_DONE = 'routing table reloaded';
const ROUTES_FAILED = 'route reload failed; keeping old table';

/** Serial numbers of the certificates that several new connections get to see, so that each worker is among them. */
async function servedSerials(proxy: ProxyProcess): Promise<string[]> {
	const sockets = await Promise.all(Array.from({ length: 8 }, () => connectTls(proxy)));
	const serials = sockets.map((socket) => socket.getPeerCertificate().serialNumber);
	for (const socket of sockets) socket.destroy();
	return [...new Set(serials)];
}

function filesOf(server: CertFiles): NonNullable<ConfigOverrides['tls']> {
	return { cert_path: server.certPath, key_path: server.keyPath };
}

/** A reload in which both halves succeed. */
async function reloaded(
	proxy: ProxyProcess,
	overrides: ConfigOverrides = {},
): Promise<{ tls: LogLine; routes: LogLine }> {
	proxy.writeConfig(overrides);
	const { tls, routes } = await proxy.reload();
	assert.deepEqual([tls.message, routes.message], [TLS_DONE, ROUTES_DONE], JSON.stringify([tls.cause, routes.cause]));
	return { tls, routes };
}

describe('a reload', () => {
	let upstream: Upstream;
	let other: Upstream;
	let proxy: ProxyProcess;
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		other = open.use(await startUpstream({ script: (exchange) => exchange.respond({ body: 'other' }) }));
		proxy = open.use(await startProxy({ config: CONFIG, routes: [{ prefix: '/', upstream: upstream.url }] }));
	});
	after(() => open.disposeAsync());
	beforeEach(async () => {
		upstream.script = (exchange) => exchange.respond({ body: 'ok' });
		await reloaded(proxy, { tls: filesOf(pki.server), routes: [{ prefix: '/', upstream: upstream.url }] });
	});

	test('shows the new certificate to new connections, and leaves those that are up as they are', async () => {
		const server = await pki.issueServer('renewed');
		await using h1 = await connect('h1', proxy);
		await using h2 = await connect('h2', proxy);
		await reloaded(proxy, { tls: filesOf(server) });
		assert.deepEqual(await servedSerials(proxy), [server.serialNumber]);
		for (const connection of [h1, h2]) {
			assert.equal((await connection.request()).status, 200);
			assert.equal(connection.socket.getPeerCertificate().serialNumber, pki.server.serialNumber);
		}
	});

	test('is what SIGHUP asks for, too, and the log says who did', async () => {
		for (const signal of ['SIGHUP', 'SIGUSR1'] as const) {
			const server = await pki.issueServer(signal);
			const after = proxy.logs.length;
			proxy.writeConfig({ tls: filesOf(server) });
			proxy.signal(signal);
			await proxy.waitForLog(ROUTES_DONE, undefined, after);
			const { level, signal: asked } = await proxy.waitForLog('reading the files again', undefined, after);
			assert.deepEqual([level, asked], ['info', signal]);
			assert.deepEqual(await servedSerials(proxy), [server.serialNumber]);
		}
	});

	for (const protocol of PROTOCOLS) {
		test(`adds, moves and removes routes, also for connections that are up (${protocol})`, async () => {
			await using connection = await connect(protocol, proxy);
			const answer = async (path: string) => (await connection.request({ path })).text;
			await reloaded(proxy, {
				routes: [
					{ prefix: '/', upstream: upstream.url },
					{ prefix: '/a', upstream: other.url },
				],
			});
			assert.deepEqual([await answer('/'), await answer('/a/x')], ['ok', 'other']);
			await reloaded(proxy, { routes: [{ prefix: '/a', upstream: upstream.url }] });
			assert.deepEqual([await answer('/'), await answer('/a/x')], ['no route', 'ok']);
			await reloaded(proxy, { routes: [] });
			assert.deepEqual([await answer('/'), await answer('/a/x')], ['no route', 'no route']);
		});

		test(`leaves requests in flight on the route that they were given (${protocol})`, async () => {
			const gate = Promise.withResolvers<void>();
			upstream.script = async (exchange) => {
				await gate.promise;
				exchange.respond({ body: 'late' });
			};
			const before = upstream.requests.length;
			await using connection = await connect(protocol, proxy);
			const answer = connection.request({ method: 'POST', body: 'x' });
			await upstream.request(before + 1, 'complete');
			await reloaded(proxy, { routes: [{ prefix: '/a', upstream: other.url }] });
			gate.resolve();
			const { status, text, ended } = await answer;
			assert.deepEqual([status, text, ended], [200, 'late', 'complete']);
			assert.equal((await connection.request()).status, 404);
		});
	}

	test('asked for fifty times at once ends with what the files say then', async () => {
		const done = await proxy.metric('proxy_reloads_total', { result: 'success' });
		const servers = await Promise.all(Array.from({ length: 5 }, (_, i) => pki.issueServer(`storm-${i}`)));
		const after = proxy.logs.length;
		for (let i = 0; i < 50; i++) {
			proxy.writeConfig({ tls: filesOf(servers[i % 5]!), routes: [{ prefix: `/${i}`, upstream: upstream.url }] });
			proxy.signal('SIGUSR1');
		}
		await until(
			async () => (await servedSerials(proxy)).join() === servers[4]!.serialNumber,
			'the last certificate, and no other, on all workers',
		);
		await until(async () => (await request('h1', proxy, { path: '/49' })).status === 200, 'the last routing table');
		const reloads = (await proxy.metric('proxy_reloads_total', { result: 'success' })) - done;
		assert.ok(reloads >= 1 && reloads <= 50, `${reloads} reloads`);
		const failures = proxy.logs.slice(after).filter(({ level }) => level === 'error');
		assert.deepEqual(failures, []);
	});
});

describe('a reload that fails', () => {
	let upstream: Upstream;
	let proxy: ProxyProcess;
	let live: Connection[];
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		proxy = open.use(await startProxy({ config: CONFIG, routes: [{ prefix: '/old', upstream: upstream.url }] }));
		live = await Promise.all([...PROTOCOLS, ...PROTOCOLS].map((protocol) => connect(protocol, proxy)));
		for (const connection of live) open.use(connection);
	});
	after(() => open.disposeAsync());

	const NEW_ROUTES = () => [{ prefix: '/new', upstream: upstream.url }];
	const restored = () =>
		reloaded(proxy, {
			tls: { ...filesOf(pki.server), client_ca_path: pki.caPath },
			routes: [{ prefix: '/old', upstream: upstream.url }],
		});

	/** Asserts that new and existing connections still use the old state, whose routing table has this path. */
	async function servesOn(path: '/old' | '/new'): Promise<void> {
		assert.deepEqual(await servedSerials(proxy), [pki.server.serialNumber]);
		const gone = path === '/old' ? '/new' : '/old';
		for (const connection of live) {
			assert.equal((await connection.request({ path })).status, 200);
			assert.equal((await connection.request({ path: gone })).status, 404);
		}
		for (const protocol of PROTOCOLS) assert.equal((await request(protocol, proxy, { path })).status, 200);
		assert.equal(await isAccepted(proxy, { cert: pki.clients.otherCa }), false, 'the CAs are the old ones, too');
	}

	async function failureCounted<T>(reload: () => Promise<T>): Promise<T> {
		const before = await proxy.metric('proxy_reloads_total', { result: 'failure' });
		const result = await reload();
		await until(
			async () => (await proxy.metric('proxy_reloads_total', { result: 'failure' })) === before + 1,
			'the failure to be counted',
		);
		return result;
	}

	const route = '[[routes]]\nprefix = "/new"\nupstream = "http://127.0.0.1:9"\n';
	/** unit/config and unit/control/files have all that may be wrong. */
	const configs: [what: string, break_: () => void, cause: RegExp][] = [
		['an unknown key', () => proxy.writeConfig(`colour = 1\n${route}`), /config\.toml:1: colour: unknown key/],
	];
	for (const [what, break_, cause] of configs) {
		test(`a reload with ${what} keeps certificate and routes, and logs both causes`, async () => {
			const generation = await proxy.metric('proxy_config_generation');
			break_();
			const { tls, routes } = await failureCounted(() => proxy.reload());
			assert.deepEqual([tls.message, tls.level, tls.generation], [TLS_FAILED, 'error', generation]);
			assert.deepEqual([routes.message, routes.level, routes.generation], [ROUTES_FAILED, 'error', generation]);
			for (const line of [tls, routes]) assert.match(String(line.cause), cause);
			await servesOn('/old');
			assert.equal(await proxy.metric('proxy_config_generation'), generation);
			await restored();
		});
	}

	const tls: [what: string, tls: () => Promise<NonNullable<ConfigOverrides['tls']>>, cause: RegExp][] = [
		[
			'a key that does not fit the certificate',
			async () => ({ cert_path: (await pki.issueServer('misfit')).certPath }),
			/tls\.key_path \(.*\): the key does not match the first certificate of tls\.cert_path/,
		],
		[
			'no CA at all',
			async () => ({ client_ca_path: pki.writeFile('none.crt', '') }),
			/tls\.client_ca_path .*contains no/,
		],
	];
	for (const [what, files, cause] of tls) {
		test(`a reload with ${what} keeps the certificate, and applies the routes`, async () => {
			const generation = await proxy.metric('proxy_config_generation');
			// With it everything that is all right: none of the files may be taken over without the others.
			const renewed = await pki.issueServer('renewed');
			proxy.writeConfig({
				tls: { ...filesOf(renewed), client_ca_path: pki.otherCaPath, ...(await files()) },
				routes: NEW_ROUTES(),
			});
			const { tls, routes } = await failureCounted(() => proxy.reload());
			assert.deepEqual([tls.message, tls.level, tls.generation], [TLS_FAILED, 'error', generation]);
			assert.match(String(tls.cause), cause);
			assert.deepEqual([routes.message, routes.generation], [ROUTES_DONE, generation + 1]);
			await servesOn('/new');
			await restored();
		});
	}

	test('keeps every open connection over all reloads', () => {
		for (const { socket } of live) assert.equal(socket.destroyed, false);
		assert.equal(proxy.stderr, '');
	});
});

describe('reloads under load', () => {
	test('lose no request and drop no connection, and each is in force when it says so', async () => {
		await using first = await EchoUpstream.start();
		await using second = await EchoUpstream.start();
		const servers = await Promise.all(['odd', 'even'].map((name) => pki.issueServer(name)));
		await using proxy = await startProxy({
			config: { tenant_rps: 0 },
			routes: [{ prefix: '/', upstream: first.url }],
		});
		await using load = new Load(proxy, { h1: 8, h2: 3, streams: 8 });
		await load.answers(100);
		for (let i = 0; i < RELOADS; i++) {
			const server = servers[i % 2]!;
			const routes = [{ prefix: '/', upstream: (i % 2 === 0 ? second : first).url }];
			if (i % 3 === 0) routes.push({ prefix: '/1', upstream: first.url });
			await reloaded(proxy, { tls: filesOf(server), routes });
			assert.deepEqual(await servedSerials(proxy), [server.serialNumber]);
			await load.answers(50);
		}
		const { losses, connections, announced, disowned, refused, sent, answered } = await load.stop();
		assert.deepEqual(losses, []);
		assert.deepEqual(
			{ connections, announced, disowned, refused },
			{ connections: 11, announced: 0, disowned: 0, refused: 0 },
		);
		assert.equal(answered, sent);
		assert.equal(await proxy.metric('proxy_reloads_total', { result: 'success' }), RELOADS);
		assert.equal(
			await proxy.metric('proxy_requests_total', { status: '200' }),
			await proxy.metric('proxy_requests_total'),
		);
	});
});

/** The long form is `bench/reload-drain.ts`. */
const RELOADS = 8;

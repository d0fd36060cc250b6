import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type RouteEntry, renderConfig } from '../../../packages/proxy/src/cli/demo/config-file.ts';
import { type TestPki, testPki } from '../../fixtures/pki.ts';
import { portOf } from '../../fixtures/program.ts';
import { sampleSum } from '../../fixtures/prometheus.ts';
import { until } from '../../fixtures/wait.ts';
import { Supervised } from './fixtures/supervised.ts';

const WORKERS = process.platform === 'linux' ? 2 : 1;

let pki: TestPki;
let upstreamUrl: string;
const upstream = createServer((_, response) => response.end());

before(async () => {
	pki = await testPki();
	upstream.listen(0, '127.0.0.1');
	await once(upstream, 'listening');
	upstreamUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
});
after(() => {
	upstream.close();
	upstream.closeAllConnections();
});

interface Settings {
	readonly routes?: readonly RouteEntry[];
	readonly server?: { readonly certPath: string; readonly keyPath: string };
	readonly limits?: Record<string, number>;
}

/** Writes a configuration file; returns its path. */
function writeConfig(name: string, settings: Settings = {}): string {
	const { routes = [{ prefix: '/a', upstream: upstreamUrl }], server = pki.server, limits = {} } = settings;
	const tls = { cert_path: server.certPath, key_path: server.keyPath, client_ca_path: pki.caPath };
	return pki.writeFile(`${name}.toml`, renderConfig({ tls, jwt: { jwks_path: pki.publicKeyPath }, limits, routes }));
}

describe('the start', () => {
	test('ends with one line that says where it listens and what it serves', async () => {
		await using proxy = new Supervised(writeConfig('ready'), WORKERS);
		const { level, target, timestamp: _, bind, metrics_bind, ...ready } = await proxy.line('ready');
		assert.deepEqual([level, target], ['info', 'proxy']);
		assert.ok(portOf(bind) > 0 && portOf(metrics_bind) > 0);
		assert.deepEqual(ready, {
			message: 'ready',
			workers: WORKERS,
			body_mode: 'collected',
			routes: [{ prefix: '/a', upstream: upstreamUrl.slice('http://'.length) }],
			version: '0.1.0',
			generation: 1,
		});
		assert.equal((await proxy.askAll(WORKERS)).length, WORKERS);
	});

	test('lists at most 20 routes in that line, and then says how many there are', async () => {
		const routes = Array.from({ length: 21 }, (_, i) => ({ prefix: `/${i}`, upstream: upstreamUrl }));
		await using many = new Supervised(writeConfig('many', { routes }), 1);
		const ready = await many.line('ready');
		assert.deepEqual(
			(ready.routes as RouteEntry[]).map(({ prefix }) => prefix),
			routes.slice(0, 20).map(({ prefix }) => prefix),
		);
		assert.equal(ready.routes_total, 21);
		await using few = new Supervised(writeConfig('few', { routes: routes.slice(0, 20) }), 1);
		const { routes: listed, ...rest } = await few.line('ready');
		assert.equal((listed as RouteEntry[]).length, 20);
		assert.equal('routes_total' in rest, false);
	});

	test('opens the listener after the first verdict on every upstream', async () => {
		await using proxy = new Supervised(writeConfig('verdict'), 1);
		await proxy.line('ready');
		const metrics = await proxy.metrics();
		assert.equal(sampleSum(metrics, 'proxy_circuit_state'), 0);
		assert.equal(sampleSum(metrics, 'proxy_upstream_alive'), 1);
		assert.deepEqual(
			proxy.logs.map(({ message }) => message).filter((message) => /healthy|ready/.test(message)),
			['upstream is healthy', 'ready'],
		);
	});

	test('fails with one line if the port is taken, even by a listener that would share it', async () => {
		const taken = createTcpServer().listen({ host: '127.0.0.1', port: 0, reusePort: process.platform === 'linux' });
		await once(taken, 'listening');
		const { port } = taken.address() as AddressInfo;
		await using proxy = new Supervised(writeConfig('taken'), WORKERS, `127.0.0.1:${port}`);
		assert.equal(await proxy.ended(), 1);
		assert.match(proxy.stderr, /^cannot listen on 127\.0\.0\.1:\d+ \(--bind\): the address is in use [^\n]*\n$/);
		taken.close();
	});

	test('fails with one line where a file cannot be used', async () => {
		const server = { ...pki.server, keyPath: join(pki.dir, 'missing.key') };
		await using proxy = new Supervised(writeConfig('no-key', { server }), 1);
		assert.equal(await proxy.ended(), 1);
		assert.match(
			proxy.stderr,
			/^\S+no-key\.toml:\d+: tls\.key_path \(\S+missing\.key\): cannot be read: there is no such file\n$/,
		);
	});
});

describe('a reload', () => {
	test('reaches every worker', async () => {
		await using proxy = new Supervised(writeConfig('reload'), WORKERS);
		await proxy.line('ready');
		const server = await pki.issueServer('renewed');
		writeConfig('reload', { server, routes: [{ prefix: '/b', upstream: upstreamUrl }] });
		proxy.signal('SIGUSR1');
		assert.equal((await proxy.line('mTLS config reloaded')).generation, 2);
		assert.equal((await proxy.line('routing table reloaded')).generation, 2);
		for (const { cert, prefixes } of await proxy.askAll(WORKERS)) {
			assert.equal(cert, server.certPem);
			assert.deepEqual(prefixes, ['/b']);
		}
	});

	test('a reload of unreadable or slow files keeps the old material, and the metrics listener responds', async () => {
		await using proxy = new Supervised(writeConfig('special'), 1);
		await proxy.line('ready');
		const fifo = join(pki.dir, 'reload.fifo');
		const large = join(pki.dir, 'reload.large');
		if (process.platform !== 'win32') execFileSync('mkfifo', [fifo]);
		writeFileSync(large, Buffer.alloc(9 * 1024 * 1024));
		const cases: [path: string, reason: string][] = [
			[fifo, 'it is a FIFO, not a regular file'],
			[pki.dir, 'it is a directory'],
			['/dev/zero', 'it is a device, not a regular file'],
			[large, 'it is larger than 8 MiB'],
		];
		for (const [i, [certPath, reason]] of cases.entries()) {
			writeConfig('special', { server: { ...pki.server, certPath } });
			proxy.signal('SIGUSR1');
			const { cause } = await proxy.line('mTLS reload failed; keeping old', i + 1);
			assert.match(
				String(cause),
				new RegExp(`special\\.toml:\\d+: tls\\.cert_path \\(.*\\): cannot be read: ${reason}$`),
			);
			await proxy.line('routing table reloaded', i + 1);
			assert.equal(sampleSum(await proxy.metrics(), 'proxy_reloads_total', { result: 'failure' }), i + 1);
		}
		assert.equal((await proxy.ask()).cert, pki.server.certPem);
	});

	test('logs new warnings', async () => {
		await using proxy = new Supervised(writeConfig('doubts'), 1);
		await proxy.line('ready');
		writeConfig('doubts', { routes: [{ prefix: '/a/*', upstream: upstreamUrl }] });
		proxy.signal('SIGUSR1');
		await proxy.line('routing table reloaded');
		const warnings = proxy.logs.filter(({ level, target }) => level === 'warn' && target === 'proxy::reload');
		assert.ok(
			warnings.some(({ message }) =>
				/doubts\.toml:\d+: routes\[0\]\.prefix: "\/a\/\*" looks like a glob/.test(message),
			),
			JSON.stringify(warnings),
		);
	});

	test('a reload that one worker refuses is applied by none', async () => {
		await using proxy = new Supervised(writeConfig('refused'), WORKERS);
		await proxy.line('ready');
		writeConfig('refused', { routes: [{ prefix: '/refuse', upstream: upstreamUrl }] });
		proxy.signal('SIGUSR1');
		const { cause } = await proxy.line('route reload failed; keeping old table');
		assert.match(String(cause), /^worker \d refused: no such thing$/);
		for (const { prefixes } of await proxy.askAll(WORKERS)) assert.deepEqual(prefixes, ['/a']);
	});
});

describe('a worker that dies', () => {
	test('is replaced by one with the configuration in force, and its connections are no longer counted', async () => {
		await using proxy = new Supervised(writeConfig('dies'), 1);
		await proxy.line('ready');
		writeConfig('dies', { routes: [{ prefix: '/b', upstream: upstreamUrl }] });
		proxy.signal('SIGUSR1');
		await proxy.line('routing table reloaded');
		const { socket } = await proxy.ask();
		await until(
			async () => sampleSum(await proxy.metrics(), 'proxy_connections') === 1,
			'the connection to be counted',
		);
		socket.write('die\n');
		const death = await proxy.line('worker died; replacing it');
		assert.deepEqual([death.target, death.worker, death.cause], ['proxy::worker', 0, 'told to']);
		await proxy.line('worker replaced');
		assert.equal(sampleSum(await proxy.metrics(), 'proxy_connections'), 0);
		assert.deepEqual((await proxy.ask()).prefixes, ['/b']);
	});
});

describe('the drain', () => {
	test('waits for the workers, answers scrapes meanwhile, and ends with 0', async () => {
		await using proxy = new Supervised(writeConfig('drain'), WORKERS);
		const { socket } = await proxy.ask();
		socket.write('hold\n');
		await once(socket, 'data');
		proxy.signal('SIGTERM');
		await proxy.line('draining');
		assert.equal(sampleSum(await proxy.metrics(), 'proxy_connections'), 1);
		socket.destroy();
		await proxy.line('drained');
		assert.equal(await proxy.ended(), 0);
	});

	test('ends with 0 at its limit', async () => {
		await using proxy = new Supervised(writeConfig('limit', { limits: { shutdown_drain_secs: 0.05 } }), WORKERS);
		const { socket } = await proxy.ask();
		socket.write('hold\n');
		await once(socket, 'data');
		proxy.signal('SIGTERM');
		assert.equal(await proxy.ended(), 0);
		await proxy.line('drain limit reached; closing the remaining connections');
	});

	test('ends with 1 at the second signal', async () => {
		await using proxy = new Supervised(writeConfig('twice'), WORKERS);
		const { socket } = await proxy.ask();
		socket.write('hold\n');
		await once(socket, 'data');
		proxy.signal('SIGTERM');
		await proxy.line('draining');
		proxy.signal('SIGTERM');
		assert.equal(await proxy.ended(), 1);
	});
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type RouteEntry, renderConfig } from '../../../packages/proxy/src/cli/demo/config-file.ts';
import { type TestPki, testPki } from '../../fixtures/pki.ts';
import { sampleSum } from '../../fixtures/prometheus.ts';
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
}

/** Writes a configuration file; returns its path. */
function writeConfig(name: string, settings: Settings = {}): string {
	const { routes = [{ prefix: '/a', upstream: upstreamUrl }], server = pki.server } = settings;
	const tls = { cert_path: server.certPath, key_path: server.keyPath, client_ca_path: pki.caPath };
	return pki.writeFile(`${name}.toml`, renderConfig({ tls, jwt: { jwks_path: pki.publicKeyPath }, routes }));
}

describe('the start', () => {
	test('lists at most 20 routes in its line, and then says how many there are', async () => {
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
});

describe('a reload', () => {
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

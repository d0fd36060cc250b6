import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connectTls, request } from '../fixtures/clients.ts';
import { type CertFiles, type TestPki, temporaryFolder, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

let pki: TestPki;
let upstream: Upstream;
before(async () => {
	[pki, upstream] = await Promise.all([testPki(), startUpstream()]);
});
after(() => upstream.close());

/** The three files of `[tls]` in one folder, as they are mounted. */
function tlsIn(dir: string) {
	return { cert_path: join(dir, 'tls.crt'), key_path: join(dir, 'tls.key'), client_ca_path: join(dir, 'ca.crt') };
}

/** Writes the files in place, one after the other: for a moment certificate and key do not fit. */
function writeTls(dir: string, server: CertFiles): void {
	writeFileSync(join(dir, 'tls.crt'), server.certPem);
	writeFileSync(join(dir, 'tls.key'), server.keyPem);
	copyFileSync(pki.caPath, join(dir, 'ca.crt'));
}

function start(dir: string, reloadOnChange = true): Promise<ProxyProcess> {
	return startProxy({
		config: { health_interval_secs: 3600, health_timeout_secs: 15, tenant_rps: 0, reload_on_change: reloadOnChange },
		tls: tlsIn(dir),
		routes: [{ prefix: '/', upstream: upstream.url }],
	});
}

async function servedSerial(proxy: ProxyProcess): Promise<string> {
	const socket = await connectTls(proxy);
	const { serialNumber } = socket.getPeerCertificate();
	socket.destroy();
	return serialNumber;
}

/** Reloads so far, by result. Each step that causes one also asserts that there is no other. */
async function reloads(proxy: ProxyProcess): Promise<{ success: number; failure: number }> {
	const [success, failure] = await Promise.all(
		['success', 'failure'].map((result) => proxy.metric('proxy_reloads_total', { result })),
	);
	return { success: success!, failure: failure! };
}

/** Makes a change and waits for the reload that follows; resolves with what the log says has changed. */
async function reloadAfter(proxy: ProxyProcess, change: () => void): Promise<LogLine> {
	const { length } = proxy.logs;
	const before = await reloads(proxy);
	change();
	const line = await proxy.waitForLog('reading the files again', undefined, length);
	await until(async () => {
		const { success, failure } = await reloads(proxy);
		return success + failure > before.success + before.failure;
	}, 'the reload to be counted');
	return line;
}

describe('with reload_on_change', { concurrency: 4 }, () => {
	test('files that change in a row are one reload, in place and renamed over', async () => {
		const dir = temporaryFolder('watched');
		const first = await pki.issueServer('watched-1');
		writeTls(dir, first);
		await using proxy = await start(dir);
		await using unwatched = await start(dir, false);
		const second = await pki.issueServer('watched-2');
		const inPlace = await reloadAfter(proxy, () => writeTls(dir, second));
		assert.deepEqual([inPlace.level, inPlace.target], ['info', 'proxy::reload']);
		assert.deepEqual(inPlace.changed, Object.values(tlsIn(dir)));
		assert.deepEqual(await reloads(proxy), { success: 1, failure: 0 });
		assert.equal(await servedSerial(proxy), second.serialNumber);

		const third = await pki.issueServer('watched-3');
		const renamed = await reloadAfter(proxy, () => {
			proxy.writeConfig({ routes: [{ prefix: '/new', upstream: upstream.url }] });
			const staging = temporaryFolder('staging');
			writeTls(staging, third);
			for (const path of ['tls.key', 'ca.crt', 'tls.crt']) renameSync(join(staging, path), join(dir, path));
		});
		assert.deepEqual(renamed.changed, [proxy.configPath, ...Object.values(tlsIn(dir))]);
		assert.deepEqual(await reloads(proxy), { success: 2, failure: 0 });
		assert.equal(await servedSerial(proxy), third.serialNumber);
		assert.equal((await request('h1', proxy, { path: '/new' })).status, 200);

		assert.deepEqual(await reloads(unwatched), { success: 0, failure: 0 }, 'by default nothing is watched');
		assert.equal(await servedSerial(unwatched), first.serialNumber);
	});

	test('a folder that Kubernetes exchanges behind ..data is one reload, and a signal adds one', async () => {
		const dir = temporaryFolder('mounted');
		const publish = (version: string, server: CertFiles) => {
			mkdirSync(join(dir, version));
			writeTls(join(dir, version), server);
			symlinkSync(version, join(dir, '..data_tmp'));
			renameSync(join(dir, '..data_tmp'), join(dir, '..data'));
		};
		publish('..2026_1', await pki.issueServer('mounted-1'));
		for (const name of ['tls.crt', 'tls.key', 'ca.crt']) symlinkSync(join('..data', name), join(dir, name));
		await using proxy = await start(dir);

		const second = await pki.issueServer('mounted-2');
		const { changed } = await reloadAfter(proxy, () => publish('..2026_2', second));
		assert.deepEqual(changed, Object.values(tlsIn(dir)));
		assert.equal(await servedSerial(proxy), second.serialNumber);

		// What a signal has already had read is not read once more.
		const third = await pki.issueServer('mounted-3');
		publish('..2026_3', third);
		const { tls } = await proxy.reload();
		assert.equal(tls.message, 'mTLS config reloaded');
		const next = await reloadAfter(proxy, () => proxy.writeConfig({ routes: [] }));
		assert.deepEqual(next.changed, [proxy.configPath]);
		assert.equal(await servedSerial(proxy), third.serialNumber);
		assert.deepEqual(await reloads(proxy), { success: 3, failure: 0 });
	});
});

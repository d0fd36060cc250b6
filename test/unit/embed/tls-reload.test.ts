import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Reload } from '../../../packages/gate/src/embed/tls.ts';
import { connectTls, isAccepted, type Target } from '../../fixtures/clients.ts';
import { testPki } from '../../fixtures/pki.ts';
import { listening, ownFiles } from './mtls-server.ts';

describe('a reload', () => {
	it('a reload by SIGUSR1 is opt-in, because the signal belongs to the program', async () => {
		const before = process.listeners('SIGUSR1');
		await using _running = await listening();
		assert.deepEqual(process.listeners('SIGUSR1'), before);
		await assert.rejects(listening({ onReload: () => {} }), {
			code: 'ERR_TLS_OPTIONS',
			message: 'onReload is called only after a reload by signal; set reloadOnSignal: true, too',
		});
	});

	for (const http2 of [true, false]) {
		it(`is for new connections; open ones keep their certificates (http2: ${http2})`, async () => {
			const pki = await testPki();
			const paths = await ownFiles();
			await using running = await listening({ ...paths, http2 });
			const open = await connectTls(running);
			const renewed = await pki.issueServer('renewed');
			writeFileSync(paths.certPath, renewed.certPem);
			writeFileSync(paths.keyPath, renewed.keyPem);
			writeFileSync(paths.clientCaPath, pki.otherCa.certPem);
			assert.equal(running.server.reload(), 2);
			assert.equal(await isAccepted(running), false);
			assert.equal(await isAccepted(running, { cert: pki.clients.otherCa }), true);
			open.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
			assert.match(String((await once(open, 'data'))[0]), /^HTTP\/1\.1 200/);
			assert.equal(open.getPeerCertificate().serialNumber, pki.server.serialNumber);
			open.destroy();
		});
	}

	it('a failed reload of certificates changes nothing', async () => {
		const pki = await testPki();
		const paths = await ownFiles();
		await using running = await listening(paths);
		writeFileSync(paths.clientCaPath, '');
		assert.throws(() => running.server.reload(), { code: 'ERR_TLS_MATERIAL' });
		assert.equal(await isAccepted(running), true);
		assert.equal(await isAccepted(running, { cert: pki.clients.otherCa }), false);
		writeFileSync(paths.clientCaPath, pki.ca.certPem);
		assert.equal(running.server.reload(), 2);
	});

	it('a reload by SIGUSR1 reaches every server of the process and reports the outcome', async () => {
		const pki = await testPki();
		const [first, second, third] = [await ownFiles(), await ownFiles(), await ownFiles()];
		const told = [Promise.withResolvers<Reload>(), Promise.withResolvers<Reload>()] as const;
		await using one = await listening({ ...first, reloadOnSignal: true, onReload: told[0].resolve });
		await using _two = await listening({ ...second, reloadOnSignal: true, onReload: told[1].resolve });
		await using deaf = await listening({ ...third, reloadOnSignal: false, onReload: () => assert.fail() });
		const renewed = await pki.issueServer('renewed');
		for (const paths of [first, third]) {
			writeFileSync(paths.certPath, renewed.certPem);
			writeFileSync(paths.keyPath, renewed.keyPem);
		}
		writeFileSync(second.keyPath, 'no key');
		process.kill(process.pid, 'SIGUSR1');
		assert.deepEqual(await told[0].promise, { ok: true, generation: 2 });
		const failure = await told[1].promise;
		assert.ok(!failure.ok && failure.error.code === 'ERR_TLS_MATERIAL');
		assert.equal(await serialNumber(one), renewed.serialNumber);
		assert.equal(await serialNumber(deaf), pki.server.serialNumber);
	});

	it('SIGUSR1 after the last server has closed does not end the process', async () => {
		await (await listening({ reloadOnSignal: true })).server.drain();
		const heard = once(process, 'SIGUSR1');
		process.kill(process.pid, 'SIGUSR1');
		await heard;
	});

	it('a failed reload without a hook becomes a warning', async () => {
		const paths = await ownFiles();
		await using _running = await listening({ ...paths, reloadOnSignal: true });
		writeFileSync(paths.keyPath, 'no key');
		const warned = once(process, 'warning');
		process.kill(process.pid, 'SIGUSR1');
		assert.match((await warned)[0].message, /^mTLS reload failed; keeping old: .*server\.key/);
	});
});

async function serialNumber(target: Target): Promise<string> {
	const socket = await connectTls(target);
	const { serialNumber } = socket.getPeerCertificate();
	socket.destroy();
	return serialNumber;
}

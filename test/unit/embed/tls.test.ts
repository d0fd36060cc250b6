import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import express from 'express';
import { createMtlsServer, GateError, type MtlsServerOptions } from '../../../packages/gate/src/embed/tls.ts';
import { connectTls, h2Connect, isAccepted, PROTOCOLS, request } from '../../fixtures/clients.ts';
import { testPki } from '../../fixtures/pki.ts';
import { answerOk, files, listening, ownFiles } from './mtls-server.ts';

describe('an mTLS server', () => {
	it('speaks HTTP/1.1 and HTTP/2, as the client asks', async () => {
		await using server = await listening({ http2: true });
		assert.equal((await request('h1', server, { token: null })).text, 'HTTP/1.1');
		assert.equal((await request('h2', server, { token: null })).text, 'HTTP/2.0');
	});

	for (const http2 of [true, false]) {
		it(`refuses a certificate that does not chain to the client CA (http2: ${http2})`, async () => {
			const { clients } = await testPki();
			await using server = await listening({ http2 });
			assert.equal(await isAccepted(server), true);
			assert.equal(await isAccepted(server, { cert: clients.fourIntermediates }), true);
			for (const cert of [null, clients.otherCa, clients.expired, clients.notYetValid, clients.serverAuthOnly]) {
				assert.equal(await isAccepted(server, { cert }), false);
			}
		});

		it(`accepts only the clients of an issuing CA, also after a reload (http2: ${http2})`, async () => {
			const pki = await testPki();
			const issuing = await pki.issueAuthority('Issuing CA');
			const own = await pki.issueClient({}, issuing);
			const sister = await pki.issueClient({}, await pki.issueAuthority('Sister CA'));
			const paths = await ownFiles();
			const assertOwnAlone = async () => {
				for (const protocol of http2 ? PROTOCOLS : (['h1'] as const)) {
					assert.equal((await request(protocol, server, { cert: own, token: null })).status, 200);
				}
				for (const alpn of http2 ? [['http/1.1'], ['h2']] : [['http/1.1']]) {
					for (const cert of [sister, pki.clients.valid, pki.clients.otherCa]) {
						assert.equal(await isAccepted(server, { cert, alpn }), false);
					}
				}
			};
			await using server = await listening({ ...paths, http2 });
			assert.equal(await isAccepted(server, { cert: sister }), true);
			writeFileSync(paths.clientCaPath, issuing.certPem);
			server.server.reload();
			await assertOwnAlone();
			await using another = await listening({ ...paths, http2 });
			assert.equal(await isAccepted(another, { cert: own }), true);
			assert.equal(await isAccepted(another, { cert: sister }), false);
		});

		it(`never resumes a session, which would skip that check (http2: ${http2})`, async () => {
			await using server = await listening({ http2 });
			for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
				const tls = { minVersion: version, maxVersion: version };
				const first = await connectTls(server, { tls });
				first.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
				await once(first, 'data');
				const session = first.getSession();
				first.destroy();
				const second = await connectTls(server, { tls: { ...tls, ...(session && { session }) } });
				assert.equal(second.isSessionReused(), false);
				second.destroy();
			}
		});

		it(`sets the proxy's limits (http2: ${http2})`, async () => {
			await using running = await listening({ http2 });
			const { headersTimeout } = running.server;
			assert.equal(headersTimeout, 10_000);
		});
	}

	for (const http2 of [true, false]) {
		it(`refuses TLS 1.2 with minVersion 1.3, also after a reload (http2: ${http2})`, async () => {
			await using running = await listening({ http2, minVersion: 'TLSv1.3' });
			for (let reloads = 0; reloads < 2; reloads++) {
				await assert.rejects(connectTls(running, { tls: { maxVersion: 'TLSv1.2' } }));
				const socket = await connectTls(running);
				assert.equal(socket.getProtocol(), 'TLSv1.3');
				socket.destroy();
				running.server.reload();
			}
		});
	}

	it('refuses TLS 1.1', async () => {
		await using server = await listening({ http2: true });
		await assert.rejects(connectTls(server, { tls: { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1' } }));
	});

	it('allows 64 streams on one connection', async () => {
		await using server = await listening({ http2: true });
		await using connection = await h2Connect(server);
		await connection.request({ token: null });
		assert.equal(connection.session.remoteSettings.maxConcurrentStreams, 64);
	});

	it('closes an HTTP/2 connection without a request for 10 s, and no other', async (t) => {
		await using server = await listening({ http2: true });
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const connect = async () => {
			const accepted = once(server.server, 'session');
			const socket = await connectTls(server, { alpn: ['h2'] });
			await accepted;
			return socket;
		};
		const silent = await connect();
		const busy = await h2Connect(server);
		await busy.request({ token: null });
		const closed = once(silent.resume(), 'close');
		t.mock.timers.tick(9_999);
		assert.equal(silent.destroyed, false);
		t.mock.timers.tick(1);
		await closed;
		assert.equal((await busy.request({ token: null })).status, 200);
		t.mock.timers.reset();
		await busy.close();
	});

	it('reads regular files of at most 8 MiB, and waits for no FIFO', async () => {
		const paths = await ownFiles();
		const fifo = `${paths.certPath}.fifo`;
		execFileSync('mkfifo', [fifo]);
		const padding = `${'x'.repeat(1023)}\n`.repeat(8 * 1024);
		writeFileSync(paths.clientCaPath, padding + readFileSync(paths.clientCaPath, 'utf8'));
		const refused = (overrides: Partial<MtlsServerOptions>, message: RegExp) =>
			assert.throws(() => createMtlsServer({ ...paths, ...overrides }, answerOk), {
				code: 'ERR_TLS_MATERIAL',
				message,
			});
		refused({}, /ca\.crt: cannot be read: it is larger than 8 MiB$/);
		refused({ certPath: fifo }, /fifo: cannot be read: it is a FIFO, not a regular file$/);
		refused({ certPath: '/dev/zero' }, /zero: cannot be read: it is a device, not a regular file$/);
		refused({ keyPath: dirname(fifo) }, /cannot be read: it is a directory$/);
	});

	it('accepts its files as URLs, too', async () => {
		const paths = await ownFiles();
		await using server = await listening({ certPath: pathToFileURL(paths.certPath) });
		assert.equal(await isAccepted(server), true);
	});
});

describe('createMtlsServer', () => {
	const refuses = async (overrides: Partial<MtlsServerOptions>, code: string, message: RegExp, handler = answerOk) => {
		const options = { ...(await files()), ...overrides };
		assert.throws(
			() => createMtlsServer(options, handler),
			(error) => error instanceof GateError && error.code === code && message.test(error.message),
		);
	};

	it('names the file that it cannot use, and why', async () => {
		const pki = await testPki();
		const other = await pki.issueServer('other');
		const garbage = pki.writeFile('garbage.pem', 'garbage');
		await refuses(
			{ certPath: '/nowhere/x.crt' },
			'ERR_TLS_MATERIAL',
			/^\/nowhere\/x\.crt: cannot be read: there is no such file$/,
		);
		await refuses({ keyPath: other.keyPath }, 'ERR_TLS_MATERIAL', /other\.key: the key does not match/);
		await refuses({ clientCaPath: garbage }, 'ERR_TLS_MATERIAL', /garbage\.pem: contains no PEM certificate/);
		await refuses({ clientCaPath: pki.server.certPath }, 'ERR_TLS_MATERIAL', /server\.crt: contains no CA certificate/);
	});

	it('refuses to offer an Express application over HTTP/2, which it was not made for', async () => {
		await refuses({ http2: true }, 'ERR_TLS_HTTP2_HANDLER', /without http2: true/, express());
		await (await listening({}, express())).server.drain();
	});

	it('does not start if its signal is already aborted', async () => {
		const options = { ...(await files()), signal: AbortSignal.abort() };
		assert.throws(() => createMtlsServer(options, answerOk), { name: 'AbortError' });
	});
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { createMtlsServer, type MtlsServer } from '../../../packages/gate/src/embed/tls.ts';
import { connectTls, PROTOCOLS, request } from '../../fixtures/clients.ts';
import { answerOk, files, listening } from './mtls-server.ts';

describe('draining', () => {
	for (const protocol of PROTOCOLS) {
		it(`lets requests in flight finish, then ends the connection (${protocol})`, async () => {
			const release = Promise.withResolvers<void>();
			const started = Promise.withResolvers<void>();
			const running = await listening({ http2: true, drainMs: 60_000 }, async (_req, res) => {
				started.resolve();
				await release.promise;
				res.end('late');
			});
			const answer = request(protocol, running, { token: null });
			await started.promise;
			const drained = running.server.drain();
			assert.equal(running.server.drain(), drained);
			assert.equal(running.server.listening, false);
			await assert.rejects(connectTls(running));
			release.resolve();
			assert.equal((await answer).text, 'late');
			await drained;
		});

		it(`ends requests that have not finished in time (${protocol})`, async () => {
			const started = Promise.withResolvers<void>();
			const running = await listening({ http2: true, drainMs: 20 }, () => started.resolve());
			const answer = request(protocol, running, { token: null });
			await started.promise;
			await running.server.drain();
			assert.equal((await answer).status, 0);
		});
	}

	it('ends an HTTP/1.1 connection with the answer that it is in the middle of', async () => {
		const release = Promise.withResolvers<void>();
		const running = await listening({ drainMs: 60_000 }, async (_req, res) => {
			res.write('first ');
			await release.promise;
			res.end('last');
		});
		const socket = await connectTls(running);
		socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		const chunks = [(await once(socket, 'data'))[0]];
		socket.on('data', (chunk) => chunks.push(chunk));
		const drained = running.server.drain();
		release.resolve();
		await Promise.all([drained, once(socket, 'close')]);
		assert.match(Buffer.concat(chunks).toString(), /first .*last\r\n0\r\n\r\n$/s);
	});

	it('ends idle connections and handshakes that hang', async () => {
		const running = await listening({ drainMs: 20 });
		const idle = await connectTls(running);
		idle.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		await once(idle, 'data');
		idle.resume();
		const accepted = once(running.server, 'connection');
		const mute = connect(running.port, '127.0.0.1').resume();
		mute.on('error', () => {});
		await accepted;
		const gone = Promise.all([once(idle, 'close'), once(mute, 'close')]);
		await running.server.drain();
		await gone;
	});

	it('happens at the end of a block, and when a signal is aborted', async () => {
		const controller = new AbortController();
		const running = await listening({ signal: controller.signal });
		const closed = once(running.server, 'close');
		controller.abort();
		await closed;
		let inBlock: MtlsServer;
		{
			await using server = (await listening()).server;
			inBlock = server;
			assert.equal(server.listening, true);
		}
		assert.equal(inBlock.listening, false);
	});

	it('draining a server that never listened is done at once', async () => {
		await createMtlsServer(await files(), answerOk).drain();
	});
});

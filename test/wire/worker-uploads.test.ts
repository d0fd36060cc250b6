import assert from 'node:assert/strict';
import { it } from 'node:test';
import { h2Raw } from '../fixtures/clients.ts';
import { dataFrame, headersFrame, requestFields } from '../fixtures/h2-frames.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { testPki } from '../fixtures/pki.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';

const DEATHS = 4;

/**
 * Node goes on reading once more after the JavaScript of a thread has been stopped, and aborts the whole process over an
 * HTTP/2 HEADERS and DATA of one read (nodejs/node#64850): so nothing may be read any more by then.
 */
it('a worker that dies while bodies arrive over HTTP/2 takes no other worker along', async () => {
	await using upstream = await startUpstream();
	await using proxy = await startProxy({
		workers: 2,
		env: INSPECTABLE,
		config: { health_interval_secs: 3600, health_timeout_secs: 15, tenant_rps: 0 },
		routes: [{ prefix: '/', upstream: upstream.url }],
	});
	using inspector = await WorkerInspector.attach(proxy, 2);
	const token = (await testPki()).token();
	const head = requestFields('POST', '/', token);
	let running = true;
	/** Request after request, each in one piece, and a new connection whenever the worker has gone. */
	const client = async () => {
		while (running) {
			using connection = await h2Raw(proxy).catch(() => undefined);
			for (let id = 1; running && connection !== undefined && !connection.socket.destroyed; id += 2) {
				connection.send(
					headersFrame(id, head, { endStream: false }),
					dataFrame(id, 'some'),
					dataFrame(id, 'thing', true),
				);
				await new Promise(setImmediate);
				// Sometimes a pause, or the clients would be all that this machine does.
				if (id % 16 === 15) await new Promise((resolve) => setTimeout(resolve, 5));
			}
		}
	};
	const clients = Array.from({ length: 8 }, client);
	try {
		for (let death = 1; death <= DEATHS; death++) {
			const logged = proxy.logs.length;
			await inspector.ready(death % 2);
			inspector.run(death % 2, `throw new Error('killed by the test, ${death}')`);
			const replaced = await proxy.waitForLog('worker replaced', undefined, logged);
			assert.equal(replaced.worker, death % 2);
		}
	} finally {
		running = false;
		await Promise.all(clients);
	}
	assert.deepEqual(
		proxy.logs.filter(({ message }) => message === 'worker died; replacing it').map(({ cause }) => cause),
		Array.from({ length: DEATHS }, (_, i) => i + 1).map((death) => `killed by the test, ${death}`),
	);
});

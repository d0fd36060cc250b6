import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { freePort } from '../fixtures/free-port.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

let upstream: Upstream;
before(async () => {
	upstream = await startUpstream();
});
after(() => upstream.close());

/** What the listener for metrics says, as `status body`. */
async function said(metricsPort: number, path: '/livez' | '/readyz', method = 'GET'): Promise<string> {
	const response = await fetch(`http://127.0.0.1:${metricsPort}${path}`, { method });
	assert.equal(response.headers.get('cache-control'), 'no-store');
	return `${response.status} ${await response.text()}`;
}

describe('/livez and /readyz', { concurrency: 4 }, () => {
	test('are there before the first probe has passed: alive, and not ready until the start is complete', async () => {
		const health = Promise.withResolvers<void>();
		await using slow = await startUpstream({
			health: async (exchange) => {
				await health.promise;
				exchange.respond();
			},
		});
		const metricsPort = Number(await freePort());
		await using proxy = await spawnProxy({
			args: ['--metrics-bind', `127.0.0.1:${metricsPort}`],
			routes: [{ prefix: '/', upstream: slow.url }],
		});
		await until(() => slow.healthProbes > 0, 'the probe');
		assert.equal(await said(metricsPort, '/readyz'), '503 not ready: starting');
		assert.equal(await said(metricsPort, '/livez'), '200 alive');
		health.resolve();
		await proxy.ready();
		assert.equal(await said(metricsPort, '/readyz'), '200 ready');
		assert.equal(await said(metricsPort, '/readyz', 'HEAD'), '200 ');
	});

	test('not ready as long as no worker accepts connections, and ready again when one does', async () => {
		const gate = join(temporaryFolder('readiness'), 'released');
		await using proxy = await startProxy({
			workers: 1,
			routes: [{ prefix: '/', upstream: upstream.url }],
			env: { NODE_OPTIONS: `${INSPECTABLE.NODE_OPTIONS} --import=${await secondThreadWaitsFor(gate)}` },
		});
		using inspector = await WorkerInspector.attach(proxy, 1);
		inspector.run(0, "throw new Error('killed by the test')");
		await proxy.waitForLog('worker died; replacing it');
		assert.equal(await said(proxy.metricsPort, '/readyz'), '503 not ready: no worker accepts connections');
		assert.equal(await said(proxy.metricsPort, '/livez'), '200 alive');
		writeFileSync(gate, '');
		await proxy.waitForLog('worker replaced');
		assert.equal(await said(proxy.metricsPort, '/readyz'), '200 ready');
	});
});

describe('shutdown_delay_secs', { concurrency: 3 }, () => {
	const LONG = 3600;

	test('/readyz says 503 and new connections are served during shutdown_delay_secs; a second signal ends it with 1', async () => {
		await using proxy = await startProxy({
			routes: [{ prefix: '/', upstream: upstream.url }],
			limits: { shutdown_delay_secs: LONG },
		});
		proxy.signal('SIGINT');
		const line = await proxy.waitForLog('not ready any more; still serving until the drain');
		assert.deepEqual([line.level, line.signal, line.delay_ms], ['info', 'SIGINT', LONG * 1000]);
		assert.equal(await said(proxy.metricsPort, '/readyz'), '503 not ready: shutting down');
		assert.equal(await said(proxy.metricsPort, '/livez'), '200 alive');
		for (const protocol of [...PROTOCOLS, ...PROTOCOLS]) {
			const { status, headers } = await request(protocol, proxy);
			assert.equal(status, 200);
			assert.notEqual(headers.connection, 'close');
		}
		assert.equal(await proxy.metric('proxy_workers'), 2);
		assert.ok(!proxy.logs.some(({ message }) => message === 'draining'));
		proxy.signal('SIGTERM');
		assert.equal(await within(proxy.exited, 'the end, at the second signal'), 1);
		await proxy.kill();
	});

	test('drains when it is over', async () => {
		await using proxy = await startProxy({ limits: { shutdown_delay_secs: 0.05 } });
		proxy.signal('SIGTERM');
		assert.equal(await within(proxy.exited, 'the end of the drain'), 0);
		const messages = proxy.logs.map(({ message }) => message);
		const order = ['not ready any more; still serving until the drain', 'draining', 'drained'];
		assert.deepEqual(
			messages.filter((message) => order.includes(message)),
			order,
		);
		await proxy.kill();
	});
});

/** A module that lets the first thread go on at once, and any other one when the file `gate` is there. */
async function secondThreadWaitsFor(gate: string): Promise<string> {
	const code = `import { existsSync, writeFileSync } from 'node:fs';
		import { isMainThread } from 'node:worker_threads';
		const [gate, first] = [${JSON.stringify(gate)}, ${JSON.stringify(`${gate}.first`)}];
		const never = new Int32Array(new SharedArrayBuffer(4));
		if (!isMainThread && existsSync(first)) while (!existsSync(gate)) Atomics.wait(never, 0, 0, 10);
		else if (!isMainThread) writeFileSync(first, '');`;
	return (await testPki()).writeFile('second-thread-waits.mjs', code);
}

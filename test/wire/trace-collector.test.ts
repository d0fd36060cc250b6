/** Spans while the collector is unreachable, slow or refuses them: requests are never affected. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, PROTOCOLS } from '../fixtures/clients.ts';
import { Collector } from '../fixtures/collector.ts';
import { EchoUpstream } from '../fixtures/load.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const QUEUE = 64;
const SECRET = 'hunter2-hunter2';
const headersPath = join(temporaryFolder('collector'), 'headers');
writeFileSync(headersPath, `# of the collector\nAuthorization: Bearer ${SECRET}\nx-scope: edge\n`);

let upstream: EchoUpstream;
before(async () => {
	upstream = await EchoUpstream.start();
});
after(() => upstream[Symbol.asyncDispose]());

const start = (endpoint: string, trace: Readonly<Record<string, string | number>> = {}) =>
	startProxy({
		config: { tenant_rps: 0, health_interval_secs: 3600, health_timeout_secs: 15 },
		routes: [{ prefix: '/', upstream: upstream.url }],
		workers: 1,
		trace: { endpoint, ratio: 1, max_queue_spans: QUEUE, ...trace },
	});

async function send(proxy: ProxyProcess, count: number): Promise<void> {
	for (const protocol of PROTOCOLS) {
		await using client = await connect(protocol, proxy);
		for (let i = 0; i < count / 2; i++) assert.equal((await client.request()).status, 200);
	}
}

const spans = (proxy: ProxyProcess, result: string) => proxy.metric('proxy_trace_spans_total', { result });
/** The last span ends later than its response arrives. */
const untilDropped = (proxy: ProxyProcess, count: number) =>
	until(async () => (await spans(proxy, 'dropped')) === count, `${count} spans to be dropped`);
const traceLines = ({ logs }: ProxyProcess) => logs.filter(({ target }) => target === 'proxy::trace');

describe('a collector', { concurrency: 3 }, () => {
	test('a collector that is down loses spans, which are counted, and no request', async () => {
		const collector = await Collector.start();
		const { endpoint } = collector;
		await collector.close();
		await using proxy = await start(endpoint);
		const REQUESTS = 3 * QUEUE;
		await send(proxy, REQUESTS);
		// What waits is bounded at once, whatever the exporter is waiting for.
		await untilDropped(proxy, REQUESTS - QUEUE);
		const { message, cause, level } = await proxy.waitForLog(({ target }) => target === 'proxy::trace');
		assert.deepEqual([level, message, cause], ['warn', 'the collector accepts no spans', 'connection refused']);
		const failed = await spans(proxy, 'failed');
		assert.ok(failed > 0 && failed <= QUEUE, `${failed}`);
		await collector.listen();
		await send(proxy, 10);
		const back = await proxy.waitForLog('the collector accepts spans again');
		// What was in a batch that had not been given up yet arrives, too.
		const all = async () => (await spans(proxy, 'exported')) + (await spans(proxy, 'failed'));
		await until(async () => (await all()) === QUEUE + 10, 'each span to be exported or given up');
		assert.equal(back.lost, await spans(proxy, 'failed'));
		assert.equal(collector.spans.length, await spans(proxy, 'exported'));
		assert.equal(await spans(proxy, 'dropped'), REQUESTS - QUEUE);
		assert.equal(traceLines(proxy).length, 2);
		assert.equal(await proxy.stop(), 0);
		await collector.close();
	});

	test('a collector that refuses spans over https is logged once, with its status and without header fields', async () => {
		const { caPath, server } = await testPki();
		await using collector = await Collector.start({ cert: server.certPem, key: server.keyPem });
		collector.behaviour = 403;
		await using proxy = await start(collector.endpoint, { headers_path: headersPath, ca_path: caPath });
		await send(proxy, 4);
		await until(async () => (await spans(proxy, 'failed')) === 4, 'the spans to fail');
		await proxy.waitForLog(({ target }) => target === 'proxy::trace');
		assert.deepEqual(
			traceLines(proxy).map(({ cause }) => cause),
			['status 403'],
		);
		const { method, url, headers } = collector.heads[0]!;
		assert.deepEqual(
			[method, url, headers.authorization, headers['x-scope'], headers['content-type']],
			['POST', '/v1/traces', `Bearer ${SECRET}`, 'edge', 'application/x-protobuf'],
		);
		assert.match(headers['user-agent']!, /^mtls-edge-proxy\//);
		assert.ok(!proxy.output().includes(SECRET));
		// Spans of the last requests go out at the end.
		collector.behaviour = 200;
		await send(proxy, 6);
		assert.equal(await proxy.stop(), 0);
		assert.equal(collector.spans.length, 6);
	});

	test('a collector that never responds delays neither requests nor the shutdown', async () => {
		await using collector = await Collector.start();
		collector.behaviour = 'hang';
		await using proxy = await start(collector.endpoint);
		await send(proxy, 2 * QUEUE);
		await collector.until(() => collector.heads.length > 0, 'an export');
		await send(proxy, QUEUE);
		await untilDropped(proxy, 2 * QUEUE);
		const asked = performance.now();
		assert.equal(await proxy.stop(), 0);
		// 1.5 s for the spans; far from the 10 s that an export may take.
		assert.ok(performance.now() - asked < 9_000, 'the end waits for the collector');
	});
});

test('a proxy without [trace] has no spans and no metrics about them', async () => {
	await using proxy = await startProxy({ routes: [{ prefix: '/', upstream: upstream.url }], workers: 1 });
	await send(proxy, 2);
	assert.equal((await proxy.metrics()).has('proxy_trace_spans_total'), false);
});

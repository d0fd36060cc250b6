import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { FamilyDescription } from '../../packages/proxy/src/control/metrics/exposition.ts';
import { FAMILIES } from '../../packages/proxy/src/control/metrics/family-table.ts';
import { connect, h2Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import { headersFrame } from '../fixtures/h2-frames.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { type Sample, type Scrape, sampleSum } from '../fixtures/prometheus.ts';
import { BODY_MODE, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();

/** One probe at the start and none behind a test's back. */
const CONFIG = { health_interval_secs: 3600, tenant_rps: 0, default_cooldown_secs: 1 };

interface Page {
	readonly status: number;
	readonly headers: IncomingMessage['headers'];
	readonly text: string;
}

function page(proxy: ProxyProcess, path = '/metrics', method = 'GET', headers = {}): Promise<Page> {
	return new Promise((resolve, reject) => {
		const options = { host: '127.0.0.1', port: proxy.metricsPort, path, method, headers, agent: false };
		const asked = httpRequest(options, async (response) => {
			let text = '';
			for await (const chunk of response) text += chunk;
			resolve({ status: response.statusCode!, headers: response.headers, text });
		});
		asked.on('error', reject).end();
	});
}

function samples(scrape: Scrape, name: string): readonly Sample[] {
	return scrape.get(name.replace(/_(sum|count)$/, ''))!.samples.filter((sample) => sample.name === name);
}

/** The label sets of all samples, each written as in the text. */
function labelSets(scrape: Scrape, name: string): string[] {
	const written = samples(scrape, name).map(({ labels }) => {
		return Object.entries(labels)
			.map(([label, value]) => `${label}=${value}`)
			.join(' ');
	});
	return written.sort();
}

describe('counters', () => {
	let upstream: Upstream;
	let proxy: ProxyProcess;
	let first: Scrape;
	let up: { upstream: string };
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		up = { upstream: upstream.authority };
		proxy = open.use(await startProxy({ config: CONFIG, routes: [{ prefix: '/up', upstream: upstream.url }] }));
		first = await proxy.metrics();
	});
	after(() => open.disposeAsync());

	test('the first scrape has the families of the table with its labels and values, and no others', () => {
		const [{ labels, value }] = samples(first, 'proxy_build_info') as [Sample];
		assert.deepEqual([value, labels.body_mode, labels.node], [1, BODY_MODE, process.versions.node]);
		const known = Object.values<FamilyDescription>(FAMILIES);
		const others = [...first.keys()].filter((name) => !known.some((family) => family.name === name));
		assert.deepEqual(others, []);
		for (const { name, type, labels } of known) {
			// These come with a CRL, with a gRPC call, with an upstream over HTTP/2, with an issuer whose keys come over the network, with `[trace]`, `[limiter]` and `[[upstreams]]`.
			if (/_crl_|_dns_|_jwks_|_limiter_|_trace_|_denied_|_grpc_|_upstream_queue|_upstream_streams/.test(name)) continue;
			const family = first.get(name);
			assert.equal(family?.type, type === 'info' ? 'gauge' : type, name);
			assert.ok(family.samples.length > 0, name);
			for (const sample of family.samples) {
				for (const [label, value] of Object.entries(sample.labels)) {
					if (label === 'quantile' || label === 'le') continue;
					const values = labels[label];
					assert.ok(values !== undefined, `${name} has the label ${label}`);
					assert.ok(typeof values === 'string' || values.includes(value), `${name} ${label}=${value}`);
				}
			}
		}
	});

	/** How much the sums of these samples rise. @param expected awaited sums: a round trip is counted at its end. */
	async function rises(
		names: Record<string, [name: string, labels?: Record<string, string>]>,
		during: () => Promise<unknown>,
		expected: Readonly<Record<string, number>> = {},
	): Promise<Record<string, number>> {
		const read = async () => {
			const scrape = await proxy.metrics();
			return Object.entries(names).map(([key, [name, labels]]) => [key, sampleSum(scrape, name, labels)] as const);
		};
		const before = new Map(await read());
		await during();
		return until(
			async () => {
				const risen = Object.fromEntries((await read()).map(([key, value]) => [key, value - before.get(key)!]));
				return Object.entries(expected).every(([key, count]) => risen[key]! >= count) ? risen : undefined;
			},
			() => `${JSON.stringify(expected)} to be counted`,
		);
	}

	test('are exact across all workers, and the same in every family that speaks of it', async () => {
		upstream.script = (exchange) => exchange.respond({ body: 'ok' });
		const CONNECTIONS = 12;
		const REQUESTS = 25;
		const names = {
			requests: ['proxy_requests_total', { status: '200', ...up }],
			all: ['proxy_requests_total'],
			roundTrips: ['proxy_request_duration_seconds_count', up],
			handshakes: ['proxy_tls_handshake_seconds_count'],
		} as const satisfies Record<string, [string, Record<string, string>?]>;
		const requests = CONNECTIONS * REQUESTS;
		const expected = { requests, all: requests, roundTrips: requests, handshakes: CONNECTIONS };
		const send = async () => {
			const connections = Array.from({ length: CONNECTIONS }, (_, i) => connect(PROTOCOLS[i % 2]!, proxy));
			await Promise.all(
				connections.map(async (connecting) => {
					await using connection = await connecting;
					for (let i = 0; i < REQUESTS; i++) assert.equal((await connection.request({ path: '/up' })).status, 200);
				}),
			);
		};
		assert.deepEqual(await rises(names as never, send, expected), expected);
	});

	test('have the same series after 70 requests of as many tenants', async () => {
		const statuses = [200, 201, 404, 418, 500];
		upstream.script = (exchange) => exchange.respond({ status: statuses[exchange.request.target.length % 5]! });
		const seriesOf = async () => {
			const scrape = await proxy.metrics();
			return [...scrape.values()].flatMap(({ samples }) => samples.map(({ name, labels }) => [name, labels]));
		};
		await using connection = await connect('h2', proxy);
		const ask = (count: number, start: number) =>
			Promise.all(
				Array.from({ length: count }, (_, i) => {
					const sub = `tenant-${start + i}`;
					return connection.request({ path: `/up/${'x'.repeat(i % 5)}?${sub}`, token: pki.token(sub) });
				}),
			);
		await ask(20, 0);
		const before = await seriesOf();
		for (let start = 20; start < 70; start += 50) await ask(50, start);
		assert.deepEqual(await seriesOf(), before);
		assert.ok(!JSON.stringify(before).includes('tenant-'));
	});
});

describe('what adds up', () => {
	let upstream: Upstream;
	let proxy: ProxyProcess;
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		proxy = open.use(
			await startProxy({
				config: { ...CONFIG, tenant_rps: 2 },
				routes: [{ prefix: '/up', upstream: upstream.url }],
				log: { request_id: true },
			}),
		);
	});
	after(() => open.disposeAsync());

	const metric = (name: string, labels: Record<string, string> = {}) => proxy.metric(name, labels);

	for (const [protocol, label] of [
		['h1', 'http/1.1'],
		['h2', 'h2'],
	] as const) {
		test(`requests in flight and bytes, by route and protocol, over ${protocol}`, async () => {
			const gate = Promise.withResolvers<void>();
			upstream.script = async (exchange) => {
				await gate.promise;
				exchange.respond({ body: 'twelve bytes' });
			};
			const of = { route: '/up', protocol: label };
			const seen = upstream.requests.length;
			const own = await metric('proxy_response_body_bytes_total', { protocol: label });
			const token = pki.token(`sub-${protocol}`);
			const asked = request(protocol, proxy, { path: '/up', method: 'POST', body: 'hello', token });
			await upstream.request(seen + 1);
			assert.equal(await metric('proxy_requests_in_flight', of), 1);
			assert.equal(await metric('proxy_requests_in_flight'), 1);
			gate.resolve();
			assert.equal((await asked).status, 200);
			await until(async () => (await metric('proxy_requests_in_flight')) === 0, 'the request to be over');
			assert.equal(await metric('proxy_request_body_bytes_total', of), 5);
			assert.equal(await metric('proxy_response_body_bytes_total', of), 12);
			const { text } = await request(protocol, proxy, { path: '/none', token });
			assert.equal(text, 'no route');
			assert.equal(await metric('proxy_response_body_bytes_total', { protocol: label }), own + 12 + text.length);
		});
	}

	test('histograms of round trips, gates and handshakes, of which none is missing in any bucket', async () => {
		const scrape = await proxy.metrics();
		const up = { upstream: upstream.authority };
		for (const [name, labels, count] of [
			['proxy_upstream_duration_seconds', up, 2],
			['proxy_gate_duration_seconds', {}, 2],
			['proxy_tls_handshake_duration_seconds', {}, sampleSum(scrape, 'proxy_tls_handshake_seconds_count')],
		] as const) {
			assert.equal(sampleSum(scrape, `${name}_count`, labels), count, name);
			assert.equal(sampleSum(scrape, `${name}_bucket`, { ...labels, le: '+Inf' }), count, name);
			assert.ok(sampleSum(scrape, `${name}_sum`, labels) > 0, name);
		}
		assert.ok((await metric('proxy_tls_handshakes_total', { version: 'TLSv1.3' })) >= 4);
		assert.equal(await metric('proxy_tls_handshakes_total', { group: 'other' }), 0);
	});

	test('streams that were reset for an error of the client', async () => {
		await using connection = await h2Raw(proxy);
		connection.send(headersFrame(1, [[':method', 'GET']]));
		await until(
			async () => (await metric('proxy_http2_stream_errors_total', { reason: 'malformed' })) === 1,
			'the count',
		);
		assert.equal(await metric('proxy_http2_stream_errors_total'), 1);
	});

	test('event loops of all workers, sampled without a request', async () => {
		for (const worker of ['0', '1']) {
			await until(
				async () => (await metric('proxy_worker_event_loop_seconds_total', { worker, state: 'idle' })) > 0,
				'a sample',
			);
			const used = await metric('proxy_worker_event_loop_utilization_ratio', { worker });
			assert.ok(used >= 0 && used <= 1, `${used}`);
		}
	});

	test('certificates and reloads, with the time of each', async () => {
		const { validToDate } = new X509Certificate(pki.server.certPem);
		const expiry = await metric('proxy_certificate_expiry_timestamp_seconds', { kind: 'server' });
		assert.equal(expiry, validToDate.getTime() / 1000);
		const of = { part: 'routes' };
		const started = await metric('proxy_reload_timestamp_seconds', { ...of, result: 'success' });
		await proxy.reload();
		assert.ok((await metric('proxy_reload_timestamp_seconds', { ...of, result: 'success' })) > started);
		assert.equal(await metric('proxy_reload_timestamp_seconds', { result: 'failure' }), 0);
	});

	test('the page in OpenMetrics, for those who ask for it, with the trace of a request', async () => {
		const { headers, text } = await page(proxy, '/metrics', 'GET', { accept: 'application/openmetrics-text' });
		assert.equal(headers['content-type'], 'application/openmetrics-text; version=1.0.0; charset=utf-8');
		assert.ok(text.endsWith('\n# EOF\n'));
		assert.match(
			text,
			/^proxy_upstream_duration_seconds_bucket\{.*\} \d+ # \{trace_id="[0-9a-f]{32}"\} [\d.e-]+ \d+\.\d{3}$/m,
		);
		assert.match(text, /^proxy_gate_duration_seconds_bucket\{.*\} \d+ # \{trace_id="/m);
		assert.match(text, /^proxy_requests_created\{.*upstream=.*\} \d{10}/m);
		assert.ok(!text.includes('sub-h2'));
	});
});

describe('metrics', () => {
	test('are of the upstreams in force, and go on if they were when one comes back', async () => {
		await using one = await startUpstream();
		await using two = await startUpstream();
		const routes = (upstream: Upstream) => ({ routes: [{ prefix: '/', upstream: upstream.url }] });
		await using proxy = await startProxy({ config: CONFIG, ...routes(one) });
		const upstreams = async () => labelSets(await proxy.metrics(), 'proxy_circuit_state');
		for (let i = 0; i < 3; i++) await request('h1', proxy);
		proxy.writeConfig(routes(two));
		await proxy.reload();
		assert.deepEqual(await upstreams(), [`upstream=${two.authority}`]);
		assert.equal(await proxy.metric('proxy_requests_total', { upstream: one.authority }), 0);
		proxy.writeConfig(routes(one));
		await proxy.reload();
		await request('h1', proxy);
		assert.equal(await proxy.metric('proxy_requests_total', { upstream: one.authority, status: '200' }), 4);
	});

	test('answer while all workers are too busy to', async () => {
		await using proxy = await startProxy({ config: CONFIG, env: INSPECTABLE });
		using inspector = await WorkerInspector.attach(proxy, 2);
		const sign = join(temporaryFolder('busy'), 'worker');
		for (const worker of [0, 1]) {
			const [isBusy, mayGoOn] = [`${sign}-${worker}`, sign].map((path) => JSON.stringify(path));
			inspector.run(
				worker,
				`const { existsSync, writeFileSync } = process.getBuiltinModule('node:fs');
				writeFileSync(${isBusy}, '');
				const cell = new Int32Array(new SharedArrayBuffer(4));
				while (!existsSync(${mayGoOn})) Atomics.wait(cell, 0, 0, 10);`,
			);
		}
		await until(() => [0, 1].every((worker) => existsSync(`${sign}-${worker}`)), 'both workers to be busy');
		let answered = false;
		const blocked = request('h1', proxy).then(() => {
			answered = true;
		});
		assert.equal((await page(proxy)).status, 200);
		assert.equal(answered, false, 'the workers were not busy');
		writeFileSync(sign, '');
		await blocked;
	});
});

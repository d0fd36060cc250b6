import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { get } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';

const found = (command: string, ...args: string[]) => spawnSync(command, args).status === 0;
const missing = (isThere: boolean, what: string) => (isThere ? false : `not installed: ${what}`);
const noPromtool = missing(found('promtool', '--version'), 'prometheus');
const noParser = missing(
	found('python3', '-c', 'import prometheus_client.openmetrics.parser'),
	'python3-prometheus-client',
);

/** Parses standard input, and prints the result. */
const READ_OPENMETRICS = `
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
out = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    out[family.name] = {
        'type': family.type, 'unit': family.unit, 'help': family.documentation,
        'samples': [s.name for s in family.samples],
        'exemplars': [dict(s.exemplar.labels) for s in family.samples if s.exemplar],
    }
json.dump(out, sys.stdout)
`;

interface Understood {
	readonly type: string;
	readonly unit: string;
	readonly help: string;
	readonly samples: readonly string[];
	readonly exemplars: readonly Readonly<Record<string, string>>[];
}

function run(input: string, command: string, ...args: string[]) {
	const { error, status, stdout, stderr } = spawnSync(command, args, { input, encoding: 'utf8', maxBuffer: 2 ** 26 });
	if (error !== undefined) throw error;
	return { status, stdout, stderr };
}

describe('the page of metrics, read by others', () => {
	let upstream: Upstream;
	let proxy: ProxyProcess;
	const open = new AsyncDisposableStack();
	before(async () => {
		upstream = open.use(await startUpstream());
		proxy = open.use(
			await startProxy({ routes: [{ prefix: '/', upstream: upstream.url }], log: { request_id: true } }),
		);
		for (const protocol of PROTOCOLS) assert.equal((await request(protocol, proxy)).status, 200);
	});
	after(() => open.disposeAsync());

	async function page(accept: string): Promise<string> {
		const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>();
		get({ port: proxy.metricsPort, host: '127.0.0.1', path: '/metrics', headers: { accept } }, resolve).on(
			'error',
			reject,
		);
		return textOf(await promise);
	}

	test('as text is clean for promtool', { skip: noPromtool }, async () => {
		const { status, stdout, stderr } = run(await page('text/plain'), 'promtool', 'check', 'metrics');
		assert.deepEqual([status, stdout, stderr], [0, '', '']);
	});

	test('as OpenMetrics is understood by the reference implementation in Python', { skip: noParser }, async () => {
		const { status, stdout, stderr } = run(
			await page('application/openmetrics-text'),
			'python3',
			'-c',
			READ_OPENMETRICS,
		);
		assert.equal(status, 0, stderr);
		const families: Record<string, Understood> = JSON.parse(stdout);
		const requests = families.proxy_requests!;
		assert.deepEqual(
			[requests.type, new Set(requests.samples)],
			['counter', new Set(['proxy_requests_total', 'proxy_requests_created'])],
		);
		const durations = families.proxy_upstream_duration_seconds!;
		assert.deepEqual([durations.type, durations.unit], ['histogram', 'seconds']);
		assert.ok(durations.samples.includes('proxy_upstream_duration_seconds_created'));
		assert.match(durations.exemplars[0]!.trace_id!, /^[0-9a-f]{32}$/);
		assert.equal(families.proxy_build!.type, 'info');
		assert.equal(families.proxy_request_body_bytes!.unit, 'bytes');
	});
});

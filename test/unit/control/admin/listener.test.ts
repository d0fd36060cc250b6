import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { RATE_LIMIT_REASONS } from '../../../../packages/gate/src/gates/quota.ts';
import { NOTHING_REVOKED } from '../../../../packages/gate/src/identity/revocations.ts';
import { TenantLimiter } from '../../../../packages/gate/src/memory/limiter.ts';
import type { Page } from '../../../../packages/proxy/src/control/admin/listener.ts';
import { startAdmin } from '../../../../packages/proxy/src/control/admin/listener.ts';
import type { Phase } from '../../../../packages/proxy/src/control/admin/readiness.ts';
import { Exposition, type FamilyDescription } from '../../../../packages/proxy/src/control/metrics/exposition.ts';
import { type MetricSources, writeProxyFamilies } from '../../../../packages/proxy/src/control/metrics/families.ts';
import { FAMILIES } from '../../../../packages/proxy/src/control/metrics/family-table.ts';
import { ReloadJournal } from '../../../../packages/proxy/src/control/reload/journal.ts';
import { Upstreams } from '../../../../packages/proxy/src/control/routing/upstreams.ts';
import { STORE_FAILURES } from '../../../../packages/proxy/src/control/store/failure.ts';
import { HANDSHAKE_REFUSALS } from '../../../../packages/proxy/src/identity/handshake-refusals.ts';
import { BucketCounts } from '../../../../packages/proxy/src/memory/bucket-counts.ts';
import { Budget } from '../../../../packages/proxy/src/memory/budget.ts';
import { UpstreamStats } from '../../../../packages/proxy/src/memory/upstream-stats.ts';
import { FORBIDDEN_REASONS, WorkerStats } from '../../../../packages/proxy/src/memory/worker-stats.ts';
import type { TlsMaterial } from '../../../../packages/proxy/src/shared/messages.ts';
import { serialMemory } from '../../../fixtures/crl.ts';
import { testPki } from '../../../fixtures/pki.ts';
import { parseMetrics, type Scrape, sampleSum } from '../../../fixtures/prometheus.ts';
import { within } from '../../../fixtures/wait.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { route, withUpstream } from '../fixtures/routes.ts';

const WORKERS = 2;
const pki = await testPki();
const LAYOUT = { bounds: [0.01, 0.1], exemplars: true };
interface Ready {
	phase: Phase;
	obstacle: string | undefined;
}
const READY: Ready = { phase: 'serving', obstacle: undefined };
const STARTING: Ready = { phase: 'starting', obstacle: 'starting' };

/** Sources with everything at its beginning, and the writers' side of them. */
function testSources(...authorities: string[]) {
	const upstreams = new Upstreams(WORKERS, new FakeTime(), new RecordedLog().logger, LAYOUT);
	upstreams.apply(upstreams.plan(authorities.map((authority, i) => route(`/${i}`, authority))));
	const workerStats = Array.from({ length: WORKERS }, () => new WorkerStats(WorkerStats.allocate()));
	const inForce = {
		generation: 1,
		reloads: { success: 0, failure: 0 },
		failures: [],
		needsRestart: undefined,
		reloading: false,
		tls: { cert: pki.server.certPem, key: '', ca: pki.ca.certPem } as TlsMaterial,
	};
	const budgets = {
		limiter: TenantLimiter.allocate(new Uint8Array(32), 1024),
		bufferedBytes: Budget.allocate(1024 * 1024, 1024, WORKERS),
		connections: Budget.allocate(100, 1, WORKERS),
	};
	const histograms = {
		upstream: LAYOUT,
		handshake: LAYOUT,
		gate: LAYOUT,
		handshakes: BucketCounts.allocate(LAYOUT, WORKERS),
		gates: BucketCounts.allocate(LAYOUT, WORKERS),
	};
	const sources: MetricSources = {
		build: { version: '0.1.0', bodyMode: 'collected', node: '26.10.0' },
		workerStats,
		listening: () => WORKERS,
		upstreams: () => upstreams.current.endpoints.values(),
		inForce,
		routes: () => upstreams.current.traffic,
		journal: new ReloadJournal(() => 1_800_000_000),
		budgets,
		histograms,
		logLosses: () => ({ accessLines: 0, lines: 0, failing: undefined }),
		startedSeconds: 1_800_000_000,
		groups: () => upstreams.current.upstreams.values(),
		remoteKeys: () => [],
		addresses: () => [],
		now: () => 0,
		wallSeconds: () => 1_800_000_000,
	};
	const upstreamStats = (authority: string, worker: number) => {
		return new UpstreamStats(upstreams.current.endpoints.get(authority)!.counters.stats[worker]!);
	};
	return { sources, upstreams, workerStats, upstreamStats, inForce, budgets };
}

async function listening(sources: MetricSources, readiness: Ready = READY, hosts: string[] = []) {
	const log = new RecordedLog().logger;
	const listener = await startAdmin({ host: '127.0.0.1', port: 0 }, { sources, readiness, log, hosts });
	return { ...listener, [Symbol.dispose]: () => listener.close() };
}

async function call(port: number, path: string, method = 'GET', headers: Record<string, string> = {}) {
	const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>();
	request({ port, host: '127.0.0.1', path, method, headers, agent: false }, resolve).on('error', reject).end();
	const response = await promise;
	return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

async function scrape(sources: MetricSources): Promise<Scrape> {
	using listener = await listening(sources);
	return parseMetrics((await call(listener.port, '/metrics')).body);
}

/** Those that are there only with a CRL, with `[trace]`, `[limiter]` or `[[upstreams]]`, with an issuer's keys over the network, after a gRPC call, or where the system tells of it. */
const SOMETIMES =
	/_crl_|_dns_|_upstream_queue|_jwks_|_trace_|_limiter_|_open_fds|_last_probe|_virtual_|_denied_|_grpc_/;
const FAMILY_TYPES = Object.fromEntries(
	Object.values<FamilyDescription>(FAMILIES)
		.filter(({ name }) => !SOMETIMES.test(name))
		.map(({ name, type }) => [name, type === 'info' ? 'gauge' : type]),
);

describe('the first scrape', () => {
	test('has every family, with its type and at least one sample', async () => {
		const page = await scrape(testSources('a:1').sources);
		for (const [name, type] of Object.entries(FAMILY_TYPES)) {
			assert.equal(page.get(name)?.type, type, name);
			// Only upstreams over HTTP/2 have streams.
			if (name !== 'proxy_upstream_streams') assert.ok(page.get(name)!.samples.length > 0, `${name} has samples`);
		}
	});

	test('has every family also if there are no routes, and a request counter to start from', async () => {
		const page = await scrape(testSources().sources);
		for (const name of Object.keys(FAMILY_TYPES)) assert.ok(page.has(name), name);
		assert.equal(page.get('proxy_requests_total')!.samples.length, 1);
	});

	test('has the store of the shared limits, with a zero for each kind of failure', async () => {
		const { sources } = testSources();
		const store = (revocations: number | undefined) => () => ({
			isAway: true,
			reason: 'timeout' as const,
			cause: 'no answer in time',
			forMs: 5,
			onStoreFailure: 'share' as const,
			replicas: 4,
			part: undefined,
			delayMs: 205,
			calls: { success: 9, failures: new Map([['timeout', 2] as const]) },
			revocations,
		});
		const page = await scrape({ ...sources, store: store(undefined) });
		const value = (name: string) => page.get(name)?.samples.map((sample) => sample.value);
		assert.deepEqual(value('proxy_limiter_store_up'), [0]);
		assert.deepEqual(value('proxy_limiter_replicas'), [4]);
		assert.deepEqual(value('proxy_limiter_settle_seconds'), [0.205]);
		assert.equal(page.has('proxy_limiter_store_revocations'), false);
		const calls = page.get('proxy_limiter_store_calls_total')!.samples;
		assert.equal(calls.length, 1 + STORE_FAILURES.length);
		assert.deepEqual(
			calls.filter((sample) => sample.value > 0).map(({ labels, value: count }) => [labels.result, count]),
			[
				['success', 9],
				['timeout', 2],
			],
		);
		const withRevocations = await scrape({ ...sources, store: store(0) });
		assert.equal(withRevocations.get('proxy_limiter_store_revocations')?.samples[0]?.value, 0);
	});

	test('has the exported spans, and those lost here or in a worker', async () => {
		const { sources } = testSources();
		sources.workerStats[0]!.count('dropped', 'spans');
		const page = await scrape({ ...sources, spans: () => ({ exported: 5, failed: 3, dropped: 1 }) });
		assert.deepEqual(
			page.get('proxy_trace_spans_total')!.samples.map(({ labels, value }) => [labels.result, value]),
			[
				['exported', 5],
				['dropped', 2],
				['failed', 3],
			],
		);
	});

	test('has the keys of each issuer with keys from the network', async () => {
		const { sources } = testSources();
		const keys = { named: true, keys: [{ kid: 'a', pem: '', algorithms: ['RS256' as const] }] };
		const refreshing = { start: () => {}, stop: () => {}, fetches: { success: 2, failure: 3 } };
		const all = [
			{ ...refreshing, issuer: { issuer: 'https://a.test' }, value: keys, ageMs: 1500 },
			{ ...refreshing, issuer: { issuer: 'https://b.test' }, value: undefined, ageMs: undefined },
		];
		const page = await scrape({ ...sources, remoteKeys: () => all });
		const issuer = 'https://a.test';
		assert.equal(sampleSum(page, 'proxy_jwks_fetches_total', { issuer, result: 'success' }), 2);
		assert.equal(sampleSum(page, 'proxy_jwks_fetches_total', { issuer, result: 'failure' }), 3);
		assert.deepEqual(
			page.get('proxy_jwks_keys')!.samples.map(({ value }) => value),
			[1, 0],
		);
		assert.equal(page.get('proxy_jwks_age_seconds')!.samples.length, 1);
		assert.equal(sampleSum(page, 'proxy_jwks_age_seconds', { issuer }), 1.5);
	});

	test('has the addresses of each upstream with dns', async () => {
		const { sources } = testSources();
		const refreshing = { fetches: { success: 2, failure: 3 }, authority: 'a.internal:80', failing: undefined };
		const value = ['10.0.0.1', '10.0.0.2'].map((host) => ({ authority: `${host}:80`, host, port: 80 }));
		const all = [
			{ ...refreshing, group: 'a', value, ageMs: 1500 },
			{ ...refreshing, group: 'b', value: undefined, ageMs: undefined },
		];
		const page = await scrape({ ...sources, addresses: () => all });
		assert.equal(sampleSum(page, 'proxy_dns_lookups_total', { group: 'a', result: 'success' }), 2);
		assert.equal(sampleSum(page, 'proxy_dns_lookups_total', { group: 'b', result: 'failure' }), 3);
		assert.deepEqual(
			page.get('proxy_dns_addresses')!.samples.map(({ value }) => value),
			[2, 0],
		);
		assert.equal(page.get('proxy_dns_age_seconds')!.samples.length, 1);
	});

	test('begins all counters at zero', async () => {
		const page = await scrape(testSources('a:1', 'b:2').sources);
		assert.equal(sampleSum(page, 'proxy_requests_total'), 0);
		const zeros = [
			['proxy_requests_total', { status: '200', upstream: 'a:1' }],
			['proxy_requests_total', { status: '200', upstream: 'b:2' }],
			['proxy_request_duration_seconds_count', { upstream: 'a:1' }],
			['proxy_auth_failures_total', { reason: 'missing' }],
			['proxy_auth_failures_total', { reason: 'invalid' }],
			...['status', 'connect', 'timeout', 'broken', 'health', 'probe'].map(
				(reason) => ['proxy_circuit_transitions_total', { upstream: 'a:1', to: 'open', reason }] as const,
			),
			['proxy_upstream_retries_total', { upstream: 'a:1', reason: 'stale' }],
			['proxy_ratelimited_total', {}],
			...FORBIDDEN_REASONS.map((reason) => ['proxy_forbidden_total', { reason }] as const),
			...RATE_LIMIT_REASONS.map((reason) => ['proxy_ratelimit_refusals_total', { reason }] as const),
			['proxy_tls_handshake_seconds_count', {}],
			['proxy_tls_handshake_failures_total', {}],
			...HANDSHAKE_REFUSALS.map((reason) => ['proxy_tls_handshake_refusals_total', { reason }] as const),
			['proxy_connections_refused_total', { reason: 'max_connections' }],
			['proxy_connections_refused_total', { reason: 'descriptors' }],
			['proxy_access_log_dropped_total', {}],
			['proxy_reads_delayed_total', { protocol: 'h2' }],
			['proxy_connections_ended_total', { reason: 'revoked' }],
			['proxy_connections_ended_total', { reason: 'age' }],
			['proxy_http2_connection_errors_total', { reason: 'control-flood' }],
			['proxy_http2_connection_errors_total', { reason: 'preface' }],
			['proxy_reloads_total', { result: 'success' }],
			['proxy_reloads_total', { result: 'failure' }],
		] as const;
		for (const [name, labels] of zeros as readonly (readonly [string, Readonly<Record<string, string>>])[]) {
			const family = page.get(name.replace(/_count$/, ''))!;
			const [sample, ...others] = family.samples.filter((one) => {
				return one.name === name && Object.entries(labels).every(([label, value]) => one.labels[label] === value);
			});
			assert.deepEqual([sample?.value, others.length], [0, 0], `${name} ${JSON.stringify(labels)}`);
		}
	});

	test('shows breakers open and upstreams not alive before their first verdict', async () => {
		const page = await scrape(testSources('a:1').sources);
		assert.equal(sampleSum(page, 'proxy_circuit_state', { upstream: 'a:1' }), 1);
		assert.equal(sampleSum(page, 'proxy_upstream_alive', { upstream: 'a:1' }), 0);
	});
});

describe('a later scrape', () => {
	test('adds the workers up', async () => {
		const { sources, workerStats, upstreamStats } = testSources('a:1');
		const [first, second] = workerStats as [WorkerStats, WorkerStats];
		for (const stats of [first, second]) {
			stats.count('auth', 'missing');
			stats.responded(401);
			stats.connections('h2', 2);
			stats.count('http2Errors', 'reset-flood');
			stats.handshakes.record(10, 0);
		}
		second.count('auth', 'invalid');
		first.count('forbidden', 'tenant');
		second.count('forbidden', 'tenant');
		second.count('rateLimited', 'route');
		first.count('rateLimited', 'tenant');
		first.count('handshakeRefusals', 'expired');
		second.count('handshakeRefusals', 'unknown CA');
		second.count('connectionRefusals', 'max_connections');
		second.count('dropped', 'access lines');
		first.count('readsDelayed', 'http/1.1');
		second.count('readsDelayed', 'http/1.1');
		for (const worker of [0, 1]) {
			const stats = upstreamStats('a:1', worker);
			stats.responded(200);
			stats.connections('idle', 1);
			stats.roundTrips.record(50, 0);
		}
		upstreamStats('a:1', 1).responded(503);
		const page = await scrape(sources);
		const sums = [
			['proxy_requests_total', { status: '401' }, 2],
			['proxy_requests_total', { status: '200', upstream: 'a:1' }, 2],
			['proxy_requests_total', { status: '503', upstream: 'a:1' }, 1],
			['proxy_requests_total', {}, 5],
			['proxy_request_duration_seconds_count', { upstream: 'a:1' }, 2],
			['proxy_request_duration_seconds_sum', { upstream: 'a:1' }, 0.1],
			['proxy_auth_failures_total', { reason: 'missing' }, 2],
			['proxy_auth_failures_total', { reason: 'invalid' }, 1],
			['proxy_forbidden_total', { reason: 'tenant' }, 2],
			['proxy_forbidden_total', {}, 2],
			['proxy_ratelimited_total', {}, 2],
			['proxy_ratelimit_refusals_total', { reason: 'route' }, 1],
			['proxy_ratelimit_refusals_total', {}, 2],
			['proxy_tls_handshake_seconds_count', {}, 2],
			['proxy_tls_handshake_failures_total', {}, 2],
			['proxy_tls_handshake_refusals_total', { reason: 'expired' }, 1],
			['proxy_tls_handshake_refusals_total', {}, 2],
			['proxy_connections_refused_total', { reason: 'max_connections' }, 1],
			['proxy_connections_refused_total', {}, 1],
			['proxy_access_log_dropped_total', {}, 1],
			['proxy_reads_delayed_total', { protocol: 'http/1.1' }, 2],
			['proxy_reads_delayed_total', {}, 2],
			['proxy_connections', { protocol: 'h2' }, 4],
			['proxy_http2_connection_errors_total', { reason: 'reset-flood' }, 2],
			['proxy_http2_connection_errors_total', {}, 2],
			['proxy_connections', { protocol: 'http/1.1' }, 0],
			['proxy_upstream_connections', { upstream: 'a:1', state: 'idle' }, 2],
			['proxy_upstream_connections', { upstream: 'a:1', state: 'active' }, 0],
			['proxy_workers', {}, 2],
		] as const;
		for (const [name, labels, sum] of sums) {
			assert.equal(sampleSum(page, name, labels), sum, `${name} ${JSON.stringify(labels)}`);
		}
	});

	test('says how long CRLs are fresh, for each CA by the freshest', async () => {
		const { sources, inForce } = testSources('a:1');
		assert.equal((await scrape(sources)).has('proxy_crl_next_update_seconds'), false);
		const crl = { caId: 'a', issuer: 'CN=A', thisUpdate: 0, covers: 'all', serials: serialMemory([]) } as const;
		const crls = [
			{ ...crl, nextUpdate: sources.wallSeconds() - 5 },
			{ ...crl, nextUpdate: sources.wallSeconds() + 60 },
			{ ...crl, caId: 'b', issuer: 'CN=B', nextUpdate: sources.wallSeconds() - 7 },
		];
		const rules = { crlRequired: false, revoked: NOTHING_REVOKED, endAtExpiry: true, endAtCaRemoval: false };
		inForce.tls = { ...inForce.tls, clients: { ...rules, crls } };
		const page = await scrape(sources);
		assert.equal(sampleSum(page, 'proxy_crl_next_update_seconds', { issuer: 'CN=A' }), 60);
		assert.equal(sampleSum(page, 'proxy_crl_next_update_seconds', { issuer: 'CN=B' }), -7);
	});

	test('adds the transitions of a circuit by workers and by health probes', async () => {
		const { sources, upstreams, upstreamStats } = testSources('a:1');
		for (const worker of [0, 1]) upstreamStats('a:1', worker).transitions.count('open', 'status');
		upstreamStats('a:1', 1).transitions.count('half-open', 'probe');
		upstreams.current.endpoints.get('a:1')!.breaker.health(true, 0);
		const page = await scrape(sources);
		const name = 'proxy_circuit_transitions_total';
		assert.equal(sampleSum(page, name, { upstream: 'a:1', to: 'open', reason: 'status' }), 2);
		assert.equal(sampleSum(page, name, { upstream: 'a:1', to: 'half-open', reason: 'probe' }), 1);
		assert.equal(sampleSum(page, name, { upstream: 'a:1', to: 'closed', reason: 'health' }), 1);
		assert.equal(sampleSum(page, name), 4);
	});

	test('has no health of an upstream without probes', async () => {
		const { sources, upstreams } = testSources();
		upstreams.apply(upstreams.plan([withUpstream(route('/', 'a:1'), { health: undefined })]));
		const page = await scrape(sources);
		assert.equal(page.get('proxy_upstream_alive')!.samples.length, 0);
		assert.equal(sampleSum(page, 'proxy_circuit_state', { upstream: 'a:1' }), 0);
	});

	test('shows only upstreams of the table in force', async () => {
		const { sources, upstreams } = testSources('a:1', 'b:2');
		upstreams.apply(upstreams.plan([route('/', 'b:2')]));
		const page = await scrape(sources);
		const seen = new Set(
			Array.from(page.values()).flatMap(({ samples }) => samples.map(({ labels }) => labels.upstream)),
		);
		assert.deepEqual([...seen].filter(Boolean), ['b:2']);
	});

	test('shows what reloads have done', async () => {
		const { sources, inForce } = testSources();
		inForce.generation = 4;
		inForce.reloads.success = 3;
		inForce.reloads.failure = 1;
		const page = await scrape(sources);
		assert.equal(sampleSum(page, 'proxy_config_generation'), 4);
		assert.equal(sampleSum(page, 'proxy_reloads_total', { result: 'success' }), 3);
		assert.equal(sampleSum(page, 'proxy_reloads_total', { result: 'failure' }), 1);
	});
});

describe('the page of many upstreams', () => {
	test('is rendered in slices, and other work runs in between', async () => {
		const { sources } = testSources(...Array.from({ length: 2000 }, (_, i) => `up-${i}:1`));
		let steps = 0;
		for (const _ of writeProxyFamilies(new Exposition(), sources)) steps++;
		assert.ok(steps > 2000 * 5, `${steps} steps`);
		using listener = await listening(sources);
		let turns = 0;
		const count = () => {
			turns++;
			turn = setImmediate(count);
		};
		let turn = setImmediate(count);
		const { status, body } = await call(listener.port, '/metrics');
		clearImmediate(turn);
		assert.equal(status, 200);
		assert.ok(turns > 5, `${turns} turns`);
		assert.equal(parseMetrics(body).get('proxy_circuit_state')!.samples.length, 2000);
	});

	test('is unchanged in every bucket if nothing happened since the last scrape', async () => {
		const { sources, upstreams } = testSources('a:1');
		const { durations } = upstreams.current.endpoints.get('a:1')!.counters;
		BucketCounts.view(LAYOUT, durations, 0).record(5);
		BucketCounts.view(LAYOUT, durations, 1).record(50);
		const buckets = async () => (await scrape(sources)).get('proxy_upstream_duration_seconds')!.samples;
		const first = await buckets();
		assert.deepEqual(
			first.map(({ value }) => value),
			[1, 2, 2, 2, 0.055],
		);
		assert.deepEqual(await buckets(), first);
	});
});

describe('the metrics listener', () => {
	test("answers GET with the format's content type, and HEAD with the same head", async () => {
		using listener = await listening(testSources('a:1').sources);
		const get = await call(listener.port, '/metrics');
		assert.equal(get.status, 200);
		assert.equal(get.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
		assert.equal(Number(get.headers['content-length']), Buffer.byteLength(get.body));
		const head = await call(listener.port, '/metrics', 'HEAD');
		assert.deepEqual([head.status, head.body], [200, '']);
		assert.equal(head.headers['content-type'], get.headers['content-type']);
	});

	test('does not look at the query', async () => {
		using listener = await listening(testSources().sources);
		assert.equal((await call(listener.port, '/metrics?name[]=x')).status, 200);
	});

	for (const path of [
		'/',
		'/metrics/',
		'/metricsx',
		'/Metrics',
		'/health',
		'/livez/',
		'/ready',
		'//metrics',
		'/%6detrics',
	]) {
		test(`answers ${path} with 404`, async () => {
			using listener = await listening(testSources().sources);
			assert.equal((await call(listener.port, path)).status, 404);
		});
	}

	for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
		test(`answers ${method} with 405 and what is allowed`, async () => {
			using listener = await listening(testSources().sources);
			for (const path of ['/metrics', '/livez', '/readyz']) {
				const { status, headers } = await call(listener.port, path, method);
				assert.deepEqual([status, headers.allow], [405, 'GET, HEAD'], path);
			}
		});
	}

	test('says at /readyz whether it is ready, and why not, whatever it said before', async () => {
		const readiness = { ...STARTING };
		using listener = await listening(testSources().sources, readiness);
		const said = async (method: string) => {
			const { status, headers, body } = await call(listener.port, '/readyz?verbose', method);
			assert.deepEqual([headers['content-type'], headers['cache-control']], ['text/plain; charset=utf-8', 'no-store']);
			return `${status} ${body}`;
		};
		assert.deepEqual([await said('GET'), await said('HEAD')], ['503 not ready: starting', '503 ']);
		readiness.obstacle = undefined;
		assert.deepEqual([await said('GET'), await said('HEAD')], ['200 ready', '200 ']);
		readiness.obstacle = 'shutting down';
		assert.equal(await said('GET'), '503 not ready: shutting down');
	});

	test('says at /livez that it is alive, ready or not', async () => {
		using listener = await listening(testSources().sources, STARTING);
		const { status, headers, body } = await call(listener.port, '/livez');
		assert.deepEqual([status, headers['cache-control'], body], [200, 'no-store', 'alive']);
		const head = await call(listener.port, '/livez', 'HEAD');
		assert.deepEqual([head.status, head.body], [200, '']);
	});

	test('answers 421 to a Host that DNS rebinding could use, on every readable path', async () => {
		using listener = await listening(testSources().sources, READY, ['Edge.example.com']);
		const statusFor = async (path: string, host: string) => (await call(listener.port, path, 'GET', { host })).status;
		const own = ['127.0.0.1:9090', '[::1]:9090', 'proxy', 'proxy.prod.svc.cluster.local:9090', 'edge.example.com:9090'];
		for (const path of ['/metrics', '/process']) {
			assert.equal(await statusFor(path, 'rebound.example'), 421, path);
			for (const host of own) assert.equal(await statusFor(path, host), 200, `${path} ${host}`);
		}
		for (const path of ['/livez', '/readyz']) assert.equal(await statusFor(path, 'rebound.example'), 200, path);
	});

	test('says at /process in which phase of its life it is', async () => {
		using listener = await listening(testSources().sources, { phase: 'stopping', obstacle: 'shutting down' });
		assert.equal(JSON.parse((await call(listener.port, '/process')).body).phase, 'stopping');
	});

	test('says in one line that its address is taken', async () => {
		using listener = await listening(testSources().sources);
		const address = { host: '127.0.0.1', port: listener.port };
		await assert.rejects(
			startAdmin(address, { sources: testSources().sources, readiness: READY, log: new RecordedLog().logger }),
			{
				name: 'StartError',
				message: `cannot listen on 127.0.0.1:${listener.port} (--metrics-bind): the address is in use (EADDRINUSE); stop the other process or name another port`,
			},
		);
	});

	test('ends a connection whose client does not read the page that it has asked for', async () => {
		// More than the kernel holds of it.
		const body = 'x'.repeat(32 * 2 ** 20);
		const ended = Promise.withResolvers<boolean>();
		const big: Page = ({ socket }) => {
			socket.once('close', () => ended.resolve(socket.writableFinished));
			return { status: 200, body };
		};
		const address = { host: '127.0.0.1', port: 0 };
		const { logger } = new RecordedLog();
		const listener = await startAdmin(address, {
			sources: testSources().sources,
			readiness: READY,
			log: logger,
			status: new Map([['/big', big]]),
			stalledMs: 100,
		});
		const socket = connect(listener.port, '127.0.0.1').on('error', () => {});
		socket.write('GET /big HTTP/1.1\r\nhost: localhost\r\n\r\n');
		try {
			assert.equal(await within(ended.promise, 'the connection to be ended'), false);
		} finally {
			socket.destroy();
			listener.close();
		}
	});

	test('ends open connections when it is closed', async () => {
		const listener = await listening(testSources().sources);
		const socket = connect(listener.port, '127.0.0.1');
		await new Promise((resolve) => socket.once('connect', resolve));
		// Once the server has it, too.
		await call(listener.port, '/metrics');
		listener.close();
		await new Promise((resolve) => socket.once('close', resolve));
	});
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { NOTHING_REVOKED } from '../../../../packages/gate/src/identity/revocations.ts';
import { Exposition, type FamilyDescription } from '../../../../packages/proxy/src/control/metrics/exposition.ts';
import { type MetricSources, writeProxyFamilies } from '../../../../packages/proxy/src/control/metrics/families.ts';
import { FAMILIES } from '../../../../packages/proxy/src/control/metrics/family-table.ts';
import { readProcess, writeProcessFamilies } from '../../../../packages/proxy/src/control/metrics/process-families.ts';
import { STORE_FAILURES } from '../../../../packages/proxy/src/control/store/failure.ts';
import { BucketCounts } from '../../../../packages/proxy/src/memory/bucket-counts.ts';
import type { WorkerStats } from '../../../../packages/proxy/src/memory/worker-stats.ts';
import { serialMemory } from '../../../fixtures/crl.ts';
import { inOneGo } from '../../../fixtures/in-one-go.ts';
import { parseMetrics, type Scrape, sampleSum } from '../../../fixtures/prometheus.ts';
import { LAYOUT, testSources } from '../fixtures/metric-sources.ts';
import { route, withUpstream } from '../fixtures/routes.ts';

async function scrape(sources: MetricSources): Promise<Scrape> {
	const page = new Exposition();
	inOneGo(writeProxyFamilies(page, sources));
	writeProcessFamilies(page, await readProcess());
	return parseMetrics(page.end().toString());
}

/** Those that are there only with a CRL, with `[trace]`, `[limiter]` or `[[upstreams]]`, with an issuer's keys over the network, after a gRPC call, or where the system tells of it. */
const SOMETIMES =
	/_crl_|_dns_|_upstream_queue|_jwks_|_trace_|_limiter_|_open_fds|_last_probe|_virtual_|_denied_|_grpc_/;
const FAMILY_TYPES = Object.fromEntries(
	Object.values<FamilyDescription>(FAMILIES)
		.filter(({ name }) => !SOMETIMES.test(name))
		.map(({ name, type }) => [name, type === 'info' ? 'gauge' : type]),
);

type Expected = readonly [name: string, labels: Readonly<Record<string, string>>, sum: number];

function assertSums(page: Scrape, sums: readonly Expected[]): void {
	for (const [name, labels, sum] of sums) {
		assert.equal(sampleSum(page, name, labels), sum, `${name} ${JSON.stringify(labels)}`);
	}
}

const valuesOf = (page: Scrape, name: string) => page.get(name)?.samples.map(({ value }) => value);

test('a family has a unit if its name ends in one, and only then', () => {
	for (const { name, unit } of Object.values<FamilyDescription>(FAMILIES)) {
		assert.equal(/_(seconds|bytes|ratio)(_total)?$/.exec(name)?.[1], unit, name);
	}
});

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
		const facts = {
			isAway: true,
			reason: 'timeout',
			cause: 'no answer in time',
			forMs: 5,
			onStoreFailure: 'share',
			replicas: 4,
			part: undefined,
			delayMs: 205,
			calls: { success: 9, failures: new Map([['timeout', 2] as const]) },
			revocations: undefined,
		} as const;
		const page = await scrape({ ...sources, store: () => facts });
		assertSums(page, [
			['proxy_limiter_store_up', {}, 0],
			['proxy_limiter_replicas', {}, 4],
			['proxy_limiter_settle_seconds', {}, 0.205],
			['proxy_limiter_store_calls_total', { result: 'success' }, 9],
			['proxy_limiter_store_calls_total', { result: 'timeout' }, 2],
			['proxy_limiter_store_calls_total', {}, 11],
		]);
		assert.equal(page.get('proxy_limiter_store_calls_total')!.samples.length, 1 + STORE_FAILURES.length);
		assert.equal(page.has('proxy_limiter_store_revocations'), false);
		const withRevocations = await scrape({ ...sources, store: () => ({ ...facts, revocations: 0 }) });
		assert.deepEqual(valuesOf(withRevocations, 'proxy_limiter_store_revocations'), [0]);
	});

	test('has the exported spans, and those lost here or in a worker', async () => {
		const { sources } = testSources();
		sources.state.memory.stats[0]!.count('dropped', 'spans');
		const page = await scrape({ ...sources, spans: () => ({ exported: 5, failed: 3, dropped: 1 }) });
		assertSums(page, [
			['proxy_trace_spans_total', { result: 'exported' }, 5],
			['proxy_trace_spans_total', { result: 'dropped' }, 2],
			['proxy_trace_spans_total', { result: 'failed' }, 3],
		]);
	});

	test('has the keys of each issuer with keys from the network, and the addresses of each upstream with dns', async () => {
		const known = { fetches: { success: 2, failure: 3 }, ageMs: 1500 };
		const unknown = { fetches: { success: 0, failure: 3 }, value: undefined, ageMs: undefined };
		const keys = { named: true, keys: [{ kid: 'a', pem: '', algorithms: ['RS256' as const] }] };
		const refresher = { start: () => {}, stop: () => {} };
		const addresses = ['10.0.0.1', '10.0.0.2'].map((host) => ({ authority: `${host}:80`, host, port: 80 }));
		const dns = { authority: 'a.internal:80', failing: undefined };
		const page = await scrape({
			...testSources().sources,
			remoteKeys: () => [
				{ ...refresher, ...known, issuer: { issuer: 'https://a.test' }, value: keys },
				{ ...refresher, ...unknown, issuer: { issuer: 'https://b.test' } },
			],
			addresses: () => [
				{ ...dns, ...known, group: 'a', value: addresses },
				{ ...dns, ...unknown, group: 'b' },
			],
		});
		const [issuer, group] = [{ issuer: 'https://a.test' }, { group: 'a' }];
		assertSums(page, [
			['proxy_jwks_fetches_total', { ...issuer, result: 'success' }, 2],
			['proxy_jwks_fetches_total', { ...issuer, result: 'failure' }, 3],
			['proxy_jwks_age_seconds', issuer, 1.5],
			['proxy_dns_lookups_total', { ...group, result: 'success' }, 2],
			['proxy_dns_lookups_total', { group: 'b', result: 'failure' }, 3],
			['proxy_dns_age_seconds', group, 1.5],
		]);
		assert.deepEqual(valuesOf(page, 'proxy_jwks_keys'), [1, 0]);
		assert.deepEqual(valuesOf(page, 'proxy_dns_addresses'), [2, 0]);
		for (const name of ['proxy_jwks_age_seconds', 'proxy_dns_age_seconds']) {
			assert.equal(page.get(name)!.samples.length, 1, name);
		}
	});

	test('begins all counters at zero, with a series for each value of a label that has a fixed list', async () => {
		const page = await scrape(testSources('a:1', 'b:2').sources);
		for (const { name, type, labels } of Object.values<FamilyDescription>(FAMILIES)) {
			const samples = page.get(name)?.samples ?? [];
			if (type !== 'counter' || !name.startsWith('proxy_') || SOMETIMES.test(name)) continue;
			for (const { labels, value } of samples) assert.equal(value, 0, `${name} ${JSON.stringify(labels)}`);
			const [[label, values] = ['', ''], ...others] = Object.entries(labels);
			if (typeof values === 'string' || others.length > 0) continue;
			const seen = samples.map(({ labels }) => labels[label]);
			assert.deepEqual(seen, [...values], name);
		}
	});

	test('has series of each upstream for alerts to start from', async () => {
		const page = await scrape(testSources('a:1', 'b:2').sources);
		const seriesOf = (name: string, label: string) =>
			page.get(name)!.samples.map(({ labels }) => `${labels.upstream} ${labels[label]}`);
		const ofBoth = (...values: string[]) => ['a:1', 'b:2'].flatMap((name) => values.map((value) => `${name} ${value}`));
		assert.deepEqual(seriesOf('proxy_requests_total', 'status'), ['undefined 404', ...ofBoth('200')]);
		assert.deepEqual(seriesOf('proxy_upstream_retries_total', 'reason'), ofBoth('stale'));
		const reasons = seriesOf('proxy_circuit_transitions_total', 'reason');
		assert.deepEqual(reasons.toSorted(), ofBoth('broken', 'connect', 'health', 'probe', 'status', 'timeout'));
	});

	test('shows breakers open and upstreams not alive before their first verdict', async () => {
		assertSums(await scrape(testSources('a:1').sources), [
			['proxy_circuit_state', { upstream: 'a:1' }, 1],
			['proxy_upstream_alive', { upstream: 'a:1' }, 0],
		]);
	});
});

describe('a later scrape', () => {
	test('adds the workers up, and has the transitions by health probes and the reloads', async () => {
		const { sources, workerStats, upstreams, upstreamStats, inForce } = testSources('a:1');
		const [first, second] = workerStats as [WorkerStats, WorkerStats];
		for (const stats of [first, second]) {
			stats.count('auth', 'missing');
			stats.responded(401);
			stats.connections('h2', 2);
			stats.count('http2Errors', 'reset-flood');
			stats.handshakes.record(10, 0);
			stats.count('forbidden', 'tenant');
			stats.count('readsDelayed', 'http/1.1');
		}
		second.count('auth', 'invalid');
		second.count('rateLimited', 'route');
		first.count('rateLimited', 'tenant');
		first.count('handshakeRefusals', 'expired');
		second.count('handshakeRefusals', 'unknown CA');
		second.count('connectionRefusals', 'max_connections');
		second.count('dropped', 'access lines');
		for (const worker of [0, 1]) {
			const stats = upstreamStats('a:1', worker);
			stats.responded(200);
			stats.connections('idle', 1);
			stats.roundTrips.record(50, 0);
			stats.transitions.count('open', 'status');
		}
		upstreamStats('a:1', 1).responded(503);
		upstreamStats('a:1', 1).transitions.count('half-open', 'probe');
		upstreams.current.endpoints.get('a:1')!.breaker.health(true, 0);
		inForce.generation = 4;
		inForce.reloads = { success: 3, failure: 1 };
		const up = { upstream: 'a:1' };
		assertSums(await scrape(sources), [
			['proxy_requests_total', { status: '401' }, 2],
			['proxy_requests_total', { status: '200', ...up }, 2],
			['proxy_requests_total', { status: '503', ...up }, 1],
			['proxy_requests_total', {}, 5],
			['proxy_request_duration_seconds_count', up, 2],
			['proxy_request_duration_seconds_sum', up, 0.1],
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
			['proxy_connections', { protocol: 'http/1.1' }, 0],
			['proxy_http2_connection_errors_total', { reason: 'reset-flood' }, 2],
			['proxy_http2_connection_errors_total', {}, 2],
			['proxy_upstream_connections', { ...up, state: 'idle' }, 2],
			['proxy_upstream_connections', { ...up, state: 'active' }, 0],
			['proxy_circuit_transitions_total', { ...up, to: 'open', reason: 'status' }, 2],
			['proxy_circuit_transitions_total', { ...up, to: 'half-open', reason: 'probe' }, 1],
			['proxy_circuit_transitions_total', { ...up, to: 'closed', reason: 'health' }, 1],
			['proxy_circuit_transitions_total', {}, 4],
			['proxy_workers', {}, 2],
			['proxy_config_generation', {}, 4],
			['proxy_reloads_total', { result: 'success' }, 3],
			['proxy_reloads_total', { result: 'failure' }, 1],
		]);
	});

	test('says how long CRLs are fresh, for each CA by the freshest', async () => {
		const { sources, inForce, clock } = testSources('a:1');
		assert.equal((await scrape(sources)).has('proxy_crl_next_update_seconds'), false);
		const crl = { caId: 'a', issuer: 'CN=A', thisUpdate: 0, covers: 'all', serials: serialMemory([]) } as const;
		const crls = [
			{ ...crl, nextUpdate: clock.wallSeconds() - 5 },
			{ ...crl, nextUpdate: clock.wallSeconds() + 60 },
			{ ...crl, caId: 'b', issuer: 'CN=B', nextUpdate: clock.wallSeconds() - 7 },
		];
		const rules = { crlRequired: false, revoked: NOTHING_REVOKED, endAtExpiry: true, endAtCaRemoval: false };
		inForce.tls = { ...inForce.tls, clients: { ...rules, crls } };
		assertSums(await scrape(sources), [
			['proxy_crl_next_update_seconds', { issuer: 'CN=A' }, 60],
			['proxy_crl_next_update_seconds', { issuer: 'CN=B' }, -7],
		]);
	});

	test('has no health of an upstream without probes, and no upstream that has left the table', async () => {
		const { sources, upstreams } = testSources('b:2');
		upstreams.apply(upstreams.plan([withUpstream(route('/', 'a:1'), { health: undefined })]));
		const page = await scrape(sources);
		assert.deepEqual(valuesOf(page, 'proxy_upstream_alive'), []);
		assert.deepEqual(valuesOf(page, 'proxy_circuit_state'), [0]);
	});

	test('is unchanged in every bucket if nothing happened since the last one', async () => {
		const { sources, upstreams } = testSources('a:1');
		const { durations } = upstreams.current.endpoints.get('a:1')!.counters;
		BucketCounts.view(LAYOUT, durations, 0).record(5);
		BucketCounts.view(LAYOUT, durations, 1).record(50);
		for (const which of ['first', 'second']) {
			const values = valuesOf(await scrape(sources), 'proxy_upstream_duration_seconds');
			assert.deepEqual(values, [1, 2, 2, 2, 0.055], which);
		}
	});
});

test('a page is written in steps, at least five for each upstream: other work runs in between', () => {
	const stepsOf = (upstreams: number) => {
		const { sources } = testSources(...Array.from({ length: upstreams }, (_, i) => `up-${i}:1`));
		return [...writeProxyFamilies(new Exposition(), sources)].length;
	};
	const [none, many] = [stepsOf(0), stepsOf(100)];
	assert.ok(many - none >= 5 * 100, `${many} steps, without upstreams ${none}`);
});

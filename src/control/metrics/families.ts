import type { KeySetSeed } from '../../identity/key-set.ts';
import { Summary } from '../../shared/histogram.ts';
import type { SelfRefreshing } from '../../shared/jwks/key-refresher.ts';
import { TRANSITIONS, UpstreamStats, type WorkerStats } from '../../shared/stats.ts';
import type { ProcessMemory } from '../process-memory.ts';
import type { ConfigInForce } from '../reload/config-in-force.ts';
import type { ReloadJournal } from '../reload/journal.ts';
import type { RouteCounters, Upstream } from '../upstreams.ts';
import type { Exposition } from './exposition.ts';

/** What the proxy's own metrics are read from at each scrape. */
export interface MetricSources {
	readonly build: { readonly version: string; readonly bodyMode: string; readonly node: string };
	/** One a worker. */
	readonly workerStats: readonly WorkerStats[];
	/** Workers that accept connections. */
	readonly listening: () => number;
	/** Of the table in force. */
	readonly upstreams: () => Iterable<Upstream>;
	readonly inForce: Pick<ConfigInForce, 'generation' | 'reloads' | 'tls'>;
	/** By prefix, of the table in force. */
	readonly routes: () => ReadonlyMap<string, Pick<RouteCounters, 'stats' | 'createdSeconds'>>;
	/** What reloads have done. */
	readonly journal: Pick<ReloadJournal, 'last' | 'recent'>;
	/** What all workers draw from. */
	readonly budgets: Pick<ProcessMemory, 'limiter' | 'bufferedBytes' | 'connections'>;
	/** Of the issuers whose keys come over the network. */
	readonly remoteKeys: () => Iterable<SelfRefreshing<KeySetSeed> & { readonly issuer: { readonly issuer: string } }>;
	/** Monotonic milliseconds, the scale of the histograms. */
	readonly now: () => number;
	/** Wall-clock seconds since the epoch. */
	readonly wallSeconds: () => number;
}

/**
 * Writes the proxy's families (specification 4.3 and the process's own), workers added up. Every family is there from
 * the first scrape, with zeros where nothing has happened yet, so that no alert starts from a gap.
 */
export function writeProxyFamilies(page: Exposition, sources: MetricSources): void {
	const now = sources.now();
	const upstreams = Array.from(sources.upstreams(), (upstream) => readUpstream(upstream, now));
	const workers = sources.workerStats.map((stats) => stats.read());
	writeRequests(page, workers, upstreams);
	writeRefusals(page, workers);
	writeHandshakes(page, workers, sources.workerStats, now);
	writeUpstreams(page, upstreams);
	writeConnections(page, workers, upstreams);
	writeLogs(page, workers);
	writeKeys(page, sources);
	writeCrls(page, sources);
	writeState(page, sources);
}

type WorkerReading = ReturnType<WorkerStats['read']>;

interface UpstreamReading {
	/** `host:port`. */
	readonly upstream: string;
	readonly circuit: number;
	/** `undefined` where health is not probed. */
	readonly alive: boolean | undefined;
	/** By `TRANSITIONS`. */
	readonly transitions: readonly number[];
	readonly answers: ReadonlyMap<number, number>;
	readonly idle: number;
	readonly active: number;
	readonly roundTrips: Summary;
}

function readUpstream({ address, breaker, counters, health, alive }: Upstream, now: number): UpstreamReading {
	const regions = counters.stats.map((region) => new UpstreamStats(region));
	const readings = regions.map((region) => region.read());
	const roundTrips = new Summary();
	for (const region of regions) region.roundTrips.addTo(roundTrips, now);
	return {
		upstream: address.authority,
		circuit: breaker.circuit,
		alive: health === undefined ? undefined : alive === true,
		transitions: TRANSITIONS.map((_, i) => total([counters, ...regions], ({ transitions }) => transitions.cells[i]!)),
		// The one status that every upstream is there for, so that each has its series from the start.
		answers: addUp([new Map([[200, 0]]), ...readings.map(({ answers }) => answers)]),
		idle: total(readings, ({ idle }) => idle),
		active: total(readings, ({ active }) => active),
		roundTrips,
	};
}

function writeRequests(
	page: Exposition,
	workers: readonly WorkerReading[],
	upstreams: readonly UpstreamReading[],
): void {
	const requests = page.family(
		'proxy_requests_total',
		'counter',
		'Answers to clients, by status and by the upstream where one was chosen.',
	);
	// A table without routes has no other series, and readers forget a family without samples.
	const ownAnswers = addUp([new Map([[404, 0]]), ...workers.map(({ answers }) => answers)]);
	for (const [status, count] of ownAnswers) requests.sample(count, { status: String(status) });
	for (const { upstream, answers } of upstreams) {
		for (const [status, count] of answers) requests.sample(count, { status: String(status), upstream });
	}
	const durations = page.family(
		'proxy_request_duration_seconds',
		'summary',
		'Successful round trips to the upstream; quantiles over the last minute.',
	);
	for (const { upstream, roundTrips } of upstreams) durations.summary(roundTrips, { upstream });
}

function writeRefusals(page: Exposition, workers: readonly WorkerReading[]): void {
	page
		.family('proxy_auth_failures_total', 'counter', 'Requests without a valid token.')
		.sample(
			total(workers, ({ authMissing }) => authMissing),
			{ reason: 'missing' },
		)
		.sample(
			total(workers, ({ authInvalid }) => authInvalid),
			{ reason: 'invalid' },
		);
	page
		.family('proxy_ratelimited_total', 'counter', "Requests over their tenant's limit.")
		.sample(total(workers, ({ rateLimited }) => sum(rateLimited.values())));
	const forbidden = page.family(
		'proxy_forbidden_total',
		'counter',
		'Requests that may not use their route, by what forbids it: the certificate, the tenant or the scopes.',
	);
	for (const [reason, count] of addUp(workers.map((worker) => worker.forbidden))) forbidden.sample(count, { reason });
	const limits = page.family(
		'proxy_ratelimit_refusals_total',
		'counter',
		'The requests over a limit, by which one it was; together they are proxy_ratelimited_total.',
	);
	for (const [reason, count] of addUp(workers.map(({ rateLimited }) => rateLimited))) limits.sample(count, { reason });
}

function writeHandshakes(
	page: Exposition,
	workers: readonly WorkerReading[],
	stats: readonly WorkerStats[],
	now: number,
): void {
	const handshakes = new Summary();
	for (const { handshakes: own } of stats) own.addTo(handshakes, now);
	page
		.family(
			'proxy_tls_handshake_seconds',
			'summary',
			'TLS handshakes that succeeded, from accept to end; quantiles over the last minute.',
		)
		.summary(handshakes);
	page
		.family(
			'proxy_tls_handshake_failures_total',
			'counter',
			'Connections closed because their TLS handshake failed or took too long.',
		)
		.sample(total(workers, ({ handshakeRefusals }) => sum(handshakeRefusals.values())));
	const refusals = page.family(
		'proxy_tls_handshake_refusals_total',
		'counter',
		'The handshakes that failed, by the reason; together they are proxy_tls_handshake_failures_total.',
	);
	for (const [reason, count] of addUp(workers.map(({ handshakeRefusals }) => handshakeRefusals))) {
		refusals.sample(count, { reason });
	}
}

/** Of several CRLs of one CA the freshest one counts, as it does at a handshake. */
function writeCrls(page: Exposition, { inForce, wallSeconds }: MetricSources): void {
	const crls = inForce.tls.clients?.crls ?? [];
	// A family without samples is one that readers forget.
	if (crls.length === 0) return;
	const family = page.family(
		'proxy_crl_next_update_seconds',
		'gauge',
		'Seconds until the CRL of a CA has to be replaced; negative: so long ago it should have been.',
	);
	const latest = new Map<string, number>();
	for (const { issuer, nextUpdate } of crls) {
		latest.set(issuer, Math.max(nextUpdate, latest.get(issuer) ?? Number.NEGATIVE_INFINITY));
	}
	for (const [issuer, nextUpdate] of latest) family.sample(Math.round(nextUpdate - wallSeconds()), { issuer });
}

function writeLogs(page: Exposition, workers: readonly WorkerReading[]): void {
	page
		.family(
			'proxy_access_log_dropped_total',
			'counter',
			'Lines of the access log that were dropped because whoever reads the log did not keep up.',
		)
		.sample(total(workers, ({ accessLinesDropped }) => accessLinesDropped));
}

function writeUpstreams(page: Exposition, upstreams: readonly UpstreamReading[]): void {
	const circuits = page.family('proxy_circuit_state', 'gauge', 'Circuit breaker: 0 closed, 1 open, 2 half-open.');
	for (const { upstream, circuit } of upstreams) circuits.sample(circuit, { upstream });
	const alive = page.family('proxy_upstream_alive', 'gauge', 'Last health probe: 1 passed, 0 failed or not made yet.');
	for (const { upstream, alive: passed } of upstreams) {
		if (passed !== undefined) alive.sample(passed ? 1 : 0, { upstream });
	}
	const transitions = page.family(
		'proxy_circuit_transitions_total',
		'counter',
		'Changes of the circuit breaker, by what it became and why.',
	);
	for (const { upstream, transitions: counts } of upstreams) {
		for (const [i, { to, reason }] of TRANSITIONS.entries()) {
			// What alerts are made of is there from the start. All of it would be a third of the page of a thousand upstreams.
			if (counts[i] !== 0 || to === 'open') transitions.sample(counts[i]!, { upstream, to, reason });
		}
	}
}

function writeConnections(
	page: Exposition,
	workers: readonly WorkerReading[],
	upstreams: readonly UpstreamReading[],
): void {
	const clients = page.family(
		'proxy_connections',
		'gauge',
		'Client connections, by the protocol they speak or are still negotiating.',
	);
	for (const protocol of ['handshake', 'http/1.1', 'h2'] as const) {
		clients.sample(
			total(workers, ({ connections }) => connections[protocol]),
			{ protocol },
		);
	}
	const refused = page.family(
		'proxy_connections_refused_total',
		'counter',
		'Client connections closed before their handshake, for max_connections or for want of file descriptors.',
	);
	for (const [reason, count] of addUp(workers.map(({ connectionRefusals }) => connectionRefusals))) {
		refused.sample(count, { reason });
	}
	const ends = page.family(
		'proxy_connections_ended_total',
		'counter',
		'Client connections ended for their certificate (revoked, expired, its CA removed), or for their age.',
	);
	for (const [reason, count] of addUp(workers.map(({ connectionEnds }) => connectionEnds)))
		ends.sample(count, { reason });
	const errors = page.family(
		'proxy_http2_connection_errors_total',
		'counter',
		'HTTP/2 connections that were ended with an error, by what their clients had done.',
	);
	for (const [reason, count] of addUp(workers.map(({ http2Errors }) => http2Errors))) errors.sample(count, { reason });
	const connections = page.family(
		'proxy_upstream_connections',
		'gauge',
		'Connections to upstreams, in use or waiting for the next request.',
	);
	for (const { upstream, active, idle } of upstreams) {
		connections.sample(active, { upstream, state: 'active' }).sample(idle, { upstream, state: 'idle' });
	}
}

function writeKeys(page: Exposition, { remoteKeys }: MetricSources): void {
	const all = Array.from(remoteKeys(), (keys) => ({ labels: { issuer: keys.issuer.issuer }, keys }));
	// Readers forget a family without samples, and most have no such issuer.
	if (all.length === 0) return;
	const fetches = page.family(
		'proxy_jwks_fetches_total',
		'counter',
		'Key sets asked for over the network: success gave one that can be used.',
	);
	for (const { labels, keys } of all) {
		for (const result of ['success', 'failure'] as const) fetches.sample(keys.fetches[result], { ...labels, result });
	}
	const counts = page.family('proxy_jwks_keys', 'gauge', 'Usable keys of the last good set; 0 before the first one.');
	for (const { labels, keys } of all) counts.sample(keys.value?.keys.length ?? 0, labels);
	const ages = page.family('proxy_jwks_age_seconds', 'gauge', 'Time since the last good set was fetched.');
	for (const { labels, keys } of all) if (keys.ageMs !== undefined) ages.sample(keys.ageMs / 1000, labels);
}

function writeState(page: Exposition, { build, listening, inForce }: MetricSources): void {
	page.family('proxy_workers', 'gauge', 'Worker threads that accept connections.').sample(listening());
	page
		.family('proxy_build_info', 'gauge', 'Always 1; the labels say what is running.')
		.sample(1, { version: build.version, body_mode: build.bodyMode, node: build.node });
	page
		.family(
			'proxy_config_generation',
			'gauge',
			'Number of the configuration in force: 1 at the start, one more with each reload that took anything over.',
		)
		.sample(inForce.generation);
	const { success, failure } = inForce.reloads;
	page
		.family(
			'proxy_reloads_total',
			'counter',
			'Reloads asked for: success took everything over, failure kept something old.',
		)
		.sample(success, { result: 'success' })
		.sample(failure, { result: 'failure' });
}

export function addUp<Key>(counts: readonly ReadonlyMap<Key, number>[]): Map<Key, number> {
	const sums = new Map<Key, number>();
	for (const map of counts) for (const [key, count] of map) sums.set(key, (sums.get(key) ?? 0) + count);
	return sums;
}

function sum(counts: Iterable<number>): number {
	let sum = 0;
	for (const count of counts) sum += count;
	return sum;
}

export function total<T>(readings: readonly T[], value: (reading: T) => number): number {
	return readings.reduce((sum, reading) => sum + value(reading), 0);
}

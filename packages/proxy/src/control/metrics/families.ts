import type { KeySetSeed } from '@mtls-edge-proxy/gate/identity/key-set.ts';
import type { SelfRefreshing } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import { countSlotsInUse, limiterSlotCount } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import type { CrlSeed } from '../../identity/client-chain.ts';
import { budgetInUse } from '../../memory/budget.ts';
import { Summary } from '../../memory/histogram.ts';
import { QUEUE_RESULTS, QueueStats } from '../../memory/queue-stats.ts';
import { UpstreamLoad } from '../../memory/upstream-load.ts';
import { TLS_VERSIONS, type WorkerStats } from '../../memory/worker-stats.ts';
import type { HistogramsSeed, UpstreamTlsSeed } from '../../shared/messages.ts';
import { expiringOf, expiringOfUpstreams } from '../facts/certificates.ts';
import { loopFact } from '../facts/loops.ts';
import type { StoreFacts } from '../facts/store.ts';
import type { LogLosses } from '../log-output.ts';
import type { ProcessMemory } from '../process-memory.ts';
import { RELOADED_PARTS, type ReloadJournal } from '../reload/journal.ts';
import type { Endpoint, RouteCounters, Upstream } from '../routing/table.ts';
import type { InForce } from '../state/in-force.ts';
import { STORE_FAILURES } from '../store/failure.ts';
import { addUp, sum, total } from './adding-up.ts';
import type { Exposition } from './exposition.ts';
import { FAMILIES, RESULTS } from './family-table.ts';
import { readBuckets, readUpstreams, writeCircuits, writeResponses, writeTraffic } from './upstream-families.ts';

/** The sources of the proxy's own metrics, read at each scrape. */
export interface MetricSources {
	readonly build: { readonly version: string; readonly bodyMode: string; readonly node: string };
	/** One for each worker. */
	readonly workerStats: readonly WorkerStats[];
	/** Workers that accept connections. */
	readonly listening: () => number;
	/** Of the table in force. */
	readonly upstreams: () => Iterable<Endpoint>;
	/** Of the table in force. */
	readonly groups: () => Iterable<Upstream>;
	readonly inForce: Omit<InForce, 'identity'>;
	/** By prefix, of the table in force. */
	readonly routes: () => ReadonlyMap<string, Pick<RouteCounters, 'stats' | 'createdSeconds'>>;
	/** Results of reloads. */
	readonly journal: Pick<ReloadJournal, 'last' | 'recent'>;
	/** Budgets that all workers share. */
	readonly budgets: Pick<ProcessMemory, 'limiter' | 'bufferedBytes' | 'connections'>;
	/** The memory layout of histograms, and the histograms that belong to no upstream. */
	readonly histograms: HistogramsSeed;
	/** Log lines that could not be written. */
	readonly logLosses: () => LogLosses;
	/** Start of the process, seconds since the epoch. */
	readonly startedSeconds: number;
	/** The issuers whose keys come over the network. */
	readonly remoteKeys: () => Iterable<SelfRefreshing<KeySetSeed> & { readonly issuer: { readonly issuer: string } }>;
	/** The upstreams with addresses from DNS. */
	readonly addresses: () => Iterable<SelfRefreshing<readonly unknown[]> & { readonly group: string }>;
	/** Spans by their outcome in the main thread; `undefined`: nothing is traced. */
	readonly spans?: (() => { readonly exported: number; readonly failed: number; readonly dropped: number }) | undefined;
	/** Returns `undefined` if limits are not shared. */
	readonly store?: (() => StoreFacts | undefined) | undefined;
	/** Monotonic milliseconds, the scale of the histograms. */
	readonly now: () => number;
	/** Wall-clock seconds since the epoch. */
	readonly wallSeconds: () => number;
}

/**
 * Writes the proxy's families, summed across workers. Every family is there from
 * the first scrape, with zeros if nothing has happened yet, so that no alert starts from a gap.
 *
 * A generator, because a page of a thousand upstreams takes longer than health probes should wait: its caller may do other work
 * between two steps.
 */
export function* writeProxyFamilies(page: Exposition, sources: MetricSources): Generator<void> {
	const now = sources.now();
	const { histograms, startedSeconds } = sources;
	const upstreams = yield* readUpstreams(sources.upstreams(), histograms.upstream, now);
	const workers = sources.workerStats.map((stats) => stats.read());
	const unrouted = sources.workerStats.map((stats) => stats.unrouted);
	// A table without routes has no other series, and readers forget a family without samples.
	const ownResponses = addUp([new Map([[404, 0]]), ...workers.map(({ answers }) => answers)]);
	yield* writeResponses(page, ownResponses, upstreams, histograms.upstream);
	yield* writeTraffic(page, sources.routes(), unrouted, startedSeconds);
	yield* writeCircuits(page, upstreams);
	writeRefusals(page, workers);
	writeGates(page, sources, workers);
	writeHandshakes(page, sources, workers, now);
	writeConnections(page, sources, workers);
	yield;
	yield* writeLimiter(page, sources, now);
	writeStore(page, sources);
	writeExpiring(page, sources);
	yield;
	writeSpans(page, sources, workers);
	writeKeys(page, sources);
	writeAddresses(page, sources);
	writeQueues(page, sources);
	writeLoops(page, workers, now);
	writeState(page, sources);
}

type WorkerReading = ReturnType<WorkerStats['read']>;

function writeRefusals(page: Exposition, workers: readonly WorkerReading[]): void {
	page.family(FAMILIES.rateLimited).sample(total(workers, ({ rateLimited }) => sum(rateLimited.values())));
	const byReason = reasonWriter(page, workers);
	byReason(FAMILIES.authFailures, ({ auth }) => auth);
	byReason(FAMILIES.forbidden, ({ forbidden }) => forbidden);
	byReason(FAMILIES.rateLimitRefusals, ({ rateLimited }) => rateLimited);
}

/** Writes a counter that has a reason as its label. */
function reasonWriter(page: Exposition, workers: readonly WorkerReading[]) {
	return (family: (typeof FAMILIES)[keyof typeof FAMILIES], counts: (worker: WorkerReading) => Map<string, number>) => {
		const samples = page.family(family);
		for (const [reason, count] of addUp(workers.map(counts))) samples.sample(count, { reason });
	};
}

function writeGates(page: Exposition, { histograms }: MetricSources, workers: readonly WorkerReading[]): void {
	const { gate, gates } = histograms;
	page.family(FAMILIES.gateDuration).histogram(gate.bounds, readBuckets(gate, gates, workers.length));
	const lookups = page.family(FAMILIES.tokenCache);
	for (const [result, count] of addUp(workers.map(({ tokenCache }) => tokenCache))) lookups.sample(count, { result });
}

function writeHandshakes(
	page: Exposition,
	{ workerStats, histograms: { handshake, handshakes } }: MetricSources,
	workers: readonly WorkerReading[],
	now: number,
): void {
	const summary = new Summary();
	for (const { handshakes: own } of workerStats) own.addTo(summary, now);
	page.family(FAMILIES.handshakeSummary).summary(summary);
	const buckets = readBuckets(handshake, handshakes, workers.length);
	page.family(FAMILIES.handshakeDuration).histogram(handshake.bounds, buckets);
	page
		.family(FAMILIES.handshakeFailures)
		.sample(total(workers, ({ handshakeRefusals }) => sum(handshakeRefusals.values())));
	reasonWriter(page, workers)(FAMILIES.handshakeRefusals, ({ handshakeRefusals }) => handshakeRefusals);
	const agreed = page.family(FAMILIES.handshakesAgreed);
	for (const version of TLS_VERSIONS) {
		const groups = addUp(workers.map((worker) => worker[version]));
		for (const [group, count] of groups) agreed.sample(count, { version, group });
	}
}

function writeConnections(
	page: Exposition,
	{ budgets, logLosses }: MetricSources,
	workers: readonly WorkerReading[],
): void {
	const clients = page.family(FAMILIES.connections);
	for (const [protocol, count] of addUp(workers.map(({ connections }) => connections))) {
		clients.sample(count, { protocol });
	}
	page.family(FAMILIES.connectionsLimit).sample(budgets.connections.limit);
	const byReason = reasonWriter(page, workers);
	byReason(FAMILIES.connectionsRefused, ({ connectionRefusals }) => connectionRefusals);
	byReason(FAMILIES.connectionsEnded, ({ connectionEnds }) => connectionEnds);
	const tunnels = page.family(FAMILIES.tunnelsOpen);
	for (const [protocol, count] of addUp(workers.map((worker) => worker.tunnels))) tunnels.sample(count, { protocol });
	byReason(FAMILIES.tunnelEnds, ({ tunnelEnds }) => tunnelEnds);
	byReason(FAMILIES.http2ConnectionErrors, ({ http2Errors }) => http2Errors);
	byReason(FAMILIES.http2StreamErrors, ({ http2StreamErrors }) => http2StreamErrors);
	const delayed = page.family(FAMILIES.readsDelayed);
	for (const [protocol, count] of addUp(workers.map(({ readsDelayed }) => readsDelayed)))
		delayed.sample(count, { protocol });
	page.family(FAMILIES.bodyMemory).sample(budgetInUse(budgets.bufferedBytes));
	page.family(FAMILIES.bodyMemoryLimit).sample(budgets.bufferedBytes.limit);
	const droppedByWorkers = total(workers, ({ dropped }) => dropped.get('access lines')!);
	page.family(FAMILIES.accessLogDropped).sample(droppedByWorkers + logLosses().accessLines);
}

function* writeLimiter(page: Exposition, { budgets: { limiter } }: MetricSources, now: number): Generator<void> {
	page.family(FAMILIES.rateLimitSlotsInUse).sample(yield* countSlotsInUse(limiter, now));
	page.family(FAMILIES.rateLimitSlots).sample(limiterSlotCount(limiter));
}

const NO_UPSTREAM_TLS: readonly UpstreamTlsSeed[] = [];
function writeStore(page: Exposition, { store }: MetricSources): void {
	const facts = store?.();
	// Readers forget a family without samples.
	if (facts === undefined) return;
	const { isAway, calls, replicas, delayMs, revocations } = facts;
	page.family(FAMILIES.storeUp).sample(isAway ? 0 : 1);
	const results = page.family(FAMILIES.storeCalls).sample(calls.success, { result: 'success' });
	for (const reason of STORE_FAILURES) results.sample(calls.failures.get(reason) ?? 0, { result: reason });
	page.family(FAMILIES.storeReplicas).sample(replicas);
	page.family(FAMILIES.storeDelay).sample(delayMs / 1000);
	if (revocations !== undefined) page.family(FAMILIES.storeRevocations).sample(revocations);
}

function writeExpiring(page: Exposition, { inForce, wallSeconds }: MetricSources): void {
	const expiry = page.family(FAMILIES.certificateExpiry);
	const expiring = [...expiringOf(inForce.tls), ...expiringOfUpstreams(inForce.upstreamTls ?? NO_UPSTREAM_TLS)];
	for (const { kind, subject, serial, expiresSeconds } of expiring) {
		expiry.sample(expiresSeconds, { kind, subject, ...(serial !== '' && { serial }) });
	}
	const crls = inForce.tls.clients?.crls ?? [];
	// Readers forget a family without samples.
	if (crls.length === 0) return;
	const family = page.family(FAMILIES.crlNextUpdate);
	for (const [issuer, nextUpdate] of crlsDue(crls)) {
		family.sample(Math.round(nextUpdate - wallSeconds()), { issuer });
	}
}

/**
 * When the next CRL is due, by name of the CA. If a CA has several CRLs for the same certificates, the freshest counts, as at a
 * handshake. If CAs share a name, the one that is due first counts.
 */
export function crlsDue(crls: readonly CrlSeed[]): ReadonlyMap<string, number> {
	const freshest = new Map<string, CrlSeed>();
	for (const crl of crls) {
		const key = JSON.stringify([crl.authority, crl.covers, crl.points]);
		if ((freshest.get(key)?.nextUpdate ?? Number.NEGATIVE_INFINITY) < crl.nextUpdate) freshest.set(key, crl);
	}
	const due = new Map<string, number>();
	for (const { issuer, nextUpdate } of freshest.values()) {
		due.set(issuer, Math.min(nextUpdate, due.get(issuer) ?? Number.POSITIVE_INFINITY));
	}
	return due;
}

function writeSpans(page: Exposition, { spans }: MetricSources, workers: readonly WorkerReading[]): void {
	// Readers forget a family without samples.
	if (spans === undefined) return;
	const { exported, failed, dropped } = spans();
	page
		.family(FAMILIES.spans)
		.sample(exported, { result: 'exported' })
		.sample(dropped + total(workers, (worker) => worker.dropped.get('spans')!), { result: 'dropped' })
		.sample(failed, { result: 'failed' });
}

function writeKeys(page: Exposition, { remoteKeys }: MetricSources): void {
	const all = Array.from(remoteKeys(), (keys) => ({ labels: { issuer: keys.issuer.issuer }, keys }));
	// Readers forget a family without samples, and most have no such issuer.
	if (all.length === 0) return;
	const fetches = page.family(FAMILIES.jwksFetches);
	for (const { labels, keys } of all) {
		for (const result of RESULTS) fetches.sample(keys.fetches[result], { ...labels, result });
	}
	const counts = page.family(FAMILIES.jwksKeys);
	for (const { labels, keys } of all) counts.sample(keys.value?.keys.length ?? 0, labels);
	const ages = page.family(FAMILIES.jwksAge);
	for (const { labels, keys } of all) if (keys.ageMs !== undefined) ages.sample(keys.ageMs / 1000, labels);
}

function writeQueues(page: Exposition, { groups }: MetricSources): void {
	const all = Array.from(groups()).flatMap(({ config, waiting }) =>
		waiting === undefined
			? []
			: { group: config.name!, count: new UpstreamLoad(waiting.count, 0), stats: new QueueStats(waiting.stats, 0) },
	);
	if (all.length === 0) return;
	const lengths = page.family(FAMILIES.queueLength);
	for (const { group, count } of all) lengths.sample(count.total, { group });
	const results = page.family(FAMILIES.queued);
	for (const { group, stats } of all)
		for (const result of QUEUE_RESULTS) results.sample(stats.total(result), { group, result });
}

function writeAddresses(page: Exposition, { addresses }: MetricSources): void {
	const all = Array.from(addresses(), (one) => ({ labels: { group: one.group }, one }));
	if (all.length === 0) return;
	const fetches = page.family(FAMILIES.dnsLookups);
	for (const { labels, one } of all) {
		for (const result of RESULTS) fetches.sample(one.fetches[result], { ...labels, result });
	}
	const counts = page.family(FAMILIES.dnsAddresses);
	for (const { labels, one } of all) counts.sample(one.value?.length ?? 0, labels);
	const ages = page.family(FAMILIES.dnsAge);
	for (const { labels, one } of all) if (one.ageMs !== undefined) ages.sample(one.ageMs / 1000, labels);
}

function writeLoops(page: Exposition, workers: readonly WorkerReading[], now: number): void {
	const utilization = page.family(FAMILIES.loopUtilization);
	const loops = workers.map(({ loop }, worker) => ({ loop, fact: loopFact(loop, now), worker: String(worker) }));
	for (const { fact, worker } of loops) utilization.sample(fact?.utilization ?? 0, { worker });
	const time = page.family(FAMILIES.loopTime);
	for (const { loop, worker } of loops) {
		time.sample(loop.activeMs / 1000, { worker, state: 'active' });
		time.sample(loop.idleMs / 1000, { worker, state: 'idle' });
	}
	const delay = page.family(FAMILIES.loopDelay);
	for (const { fact, worker } of loops) {
		delay.sample((fact?.delayP50 ?? 0) / 1000, { worker, stat: 'p50' });
		delay.sample((fact?.delayP99 ?? 0) / 1000, { worker, stat: 'p99' });
		delay.sample((fact?.delayMax ?? 0) / 1000, { worker, stat: 'max' });
	}
}

function writeState(page: Exposition, { build, listening, inForce, journal }: MetricSources): void {
	page.family(FAMILIES.workers).sample(listening());
	page.family(FAMILIES.buildInfo).sample(1, { version: build.version, body_mode: build.bodyMode, node: build.node });
	page.family(FAMILIES.configGeneration).sample(inForce.generation);
	page.family(FAMILIES.needsRestart).sample(inForce.needsRestart?.settings.length ?? 0);
	const { success, failure } = inForce.reloads;
	page.family(FAMILIES.reloads).sample(success, { result: 'success' }).sample(failure, { result: 'failure' });
	const times = page.family(FAMILIES.reloadTimestamp);
	for (const part of RELOADED_PARTS) {
		for (const result of FAMILIES.reloadTimestamp.labels.result) {
			const at = journal.last(part, result);
			if (at !== undefined) times.sample(at, { part, result });
		}
	}
}

import type { KeySetSeed } from '@mtls-edge-proxy/gate/identity/key-set.ts';
import type { SelfRefreshing } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import { countSlotsInUse, limiterSlotCount } from '@mtls-edge-proxy/gate/memory/limiter.ts';
import { budgetInUse } from '../../memory/budget.ts';
import { Summary } from '../../memory/histogram.ts';
import { QUEUE_RESULTS, QueueStats } from '../../memory/queue-stats.ts';
import { UpstreamLoad } from '../../memory/upstream-load.ts';
import { readCounters, TLS_VERSIONS, type WorkerCounts, type WorkerStats } from '../../memory/worker-stats.ts';
import type { UpstreamTlsSeed } from '../../shared/messages.ts';
import type { AddressRefresher } from '../addresses/address-refresher.ts';
import { crlsDue, expiringOf, expiringOfUpstreams } from '../facts/certificates.ts';
import { loopFact } from '../facts/process.ts';
import type { StoreFacts } from '../facts/store.ts';
import type { LogLosses } from '../log-output.ts';
import type { ProcessMemory } from '../process-memory.ts';
import type { ProcessState } from '../process-state.ts';
import { RELOADED_PARTS } from '../reload/journal.ts';
import type { Upstream } from '../routing/table.ts';
import type { InForce } from '../state/in-force.ts';
import { STORE_FAILURES } from '../store/failure.ts';
import { sum } from './adding-up.ts';
import type { Exposition, FamilyDescription, Labels } from './exposition.ts';
import { FAMILIES, RESULTS } from './family-table.ts';
import { readBuckets, readUpstreams, writeCircuits, writeResponses, writeTraffic } from './upstream-families.ts';

/** The sources of the proxy's own metrics, read at each scrape. */
export interface MetricSources {
	readonly build: { readonly version: string; readonly bodyMode: string; readonly node: string };
	readonly state: Pick<ProcessState, 'clock' | 'journal' | 'memory' | 'startedSeconds' | 'upstreams'> & {
		readonly inForce: Omit<InForce, 'identity'>;
	};
	/** Workers that accept connections. */
	readonly listening: () => number;
	/** Log lines that could not be written. */
	readonly logLosses: () => LogLosses;
	/** The issuers whose keys come over the network. */
	readonly remoteKeys: () => Iterable<SelfRefreshing<KeySetSeed> & { readonly issuer: { readonly issuer: string } }>;
	/** The upstreams with addresses from DNS. */
	readonly addresses: () => Iterable<
		Pick<AddressRefresher, 'group' | 'authority' | 'value' | 'ageMs' | 'fetches' | 'failing'>
	>;
	/** Spans by their outcome in the main thread; `undefined`: nothing is traced. */
	readonly spans?: (() => { readonly exported: number; readonly failed: number; readonly dropped: number }) | undefined;
	/** Returns `undefined` if limits are not shared. */
	readonly store?: (() => StoreFacts | undefined) | undefined;
}

/**
 * Writes the proxy's families, summed across workers. Every family is there from
 * the first scrape, with zeros if nothing has happened yet, so that no alert starts from a gap.
 *
 * A generator, because a page of a thousand upstreams takes longer than health probes should wait: its caller may do other work
 * between two steps.
 */
export function* writeProxyFamilies(page: Exposition, sources: MetricSources): Generator<void> {
	const { clock, memory, startedSeconds, upstreams: table } = sources.state;
	const { stats, histograms } = memory;
	const now = clock.now();
	const upstreams = yield* readUpstreams(table.current.endpoints.values(), histograms.upstream, now);
	const counts = readCounters(stats);
	const unrouted = stats.map((one) => one.unrouted);
	// A table without routes has no other series, and readers forget a family without samples.
	const ownResponses = new Map([[404, 0], ...counts.responses]);
	yield* writeResponses(page, ownResponses, upstreams, histograms.upstream);
	yield* writeTraffic(page, table.current.traffic, unrouted, startedSeconds);
	yield* writeCircuits(page, upstreams);
	writeRefusals(page, counts);
	writeGates(page, memory, counts);
	writeHandshakes(page, memory, counts, now);
	writeConnections(page, sources, counts);
	yield;
	yield* writeLimiter(page, memory, now);
	writeStore(page, sources);
	writeExpiring(page, sources);
	yield;
	writeSpans(page, sources, counts);
	writeKeys(page, sources);
	writeAddresses(page, sources);
	writeQueues(page, table.current.upstreams.values());
	writeLoops(page, stats, now);
	writeState(page, sources);
}

function writeRefusals(page: Exposition, { auth, forbidden, rateLimited }: WorkerCounts): void {
	page.family(FAMILIES.rateLimited).sample(sum(rateLimited.values()));
	writeCounts(page, FAMILIES.authFailures, auth);
	writeCounts(page, FAMILIES.forbidden, forbidden);
	writeCounts(page, FAMILIES.rateLimitRefusals, rateLimited);
}

/** Writes a family with one label. */
function writeCounts(page: Exposition, family: FamilyDescription, counts: ReadonlyMap<string, number>): void {
	const [label] = Object.keys(family.labels);
	const samples = page.family(family);
	for (const [value, count] of counts) samples.sample(count, { [label!]: value });
}

function writeGates(page: Exposition, { histograms, stats }: ProcessMemory, { tokenCache }: WorkerCounts): void {
	const { gate, gates } = histograms;
	page.family(FAMILIES.gateDuration).histogram(gate.bounds, readBuckets(gate, gates, stats.length));
	writeCounts(page, FAMILIES.tokenCache, tokenCache);
}

function writeHandshakes(
	page: Exposition,
	{ stats, histograms: { handshake, handshakes } }: ProcessMemory,
	counts: WorkerCounts,
	now: number,
): void {
	const summary = new Summary();
	for (const { handshakes: own } of stats) own.addTo(summary, now);
	page.family(FAMILIES.handshakeSummary).summary(summary);
	const buckets = readBuckets(handshake, handshakes, stats.length);
	page.family(FAMILIES.handshakeDuration).histogram(handshake.bounds, buckets);
	page.family(FAMILIES.handshakeFailures).sample(sum(counts.handshakeRefusals.values()));
	writeCounts(page, FAMILIES.handshakeRefusals, counts.handshakeRefusals);
	const agreed = page.family(FAMILIES.handshakesAgreed);
	for (const version of TLS_VERSIONS) {
		for (const [group, count] of counts[version]) agreed.sample(count, { version, group });
	}
}

function writeConnections(
	page: Exposition,
	{ state: { memory }, logLosses }: MetricSources,
	counts: WorkerCounts,
): void {
	writeCounts(page, FAMILIES.connections, counts.connections);
	page.family(FAMILIES.connectionsLimit).sample(memory.connections.limit);
	writeCounts(page, FAMILIES.connectionsRefused, counts.connectionRefusals);
	writeCounts(page, FAMILIES.connectionsEnded, counts.connectionEnds);
	writeCounts(page, FAMILIES.tunnelsOpen, counts.tunnels);
	writeCounts(page, FAMILIES.tunnelEnds, counts.tunnelEnds);
	writeCounts(page, FAMILIES.http2ConnectionErrors, counts.http2Errors);
	writeCounts(page, FAMILIES.http2StreamErrors, counts.http2StreamErrors);
	writeCounts(page, FAMILIES.readsDelayed, counts.readsDelayed);
	page.family(FAMILIES.bodyMemory).sample(budgetInUse(memory.bufferedBytes));
	page.family(FAMILIES.bodyMemoryLimit).sample(memory.bufferedBytes.limit);
	page.family(FAMILIES.accessLogDropped).sample(counts.dropped.get('access lines')! + logLosses().accessLines);
}

function* writeLimiter(page: Exposition, { limiter }: ProcessMemory, now: number): Generator<void> {
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

function writeExpiring(page: Exposition, { state: { inForce, clock } }: MetricSources): void {
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
		family.sample(Math.round(nextUpdate - clock.wallSeconds()), { issuer });
	}
}

function writeSpans(page: Exposition, { spans }: MetricSources, counts: WorkerCounts): void {
	// Readers forget a family without samples.
	if (spans === undefined) return;
	const { exported, failed, dropped } = spans();
	page
		.family(FAMILIES.spans)
		.sample(exported, { result: 'exported' })
		.sample(dropped + counts.dropped.get('spans')!, { result: 'dropped' })
		.sample(failed, { result: 'failed' });
}

function writeKeys(page: Exposition, { remoteKeys }: MetricSources): void {
	const { jwksFetches, jwksKeys, jwksAge } = FAMILIES;
	const all = Array.from(remoteKeys(), (one) => {
		return { labels: { issuer: one.issuer.issuer }, one, size: one.value?.keys.length ?? 0 };
	});
	writeRefreshed(page, all, { fetches: jwksFetches, sizes: jwksKeys, ages: jwksAge });
}

/** Writes the families of values that refresh themselves. */
function writeRefreshed(
	page: Exposition,
	all: readonly { labels: Labels; one: Pick<SelfRefreshing<unknown>, 'ageMs' | 'fetches'>; size: number }[],
	families: Readonly<Record<'fetches' | 'sizes' | 'ages', FamilyDescription>>,
): void {
	// Readers forget a family without samples, and most configurations have no such values.
	if (all.length === 0) return;
	const fetches = page.family(families.fetches);
	for (const { labels, one } of all) {
		for (const result of RESULTS) fetches.sample(one.fetches[result], { ...labels, result });
	}
	const sizes = page.family(families.sizes);
	for (const { labels, size } of all) sizes.sample(size, labels);
	const ages = page.family(families.ages);
	for (const { labels, one } of all) if (one.ageMs !== undefined) ages.sample(one.ageMs / 1000, labels);
}

function writeQueues(page: Exposition, groups: Iterable<Upstream>): void {
	const all = Array.from(groups).flatMap(({ config, waiting }) =>
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
	const { dnsLookups, dnsAddresses, dnsAge } = FAMILIES;
	const all = Array.from(addresses(), (one) => ({ labels: { group: one.group }, one, size: one.value?.length ?? 0 }));
	writeRefreshed(page, all, { fetches: dnsLookups, sizes: dnsAddresses, ages: dnsAge });
}

function writeLoops(page: Exposition, workers: readonly WorkerStats[], now: number): void {
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

function writeState(page: Exposition, { build, listening, state: { inForce, journal } }: MetricSources): void {
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

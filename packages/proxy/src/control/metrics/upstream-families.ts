import { BucketCounts, type BucketLayout, BucketTotal } from '../../memory/bucket-counts.ts';
import { Summary } from '../../memory/histogram.ts';
import { CLIENT_PROTOCOLS, type RouteStats, readTraffic, type Traffic } from '../../memory/route-stats.ts';
import { TRANSITIONS } from '../../memory/transition-counts.ts';
import { readEndpoint, UpstreamStats } from '../../memory/upstream-stats.ts';
import type { HistogramsSeed } from '../../shared/messages.ts';
import type { Endpoint, RouteCounters } from '../routing/table.ts';
import { sum } from './adding-up.ts';
import { type Exposition, type Labels, QUANTILES } from './exposition.ts';
import { FAMILIES } from './family-table.ts';

/**
 * The families with series for each upstream and each route: a thousand of these make thousands of lines. So they are written by
 * generators, which can be left at each `yield` and resumed later.
 */

type UpstreamReading = ReturnType<typeof readUpstream>;

/** @param now monotonic milliseconds. */
export function* readUpstreams(
	upstreams: Iterable<Endpoint>,
	layout: BucketLayout,
	now: number,
): Generator<void, UpstreamReading[]> {
	const readings: UpstreamReading[] = [];
	// One object for all endpoints: a window is 7 KiB.
	const summary = new Summary();
	for (const endpoint of upstreams) {
		readings.push(readUpstream(endpoint, layout, summary, now));
		yield;
	}
	return readings;
}

function readUpstream(endpoint: Endpoint, layout: BucketLayout, summary: Summary, now: number) {
	const { address, group, breaker, counters, health, alive, lastProbe } = endpoint;
	const regions = counters.stats.map((region) => new UpstreamStats(region));
	const { responses, ...counts } = readEndpoint(regions);
	const labels: Labels = { upstream: address.authority, ...(group !== undefined && { group }) };
	return {
		...counts,
		labels,
		circuit: breaker.circuit,
		/** `undefined` if health is not probed. */
		alive: health === undefined ? undefined : alive === true,
		lastProbe: health === undefined ? undefined : lastProbe,
		/** By `TRANSITIONS`. */
		transitions: TRANSITIONS.map((_, i) => sum([counters, ...regions].map(({ transitions }) => transitions.cells[i]!))),
		// Each upstream has a series for the expected status from the start.
		responses: new Map([[200, 0], ...responses]),
		protocol: endpoint.protocol ?? 'http/1.1',
		roundTrips: readRoundTrips(regions, summary, now),
		durations: readBuckets(layout, counters.durations, regions.length),
		createdSeconds: counters.createdSeconds,
	};
}

function readRoundTrips(regions: readonly UpstreamStats[], summary: Summary, now: number) {
	summary.clear();
	for (const { roundTrips } of regions) roundTrips.addTo(summary, now);
	const { sumMs, count } = summary;
	const quantiles = summary.quantiles(QUANTILES);
	return { sumMs, count, quantiles: () => quantiles };
}

/** @param memory of all workers. */
export function readBuckets(layout: BucketLayout, memory: HistogramsSeed['gates'], workers: number): BucketTotal {
	return BucketTotal.of(
		layout,
		Array.from({ length: workers }, (_, worker) => BucketCounts.view(layout, memory, worker)),
	);
}

/** @param own responses to requests for which no upstream was chosen, by status. */
export function* writeResponses(
	page: Exposition,
	own: ReadonlyMap<number, number>,
	upstreams: readonly UpstreamReading[],
	{ bounds }: BucketLayout,
): Generator<void> {
	const requests = page.family(FAMILIES.requests);
	for (const [status, count] of own) requests.sample(count, { status: String(status) });
	for (const { labels, responses, createdSeconds } of upstreams) {
		for (const [status, count] of responses)
			requests.sample(count, { status: String(status), ...labels }, createdSeconds);
		yield;
	}
	const summaries = page.family(FAMILIES.requestDuration);
	for (const { labels, roundTrips, createdSeconds } of upstreams) {
		summaries.summary(roundTrips, labels, createdSeconds);
		yield;
	}
	const histograms = page.family(FAMILIES.upstreamDuration);
	for (const { labels, durations, createdSeconds } of upstreams) {
		histograms.histogram(bounds, durations, labels, createdSeconds);
		yield;
	}
}

export function* writeCircuits(page: Exposition, upstreams: readonly UpstreamReading[]): Generator<void> {
	const circuits = page.family(FAMILIES.circuitState);
	for (const { labels, circuit } of upstreams) circuits.sample(circuit, labels);
	yield;
	const alive = page.family(FAMILIES.upstreamAlive);
	for (const { labels, alive: passed } of upstreams) {
		if (passed !== undefined) alive.sample(passed ? 1 : 0, labels);
	}
	yield;
	const probes = page.family(FAMILIES.upstreamLastProbe);
	for (const { labels, lastProbe } of upstreams) {
		if (lastProbe === undefined) continue;
		const { passed, found: outcome, remedy = '' } = lastProbe;
		probes.sample(passed ? 1 : 0, { ...labels, outcome, remedy });
	}
	yield;
	const transitions = page.family(FAMILIES.circuitTransitions);
	for (const { labels, transitions: counts, createdSeconds } of upstreams) {
		for (const [i, { to, reason }] of TRANSITIONS.entries()) {
			// Series for alerts exist from the start. All series would be a third of the page of a thousand upstreams.
			if (counts[i] !== 0 || to === 'open') transitions.sample(counts[i]!, { ...labels, to, reason }, createdSeconds);
		}
		yield;
	}
	const connections = page.family(FAMILIES.upstreamConnections);
	for (const { labels, active, idle } of upstreams) {
		connections.sample(active, { ...labels, state: 'active' }).sample(idle, { ...labels, state: 'idle' });
		yield;
	}
	const streams = page.family(FAMILIES.upstreamStreams);
	for (const { labels, protocol, streams: underWay } of upstreams) {
		if (protocol !== 'http/1.1') streams.sample(underWay, labels);
		yield;
	}
	const retried = page.family(FAMILIES.upstreamRetries);
	for (const { labels, protocol, retries, createdSeconds } of upstreams) {
		for (const [reason, count] of retries) {
			// All other retries go to another address, which the URL of a route does not have.
			if (reason === 'stale' || (reason === 'refused' && protocol !== 'http/1.1') || labels.group !== undefined)
				retried.sample(count, { ...labels, reason }, createdSeconds);
		}
		yield;
	}
	const calls = page.family(FAMILIES.grpcResponses);
	for (const { labels, grpc, createdSeconds } of upstreams) {
		for (const [code, count] of grpc) calls.sample(count, { ...labels, code }, createdSeconds);
		yield;
	}
	const grouped = upstreams.filter(({ labels }) => labels.group !== undefined);
	if (grouped.length === 0) return;
	const denied = page.family(FAMILIES.upstreamRetriesDenied);
	for (const { labels, retriesDenied, createdSeconds } of grouped) denied.sample(retriesDenied, labels, createdSeconds);
	yield;
}

/**
 * @param routes by prefix.
 * @param unrouted counts of requests without a route, or before theirs is known, by worker.
 * @param startedSeconds when these began to be counted.
 */
export function* writeTraffic(
	page: Exposition,
	routes: ReadonlyMap<string, Pick<RouteCounters, 'stats' | 'createdSeconds'>>,
	unrouted: readonly RouteStats[],
	startedSeconds: number,
): Generator<void> {
	const rows: { traffic: Traffic; labels: Labels; createdSeconds: number }[] = [];
	const read = (labels: Labels, stats: readonly RouteStats[], createdSeconds: number) => {
		for (const protocol of CLIENT_PROTOCOLS) {
			rows.push({ traffic: readTraffic(stats, protocol), labels: { ...labels, protocol }, createdSeconds });
		}
	};
	read({}, unrouted, startedSeconds);
	for (const [route, { stats, createdSeconds }] of routes) {
		read({ route }, stats, createdSeconds);
		yield;
	}
	const inFlight = page.family(FAMILIES.requestsInFlight);
	for (const { traffic, labels } of rows) inFlight.sample(traffic.inFlight, labels);
	yield;
	const received = page.family(FAMILIES.requestBodyBytes);
	for (const { traffic, labels, createdSeconds } of rows) received.sample(traffic.received, labels, createdSeconds);
	yield;
	const gave = page.family(FAMILIES.responseBodyBytes);
	for (const { traffic, labels, createdSeconds } of rows) gave.sample(traffic.gave, labels, createdSeconds);
}

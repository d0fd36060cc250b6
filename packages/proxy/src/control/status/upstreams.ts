import type { RouteConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import { GRPC_STATUS_NAMES, IS_GRPC_FAILURE } from '../../gates/grpc-status.ts';
import { CLOSED } from '../../memory/breaker-cell.ts';
import { CIRCUIT_NAMES, type LastTransition, TRANSITIONS } from '../../memory/transition-counts.ts';
import { readEndpoint, UPSTREAM_CHOICES, UpstreamStats } from '../../memory/upstream-stats.ts';
import { inWords } from '../health/outcome.ts';
import { sum } from '../metrics/adding-up.ts';
import { type Endpoint, endpointKey, type RoutingPlan, type Upstream } from '../routing/table.ts';
import type { History, Sampled } from './history.ts';
import { iso, isoOf } from './json.ts';

/** What the status page says of each upstream: health, breaker, and the counts of all workers. */
export type UpstreamStatus = ReturnType<typeof statusOf>;

/** A step for each upstream. */
export function* readUpstreams(
	{ routes, endpoints, upstreams }: RoutingPlan,
	history: History,
): Generator<void, UpstreamStatus[]> {
	const prefixes = Map.groupBy(routes, ({ upstream }: RouteConfig) => upstreamKey(upstream));
	const read: UpstreamStatus[] = [];
	for (const [key, endpoint] of endpoints) {
		const { address, group } = endpoint;
		const routes = prefixes.get(group ?? address.authority) ?? [];
		read.push(statusOf(key, endpoint, group === undefined ? undefined : upstreams.get(group)!, routes, history));
		yield;
	}
	return read;
}

/** What the history of the status page reads. */
export function* sampledOf({ endpoints }: RoutingPlan): Generator<Sampled> {
	for (const [key, { counters }] of endpoints) {
		const regions = regionsOf(counters);
		yield {
			key,
			responses: () => sum(regions.map((region) => region.responsesInAll)),
			serverErrors: () => sum(regions.map((region) => region.serverErrors)),
			addGrpcTo: (to) => {
				for (const region of regions) region.addGrpcTo(to);
			},
			addRoundTrips: (to, nowMs) => {
				let any = false;
				for (const region of regions) any = region.roundTrips.addLastSliceTo(to, nowMs) || any;
				return any;
			},
		};
	}
}

/** Views on the workers' memory, made once. */
function regionsOf(counters: Endpoint['counters']): readonly UpstreamStats[] {
	const regions = REGIONS.get(counters) ?? counters.stats.map((region) => new UpstreamStats(region));
	REGIONS.set(counters, regions);
	return regions;
}

const REGIONS = new WeakMap<Endpoint['counters'], readonly UpstreamStats[]>();

function statusOf(
	key: string,
	endpoint: Endpoint,
	group: Upstream | undefined,
	routes: readonly RouteConfig[],
	history: History,
) {
	const { address, protocol = 'http/1.1', tls, health, alive, aliveSince, lastProbe: last, counters } = endpoint;
	const regions = regionsOf(counters);
	const { responses, active, idle, streams, grpc } = readEndpoint(regions);
	const isProbed = health !== undefined;
	const verdict = alive === undefined ? 'not probed yet' : alive ? 'healthy' : 'unhealthy';
	return {
		upstream: address.authority,
		group: endpoint.group ?? null,
		protocol,
		tls: tls === undefined ? 'none' : tls.rejectUnauthorized ? 'verified' : 'not verified',
		health: isProbed ? verdict : 'not probed',
		health_since: isProbed ? isoOf(aliveSince) : null,
		last_probe:
			isProbed && last !== undefined
				? { at: iso(last.atSeconds * 1000), passed: last.passed, found: last.found, remedy: last.remedy ?? null }
				: null,
		breaker: breakerOf(endpoint, regions),
		requests_total: sum(responses.values()),
		errors_total: sum([...responses].map(([status, count]) => (status >= 500 ? count : 0))),
		connections: { active, idle },
		chosen: protocol === 'auto' ? choicesOf(regions) : null,
		streams: protocol === 'http/1.1' ? null : streams,
		grpc: grpcCounts(grpc, (code, total) => history.grpcRise(key, code, total)),
		balance: group === undefined ? null : group.config.balancing.balance,
		weight: group === undefined ? null : (group.config.addresses[group.endpoints.indexOf(endpoint)]?.weight ?? 1),
		routes: routes.map(({ prefix }) => prefix),
		...history.latest(key),
	} as const;
}

/** Of the workers that have a connection. */
function choicesOf(regions: readonly UpstreamStats[]) {
	const inUse = regions.map((region) => region.read()).filter(({ active, idle }) => active + idle > 0);
	return UPSTREAM_CHOICES.filter((protocol) => inUse.some(({ choice }) => choice === protocol));
}

function breakerOf(endpoint: Endpoint, regions: readonly UpstreamStats[]) {
	const { circuit } = endpoint.breaker;
	const openings = [endpoint.counters, ...regions].flatMap(({ transitions }) =>
		OPENINGS.map((i) => transitions.cells[i]!),
	);
	const opened = sum(openings);
	// A circuit that has never opened needs no reason, and decoding the words takes time.
	const last = circuit !== CLOSED || opened > 0 ? lastTransition(endpoint) : undefined;
	const transition = last ?? (circuit === CLOSED ? undefined : beginning(endpoint));
	return {
		state: CIRCUIT_NAMES[circuit]!,
		since: isoOf(transition?.wallSeconds),
		reason: transition?.reason ?? null,
		cause: transition?.cause || null,
		opened_total: opened,
	};
}

/** Indexes of the transitions to open. */
const OPENINGS = [...TRANSITIONS.keys()].filter((i) => TRANSITIONS[i]!.to === 'open');

/** The latest transition of an upstream's circuit, by any thread; `undefined` if there has been none. */
export function lastTransition({ counters, made }: Endpoint): LastTransition | undefined {
	const lasts = [counters, ...regionsOf(counters)].map(({ transitions }) => transitions.last);
	const last = lasts.reduce((latest, last) => ((last?.at ?? -1) >= (latest?.at ?? -1) ? (last ?? latest) : latest));
	// A transition of an earlier breaker says nothing about this one.
	return last !== undefined && last.at >= made.at ? last : undefined;
}

/** Why the circuit of an upstream without a transition is open, and since when: a circuit starts open. */
export function beginning({ made, lastProbe }: Endpoint): Pick<LastTransition, 'wallSeconds' | 'reason' | 'cause'> {
	const cause = 'no health probe has passed yet';
	return {
		wallSeconds: made.wallSeconds,
		reason: 'health',
		cause: lastProbe === undefined ? cause : `${cause}; ${inWords(lastProbe)}`,
	};
}

/** Unique in the page, as in the routing table. */
export function keyOf({ upstream, group }: Pick<UpstreamStatus, 'upstream' | 'group'>): string {
	return endpointKey(upstream, group ?? undefined);
}

/** The worse state of breaker and health check. `refusing`: its requests get 503. */
export function standingOf({ breaker, health }: UpstreamStatus): 'refusing' | 'doubtful' | 'well' {
	if (breaker.state === 'open') return 'refusing';
	return breaker.state === 'half-open' || health === 'unhealthy' ? 'doubtful' : 'well';
}

/** gRPC calls that upstreams have answered, by status. */
export type GrpcCount = ReturnType<typeof grpcCounts>[number];

/** The statuses that have occurred, by code. @param totals keys are codes as text. */
export function grpcCounts(totals: ReadonlyMap<string, number>, lately: (code: number, total: number) => number) {
	return Array.from(totals, ([text, total]) => {
		const code = Number(text);
		return { code, status: GRPC_STATUS_NAMES[code]!, total, last_ten_minutes: lately(code, total) };
	});
}

/**
 * All upstreams together: failures first, OK last, otherwise the most frequent in the last ten minutes first. Each status names up to
 * three upstreams, those with the most of them recently.
 */
export function grpcStatuses(upstreams: readonly { readonly upstream: string; readonly grpc: readonly GrpcCount[] }[]) {
	const parts = upstreams.flatMap(({ upstream, grpc }) => grpc.map((one) => ({ upstream, ...one })));
	const statuses = Array.from(Map.groupBy(parts, ({ code }) => code).values(), (of) => {
		const { code, status } = of[0]!;
		const most = of.toSorted(latestFirst).slice(0, MAX_NAMES);
		return {
			code,
			status,
			total: sum(of.map(({ total }) => total)),
			last_ten_minutes: sum(of.map((one) => one.last_ten_minutes)),
			upstreams: most.map(({ upstream }) => upstream),
			upstreams_total: of.length,
		};
	});
	return statuses.sort((a, b) => rankOf(a.code) - rankOf(b.code) || latestFirst(a, b));
}

const MAX_NAMES = 3;

function latestFirst(a: Pick<GrpcCount, 'last_ten_minutes' | 'total'>, b: typeof a): number {
	return b.last_ten_minutes - a.last_ten_minutes || b.total - a.total;
}

function rankOf(code: number): number {
	if (IS_GRPC_FAILURE[code]) return 0;
	return code === 0 ? 2 : 1;
}

/** Failures among the calls of the last ten minutes, 0 to 1; `null`: there was no call. */
export function grpcFailureShare(counts: readonly GrpcCount[]): number | null {
	const lately = (some: readonly GrpcCount[]) => sum(some.map((one) => one.last_ten_minutes));
	const calls = lately(counts);
	return calls === 0 ? null : lately(counts.filter(({ code }) => IS_GRPC_FAILURE[code])) / calls;
}

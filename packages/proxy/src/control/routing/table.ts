import type { ConnectionOptions } from 'node:tls';
import type { HealthSettings, RouteConfig, UpstreamAddress, UpstreamConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { BreakerCell } from '../../memory/breaker-cell.ts';
import type { RouteStats } from '../../memory/route-stats.ts';
import type { TransitionCounts } from '../../memory/transition-counts.ts';
import type {
	EndpointPlace,
	EndpointSeed,
	PendingQueueSeed,
	RouteSeed,
	UpstreamProtocol,
	UpstreamTlsSeed,
} from '../../shared/messages.ts';
import type { UpstreamTlsMaterial } from '../files/upstream-tls-files.ts';
import type { ProbeOutcome } from '../health/outcome.ts';

/** A routing table on the main thread: each route, upstream and address with the memory of its counters. */

/** A routing table with all its memory, ready to replace the current one. */
export interface RoutingPlan {
	readonly routes: readonly RouteConfig[];
	/** By key (`endpointKey`). */
	readonly endpoints: ReadonlyMap<string, Endpoint>;
	/** The upstreams of routes, by key (`upstreamKey`). */
	readonly upstreams: ReadonlyMap<string, Upstream>;
	/** Certificates and keys for TLS to upstreams, by key (`upstreamKey`). */
	readonly tls: UpstreamTlsMaterial;
	/** The counters of each route, by prefix. */
	readonly traffic: ReadonlyMap<string, RouteCounters>;
	/** Endpoints with a new, open breaker. */
	readonly fresh: readonly Endpoint[];
}

/** One address of the current table, or of one in preparation. */
export interface Endpoint {
	/** Its `hostField` is that of probes. Replaced by each table that is applied. */
	address: UpstreamAddress;
	/** Name of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly group: string | undefined;
	readonly breaker: BreakerCell;
	/** Unique in the process. */
	readonly breakerId: number;
	/** The memory of `breaker` for the workers, without its state. */
	readonly breakerMemory: EndpointSeed['breaker'];
	/** The position of the breaker's state and of the count of requests in flight, for the workers. */
	readonly place: EndpointPlace;
	/** Connections there, for the workers. */
	readonly connectionsMemory: EndpointSeed['connections'];
	readonly counters: Counters;
	/** When its breaker was made, monotonic milliseconds and seconds since the epoch: its counters may be older. */
	readonly made: { readonly at: number; readonly wallSeconds: number };
	/** How it is probed; `undefined`: not at all. */
	readonly health: HealthSettings | undefined;
	/** How probes connect; `undefined`: plain HTTP. Replaced by each table that is applied. */
	tls?: ConnectionOptions | undefined;
	/** The protocol towards it; `undefined`: HTTP/1.1. */
	readonly protocol?: UpstreamProtocol | undefined;
	/** The last verdict of the health check; `undefined` before the first. */
	alive: boolean | undefined;
	/** Since when `alive` has that value, seconds since the epoch. */
	aliveSince: number | undefined;
	/** What the last probe found; `undefined` before the first. */
	lastProbe: ProbeOutcome | undefined;
}

/** The addresses that share a route's requests. */
export interface Upstream {
	readonly config: UpstreamConfig;
	/** In the order of the configuration. */
	readonly endpoints: readonly Endpoint[];
	/** The pending requests, for the workers; `undefined`: it has no limits. */
	readonly waiting: PendingQueueSeed | undefined;
	/** `undefined`: plain HTTP. */
	readonly tls: UpstreamTlsSeed | undefined;
	/** `Host` of health probes; `undefined`: the address. */
	readonly probeHost: string | undefined;
	/** What a health probe connects with (`Upstream.tls`). */
	readonly probeOptions: (endpoint: Endpoint) => ConnectionOptions | undefined;
}

/** The counters of one endpoint. */
export interface Counters {
	/** One region for each worker, by index. */
	readonly stats: readonly EndpointSeed['stats'][];
	/** Round-trip times: one region for all workers. */
	readonly durations: EndpointSeed['durations'];
	/** Circuit transitions that this thread has caused by its health probes. */
	readonly transitions: TransitionCounts;
	/** When they began, seconds since the epoch. */
	readonly createdSeconds: number;
}

/** The counters of one route. */
export interface RouteCounters {
	readonly memory: RouteSeed['stats'];
	/** By worker; the same memory. */
	readonly stats: readonly RouteStats[];
	readonly createdSeconds: number;
}

/** An address in two upstreams is two endpoints: each upstream has its own settings for it. */
export function endpointKey(authority: string, group: string | undefined): string {
	return group === undefined ? authority : `${group}/${authority}`;
}

/** TLS to the endpoints of a table. */
export function tlsOf({ upstreams }: RoutingPlan): UpstreamTlsSeed[] {
	return Array.from(upstreams.values(), ({ tls }) => tls).filter((tls) => tls !== undefined);
}

/** With more, the line would be too long for some log collectors. */
const MAX_ROUTES_SHOWN = 20;

/** The routes in the first line of the log. */
export function routesShown(routes: readonly RouteConfig[]) {
	const shown = routes
		.slice(0, MAX_ROUTES_SHOWN)
		.map(({ prefix, upstream }) => ({ prefix, upstream: upstreamKey(upstream) }));
	return { routes: shown, ...(routes.length > shown.length && { routes_total: routes.length }) };
}

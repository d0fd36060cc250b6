import type { UpstreamAddress } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import type { EndpointSeed, RouteSeed, RoutingSeed, UpstreamSeed } from '../../shared/messages.ts';
import type { Endpoint, RoutingPlan, Upstream } from './table.ts';

/** One worker's part of a table: its own counters, and the shared breakers. */
export function routingSeed({ endpoints, upstreams, routes, traffic }: RoutingPlan, worker: number): RoutingSeed {
	const all = [...upstreams.values()];
	const indexes = new Map(Array.from(endpoints.values(), (endpoint, index) => [endpoint, index]));
	const groupIndexes = new Map(Array.from(upstreams.keys(), (key, index) => [key, index]));
	const groupOf = new Map(all.flatMap((upstream) => upstream.endpoints.map((endpoint) => [endpoint, upstream])));
	return {
		endpoints: Array.from(endpoints.values(), (endpoint) => upstreamSeed(endpoint, groupOf.get(endpoint)!, worker)),
		upstreams: all.map((upstream) => groupSeed(upstream, indexes)),
		routes: routes.map(
			({ upstream, ...route }): RouteSeed => ({
				...route,
				upstream: groupIndexes.get(upstreamKey(upstream))!,
				stats: traffic.get(route.prefix)!.memory,
			}),
		),
	};
}

function upstreamSeed(
	{ address, group, breakerId, breakerMemory, place, connectionsMemory, counters }: Endpoint,
	{ config: { dns, idleTimeoutMs, connectTimeoutMs, protocol } }: Upstream,
	worker: number,
): EndpointSeed {
	return {
		...withHost(address, dns?.hostField),
		group,
		breakerId,
		breaker: breakerMemory,
		place,
		connections: connectionsMemory,
		stats: counters.stats[worker]!,
		durations: counters.durations,
		idleTimeoutMs,
		connectTimeoutMs,
		...(protocol !== 'http/1.1' && { protocol }),
	};
}

function groupSeed(
	{ config: { name, dns, addresses, balancing, limits }, tls, endpoints, waiting }: Upstream,
	indexes: ReadonlyMap<Endpoint, number>,
): UpstreamSeed {
	return {
		name,
		...(tls && { tls }),
		endpoints: endpoints.map((endpoint) => indexes.get(endpoint)!),
		weights: dns === undefined ? addresses.map(({ weight = 1 }) => weight) : endpoints.map(() => 1),
		balancing,
		limits,
		waiting,
	};
}

/** The same address with this `Host`; with `undefined`, `Host` names the address. */
export function withHost(
	{ hostField: _, ...address }: UpstreamAddress,
	hostField: string | undefined,
): UpstreamAddress {
	return hostField === undefined ? address : { ...address, hostField };
}

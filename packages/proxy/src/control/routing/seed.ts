import type { UpstreamAddress } from '../../config/config.ts';
import { groupKey } from '../../config/upstream.ts';
import type { RouteSeed, RoutingSeed, UpstreamGroupSeed, UpstreamSeed } from '../../shared/messages.ts';
import type { RoutingPlan, Upstream, UpstreamGroup } from './table.ts';

/** What one worker gets of a table: its own counters, and the breakers that all share. */
export function routingSeed({ upstreams, groups, routes, traffic }: RoutingPlan, worker: number): RoutingSeed {
	const all = [...groups.values()];
	const indexes = new Map(Array.from(upstreams.values(), (upstream, index) => [upstream, index]));
	const groupIndexes = new Map(Array.from(groups.keys(), (key, index) => [key, index]));
	const groupOf = new Map(all.flatMap((group) => group.upstreams.map((upstream) => [upstream, group])));
	return {
		upstreams: Array.from(upstreams.values(), (upstream) => upstreamSeed(upstream, groupOf.get(upstream)!, worker)),
		groups: all.map((group) => groupSeed(group, indexes)),
		routes: routes.map(
			({ group, ...route }): RouteSeed => ({
				...route,
				group: groupIndexes.get(groupKey(group))!,
				stats: traffic.get(route.prefix)!.memory,
			}),
		),
	};
}

function upstreamSeed(
	{ address, group, breakerId, breakerMemory, place, connectionsMemory, counters }: Upstream,
	{ config: { dns, idleTimeoutMs, connectTimeoutMs, protocol } }: UpstreamGroup,
	worker: number,
): UpstreamSeed {
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
	{ config: { name, dns, addresses, balancing, limits }, tls, upstreams, waiting }: UpstreamGroup,
	indexes: ReadonlyMap<Upstream, number>,
): UpstreamGroupSeed {
	return {
		name,
		...(tls && { tls }),
		upstreams: upstreams.map((upstream) => indexes.get(upstream)!),
		weights: dns === undefined ? addresses.map(({ weight = 1 }) => weight) : upstreams.map(() => 1),
		balancing,
		limits,
		waiting,
	};
}

/** The same address with this `Host`; `undefined`: the address is named. */
export function withHost(
	{ hostField: _, ...address }: UpstreamAddress,
	hostField: string | undefined,
): UpstreamAddress {
	return hostField === undefined ? address : { ...address, hostField };
}

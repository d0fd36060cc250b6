import { routePolicy } from '@mtls-edge-proxy/gate/gates/rate-limit-fields.ts';
import { type RateSeed, rateOf } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import { tenantKey } from '@mtls-edge-proxy/gate/memory/tenant-key.ts';
import type { RouteLimit } from '@mtls-edge-proxy/gate/shared/quota-gates.ts';
import { Forwarding } from '../../gates/forwarding.ts';
import { RouteTable } from '../../gates/routes.ts';
import { CertificateHeaders } from '../../identity/certificate-headers.ts';
import { loadNameReader, type NameReader } from '../../identity/certificate-names.ts';
import { RouteAccess } from '../../identity/route-access.ts';
import { RouteStats } from '../../memory/route-stats.ts';
import type {
	PendingQueueSeed,
	RoutingSeed,
	UpstreamLimits,
	WebSocketSeed,
	WorkerSeed,
} from '../../shared/messages.ts';
import type { DataPlane } from '../plane/plane.ts';
import { createRequestLimits, limitBodies } from '../request/request-limits.ts';
import { UpstreamGroup } from '../upstream/group.ts';
import { PendingQueue } from '../upstream/pending-queue.ts';
import { transportsOf } from '../upstream/transport.ts';
import { Upstream } from '../upstream/upstream.ts';
import type { Route, WebSocketRoute } from './route.ts';

/** The routing table of one worker, from one reload to the next: routes, groups and their rooms, and the upstreams, which outlive tables. */
export class Routing {
	readonly #seed: Pick<WorkerSeed, 'index' | 'tenantSecret'>;
	readonly #plane: DataPlane;
	/** In force, by the identifier of their breaker. */
	#upstreams = new Map<number, Upstream>();
	/** In force, by the name of their `[[upstreams]]`. */
	#groups = new Map<string | undefined, UpstreamGroup>();
	/** The same. */
	readonly #rooms = new Map<string | undefined, PendingQueue>();

	constructor(seed: Pick<WorkerSeed, 'index' | 'tenantSecret'>, plane: DataPlane) {
		this.#seed = seed;
		this.#plane = plane;
	}

	/**
	 * Does all of a change that can fail.
	 *
	 * @param readNames for a table whose routes ask for names (`nameReaderFor`).
	 * @returns puts the table into force; throws nothing.
	 */
	prepare(routing: RoutingSeed, readNames: NameReader | undefined): () => void {
		// An upstream is the one we know when it has the same breaker: then its connections stay, too.
		const transports = transportsOf(routing, (id) => this.#upstreams.get(id)?.transport, this.#plane.clock);
		const upstreams = routing.upstreams.map(
			(seed, i) =>
				this.#upstreams.get(seed.breakerId) ?? new Upstream(seed, this.#seed.index, transports[i]!, this.#plane),
		);
		const groups = routing.groups.map(
			({ name, upstreams: members, weights, balancing, limits, waiting }) =>
				new UpstreamGroup({
					...balancing,
					name,
					upstreams: members.map((member) => upstreams[member]!),
					weights,
					random: Math.random,
					limits,
					room: limits && this.#roomOf(name!, waiting!, limits),
					before: name === undefined ? undefined : this.#groups.get(name),
				}),
		);
		const plane = this.#plane;
		const routes = new RouteTable<Route>(
			routing.routes.map(
				({
					prefix,
					caseInsensitive,
					trailers,
					cooldownMs,
					opening,
					rate,
					group,
					access,
					certificateHeaders,
					forwarding,
					requestLimits: own,
					webSocket,
					stats,
				}) => ({
					prefix,
					caseInsensitive,
					trailers,
					cooldownMs,
					opening,
					limit: rate && this.#routeLimit(prefix, rate),
					group: groups[group]!,
					access: access && new RouteAccess(access, readNames),
					certificateHeaders: certificateHeaders && new CertificateHeaders(certificateHeaders, readNames),
					forwarding: forwarding && new Forwarding(forwarding, prefix),
					requestLimits:
						own === undefined ? plane.requestLimits : createRequestLimits(plane.limits, plane.deadlines, own),
					webSocket: webSocket && this.#webSocketRoute(webSocket),
					stats: RouteStats.view(stats, this.#seed.index),
				}),
			),
		);
		return () => {
			const before = this.#upstreams;
			this.#upstreams = new Map(upstreams.map((upstream, i) => [routing.upstreams[i]!.breakerId, upstream]));
			this.#groups = new Map(groups.map((group) => [group.name, group]));
			this.#plane.routes = routes;
			this.#plane.takesWebSockets = routing.routes.some(({ webSocket }) => webSocket !== undefined);
			this.#plane.routesLimitBodies = limitBodies(routing.routes);
			for (const [i, upstream] of upstreams.entries()) {
				upstream.connectBy(transports[i]!);
				upstream.pool.use(routing.upstreams[i]!);
			}
			for (const [i, group] of groups.entries()) {
				group.comesIntoForce();
				const { limits } = routing.groups[i]!;
				for (const { pool } of group.upstreams) {
					pool.limitTo(limits?.maxConnections, group.room);
				}
				this.#rooms.get(group.name)?.use(limits, group);
			}
			for (const [breakerId, upstream] of before) {
				if (!this.#upstreams.has(breakerId)) upstream.pool.retire(this.#rooms.get(upstream.group));
			}
			for (const [name, room] of this.#rooms) {
				if (this.#groups.has(name)) continue;
				room.retire();
				// Only requests that wait in it, and connections that they wait for, still know it.
				this.#rooms.delete(name);
			}
		};
	}

	#webSocketRoute({ endsAtExpiry, messagesPerSec, idleMs }: WebSocketSeed): WebSocketRoute {
		const { lasting } = this.#plane.deadlines;
		const idle = idleMs === 0 ? undefined : lasting(idleMs);
		return { endsAtExpiry, messagesPerSec, idle, looks: lasting(LOOKS_MS) };
	}

	/** No tenant has a NUL in its name, so no route has a tenant's key. */
	#routeLimit(prefix: string, rate: RateSeed): RouteLimit {
		const key = tenantKey(this.#seed.tenantSecret, `\0${prefix}`);
		return { rate: rateOf(rate), key, policy: routePolicy(prefix) };
	}

	/** Requests wait on in the room that they are in while tables change. */
	#roomOf(group: string, seed: PendingQueueSeed, limits: UpstreamLimits): PendingQueue {
		const room = this.#rooms.get(group) ?? new PendingQueue(seed, limits, this.#seed.index, this.#plane);
		this.#rooms.set(group, room);
		return room;
	}
}

/** Between two looks at messages that wait for their time, ms: that of the timer. */
const LOOKS_MS = 50;

/** The library that reads names in certificates is loaded for those tables alone whose routes ask for names. */
export async function nameReaderFor({ routes }: RoutingSeed): Promise<NameReader | undefined> {
	const readsNames = routes.some(
		({ access, certificateHeaders }) => access?.allow ?? access?.deny ?? certificateHeaders?.xfcc,
	);
	return readsNames ? loadNameReader() : undefined;
}

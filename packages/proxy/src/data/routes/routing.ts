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
import { Endpoint } from '../upstream/endpoint.ts';
import { PendingQueue } from '../upstream/pending-queue.ts';
import { transportsOf } from '../upstream/transport.ts';
import { Upstream } from '../upstream/upstream.ts';
import type { Route, WebSocketRoute } from './route.ts';

/** The routing table of one worker, from one reload to the next: routes, upstreams and their rooms, and the endpoints, which outlive tables. */
export class Routing {
	readonly #seed: Pick<WorkerSeed, 'index' | 'tenantSecret'>;
	readonly #plane: DataPlane;
	/** In force, by the identifier of their breaker. */
	#endpoints = new Map<number, Endpoint>();
	/** In force, by the name of their `[[upstreams]]`. */
	#upstreams = new Map<string | undefined, Upstream>();
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
		// An endpoint is the one we know when it has the same breaker: then its connections stay, too.
		const transports = transportsOf(routing, (id) => this.#endpoints.get(id)?.transport, this.#plane.clock);
		const endpoints = routing.endpoints.map(
			(seed, i) =>
				this.#endpoints.get(seed.breakerId) ?? new Endpoint(seed, this.#seed.index, transports[i]!, this.#plane),
		);
		const upstreams = routing.upstreams.map(
			({ name, endpoints: members, weights, balancing, limits, waiting }) =>
				new Upstream({
					...balancing,
					name,
					endpoints: members.map((member) => endpoints[member]!),
					weights,
					random: Math.random,
					limits,
					room: limits && this.#roomOf(name!, waiting!, limits),
					before: name === undefined ? undefined : this.#upstreams.get(name),
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
					upstream: group,
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
					upstream: upstreams[group]!,
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
			const before = this.#endpoints;
			this.#endpoints = new Map(endpoints.map((endpoint, i) => [routing.endpoints[i]!.breakerId, endpoint]));
			this.#upstreams = new Map(upstreams.map((upstream) => [upstream.name, upstream]));
			this.#plane.routes = routes;
			this.#plane.takesWebSockets = routing.routes.some(({ webSocket }) => webSocket !== undefined);
			this.#plane.routesLimitBodies = limitBodies(routing.routes);
			for (const [i, endpoint] of endpoints.entries()) {
				endpoint.connectBy(transports[i]!);
				endpoint.pool.use(routing.endpoints[i]!);
			}
			for (const [i, upstream] of upstreams.entries()) {
				upstream.comesIntoForce();
				const { limits } = routing.upstreams[i]!;
				for (const { pool } of upstream.endpoints) {
					pool.limitTo(limits?.maxConnections, upstream.room);
				}
				this.#rooms.get(upstream.name)?.use(limits, upstream);
			}
			for (const [breakerId, endpoint] of before) {
				if (!this.#endpoints.has(breakerId)) endpoint.pool.retire(this.#rooms.get(endpoint.group));
			}
			for (const [name, room] of this.#rooms) {
				if (this.#upstreams.has(name)) continue;
				room.retire();
				// Only requests that wait in it, and connections that they wait for, still know it.
				this.#rooms.delete(name);
			}
		};
	}

	#webSocketRoute({ endsAtExpiry, messagesPerSec, idleMs }: WebSocketSeed): WebSocketRoute {
		const { deadlines, limits } = this.#plane;
		const { lasting } = deadlines;
		const halfEnded = lasting(Math.min(idleMs, limits.upstreamTimeoutMs));
		return { endsAtExpiry, messagesPerSec, idle: lasting(idleMs), halfEnded, looks: lasting(LOOKS_MS) };
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

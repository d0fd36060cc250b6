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

/**
 * The routing of one worker across reloads: routes, upstreams with their pending queues, and endpoints. Unchanged endpoints survive
 * a reload.
 */
export class Routing {
	readonly #seed: Pick<WorkerSeed, 'index' | 'tenantSecret'>;
	readonly #plane: DataPlane;
	/** Current endpoints, by the identifier of their breaker. */
	#endpoints = new Map<number, Endpoint>();
	/** Current upstreams, by the name of their `[[upstreams]]`. */
	#upstreams = new Map<string | undefined, Upstream>();
	/** Their pending queues, if they have limits. */
	readonly #pending = new Map<string | undefined, PendingQueue>();

	constructor(seed: Pick<WorkerSeed, 'index' | 'tenantSecret'>, plane: DataPlane) {
		this.#seed = seed;
		this.#plane = plane;
	}

	/**
	 * Does every step of a change that can fail.
	 *
	 * @param readNames present if routes use names in certificates (`nameReaderFor`).
	 * @returns applies the change; never throws.
	 */
	prepare(routing: RoutingSeed, readNames: NameReader | undefined): () => void {
		// An endpoint with a known breaker is the same endpoint: its connections stay as well.
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
					pending: limits && this.#pendingOf(name!, waiting!, limits),
					before: name === undefined ? undefined : this.#upstreams.get(name),
				}),
		);
		const plane = this.#plane;
		const routes = new RouteTable<Route>(
			routing.routes.map(
				({
					rate,
					upstream: group,
					access,
					certificateHeaders,
					forwarding,
					requestLimits: own,
					webSocket,
					stats,
					...unchanged
				}) => ({
					...unchanged,
					limit: rate && this.#routeLimit(unchanged.prefix, rate),
					upstream: upstreams[group]!,
					access: access && new RouteAccess(access, readNames),
					certificateHeaders: certificateHeaders && new CertificateHeaders(certificateHeaders, readNames),
					forwarding: forwarding && new Forwarding(forwarding, unchanged.prefix),
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
				endpoint.use(transports[i]!, routing.endpoints[i]!);
			}
			for (const [i, upstream] of upstreams.entries()) {
				upstream.comesIntoForce();
				const { limits } = routing.upstreams[i]!;
				for (const { pool } of upstream.endpoints) {
					pool.limitTo(limits?.maxConnections, upstream.pending);
				}
				this.#pending.get(upstream.name)?.use(limits, upstream);
			}
			for (const [breakerId, endpoint] of before) {
				if (!this.#endpoints.has(breakerId)) endpoint.pool.retire(this.#pending.get(endpoint.group));
			}
			for (const [name, pending] of this.#pending) {
				if (this.#upstreams.has(name)) continue;
				pending.retire();
				// Its pending requests, and the connections that they wait for, still refer to it.
				this.#pending.delete(name);
			}
		};
	}

	/** Ends the connections to all upstreams: no requests follow. */
	end(): void {
		for (const { pool, group } of this.#endpoints.values()) pool.retire(this.#pending.get(group));
	}

	#webSocketRoute({ endsAtExpiry, messagesPerSec, idleMs }: WebSocketSeed): WebSocketRoute {
		const { deadlines, limits } = this.#plane;
		const { lasting } = deadlines;
		const halfEnded = lasting(Math.min(idleMs, limits.upstreamTimeoutMs));
		return { endsAtExpiry, messagesPerSec, idle: lasting(idleMs), halfEnded, looks: lasting(LOOKS_MS) };
	}

	/** Tenants have no NUL in their names, so no route has the key of a tenant. */
	#routeLimit(prefix: string, rate: RateSeed): RouteLimit {
		const key = tenantKey(this.#seed.tenantSecret, `\0${prefix}`);
		return { rate: rateOf(rate), key, policy: routePolicy(prefix) };
	}

	/** Pending requests stay in their queue across reloads. */
	#pendingOf(group: string, seed: PendingQueueSeed, limits: UpstreamLimits): PendingQueue {
		const pending = this.#pending.get(group) ?? new PendingQueue(seed, limits, this.#seed.index, this.#plane);
		this.#pending.set(group, pending);
		return pending;
	}
}

/** Between two checks of delayed messages, ms: the resolution of the timer. */
const LOOKS_MS = 50;

/** Loads the library for names in certificates only if a route uses names. */
export async function nameReaderFor({ routes }: RoutingSeed): Promise<NameReader | undefined> {
	const readsNames = routes.some(
		({ access, certificateHeaders }) => access?.allow ?? access?.deny ?? certificateHeaders?.xfcc,
	);
	return readsNames ? loadNameReader() : undefined;
}

import { parentPort, workerData } from 'node:worker_threads';
import { correlate } from '../gates/correlation.ts';
import { Forwarding } from '../gates/forwarding.ts';
import { routePolicy } from '../gates/rate-limit-fields.ts';
import { RouteTable } from '../gates/routes.ts';
import { CACHE_CAPACITY } from '../gates/token-cache.ts';
import { createTracing, UNIDENTIFIED } from '../gates/trace-context.ts';
import { CertificateHeaders } from '../identity/certificate-headers.ts';
import { loadNameReader, type NameReader } from '../identity/certificate-names.ts';
import { Quotas, type RateSeed, rateOf } from '../identity/quotas.ts';
import { NOTHING_REVOKED, RevokedTokens } from '../identity/revocations.ts';
import { RouteAccess } from '../identity/route-access.ts';
import { type IdentitySeed, type OnUnknownKey, Trust } from '../identity/trust.ts';
import { BucketCounts } from '../memory/bucket-counts.ts';
import { Budget } from '../memory/budget.ts';
import { ConcurrencyCounts } from '../memory/concurrency.ts';
import { FleetLimiter } from '../memory/fleet/fleet-limiter.ts';
import { TenantLimiter } from '../memory/limiter.ts';
import { RouteStats } from '../memory/route-stats.ts';
import { WorkerStats } from '../memory/stats.ts';
import { tenantKey } from '../memory/tenant-key.ts';
import { TenantShares } from '../memory/tenant-shares.ts';
import { Authenticator } from '../shared/authenticator.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import { createLogger, type Logger, parseLogFilter } from '../shared/log.ts';
import type {
	FromWorker,
	RoutingSeed,
	TlsMaterial,
	ToWorker,
	UpstreamLimits,
	WaitingSeed,
	WorkerSeed,
} from '../shared/messages.ts';
import type { RouteLimit } from '../shared/quota-gates.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import { ClientPolicy } from '../tls/client-policy.ts';
import { createListenerContexts } from '../tls/tls-options.ts';
import { AccessLog, accessLogShare } from './access-log.ts';
import { BufferedBytes } from './body/buffered-bytes.ts';
import { SLABS, TRIM_MS } from './body/slabs.ts';
import { Deadlines } from './deadlines.ts';
import { DispatchQueue } from './dispatch-queue.ts';
import { reportTo } from './fault-report.ts';
import { Listener } from './listener.ts';
import { watchLoop } from './loop-watch.ts';
import { ReadQueue } from './paced-reads.ts';
import {
	createDeadlines,
	type DataPlane,
	type PlaneDeadlines,
	type PlaneHistograms,
	type Route,
	Upstream,
} from './plane.ts';
import { createRandomHex } from './random-hex.ts';
import { createRequestLimits, limitBodies } from './request-limits.ts';
import { RequestLog, type RequestRecord } from './request-record.ts';
import { SpanQueue } from './span-queue.ts';
import { TurnEnd } from './turn-end.ts';
import { reportUnknownKeys } from './unknown-keys.ts';
import { UpstreamGroup } from './upstream/group.ts';
import { NewestHead } from './upstream/response-heads.ts';
import { transportsOf } from './upstream/transport.ts';
import { WaitingRoom } from './upstream/waiting-room.ts';

/**
 * One data-plane thread: builds its part of the world from `workerData`, serves, and does what the control plane says
 * (`shared/messages.ts`).
 */
class Worker {
	readonly #seed: WorkerSeed;
	readonly #plane: DataPlane;
	/** `undefined` when it is off. */
	readonly #accessLog: AccessLog | undefined;
	/** `undefined` without `[trace]`. */
	readonly #spans: SpanQueue | undefined;
	readonly #listener: Listener;
	readonly #onUnknownKey: OnUnknownKey;
	#upstreams = new Map<number, Upstream>();
	/** In force, by the name of their `[[upstreams]]`. */
	#groups = new Map<string | undefined, UpstreamGroup>();
	/** The same. */
	readonly #rooms = new Map<string | undefined, WaitingRoom>();
	/** What a `commit` will put into force. */
	readonly #prepared = new Map<number, () => void>();
	/** Rounds whose part here is being prepared. */
	readonly #preparing = new Set<number>();

	/** @param readNames for a routing table whose routes ask for names (`nameReaderFor`). */
	constructor(seed: WorkerSeed, readNames: NameReader | undefined) {
		this.#seed = seed;
		const clock = systemClock(seed.clockEpoch);
		const log = createLogger(
			parseLogFilter(seed.logFilter),
			(record) => tell({ type: 'log', record }),
			() => new Date(),
		);
		const deadlines = new Deadlines(clock, reportTo(log));
		const stats = new WorkerStats(seed.stats);
		this.#accessLog = createAccessLog(seed, clock, stats);
		this.#spans = createSpanQueue(seed, clock, stats);
		this.#onUnknownKey = reportUnknownKeys(clock, (issuer) => tell({ type: 'unknown-key', issuer }));
		const trust = new Trust(seed.identity, this.#onUnknownKey);
		const keys = { keyOf: (tenant: string) => tenantKey(seed.tenantSecret, tenant) };
		const authenticator = new Authenticator(trust, keys, createQuotas(seed, seed.identity), CACHE_CAPACITY, stats);
		const planeDeadlines = createDeadlines(deadlines, seed.limits);
		this.#plane = createPlane(seed, clock, stats, planeDeadlines, authenticator, {
			log,
			accessLog: this.#accessLog,
			spans: this.#spans,
		});
		authenticator.refuseRevoked(new RevokedTokens(seed.tls.clients?.revoked ?? NOTHING_REVOKED));
		this.#routing(seed.routing, readNames)();
		this.#listener = new Listener(this.#plane, seed);
		deadlines.start();
		watchLoop(clock, stats);
		setInterval(() => SLABS.trim(), TRIM_MS).unref();
	}

	async listen(): Promise<void> {
		try {
			const port = await this.#listener.listen(this.#seed.bind, this.#seed.reusePort);
			tell({ type: 'listening', port });
		} catch (error) {
			const { code = 'EUNKNOWN', message } = error as NodeJS.ErrnoException;
			tell({ type: 'listen-failed', code, message });
		}
	}

	/** Takes and reads nothing more. */
	abandon(): void {
		this.#listener.abandon();
	}

	/** What requests have left to say. */
	flush(): void {
		this.#accessLog?.flush();
		this.#spans?.flush();
	}

	onMessage(message: ToWorker): void {
		switch (message.type) {
			case 'prepare-tls':
				return void this.#prepare(message.id, () => this.#tls(message.tls));
			case 'prepare-routing':
				return void this.#prepare(message.id, async () =>
					this.#routing(message.routing, await nameReaderFor(message.routing)),
				);
			case 'prepare-identity':
				return void this.#prepare(message.id, () => this.#identity(message.identity));
			case 'commit':
				this.#prepared.get(message.id)?.();
				this.#prepared.delete(message.id);
				return tell({ type: 'committed', id: message.id });
			case 'discard':
				this.#preparing.delete(message.id);
				this.#prepared.delete(message.id);
				return;
			case 'stop-accepting':
				return this.#listener.stopAccepting(() => tell({ type: 'closed' }));
			case 'drain':
				return this.#listener.drain(() => this.#onDrained());
			case 'access-lines-written':
				return this.#accessLog?.onWritten(message.bytes);
			case 'spans-done':
				return this.#spans?.onDone(message.count);
		}
	}

	/** The last connection has closed. The requests that it carried hear of it in the same turn of the loop. */
	#onDrained(): void {
		setImmediate(() => {
			this.flush();
			tell({ type: 'drained' });
		});
	}

	/** Does all that can fail; what is left to do at the commit cannot. */
	async #prepare(id: number, build: () => (() => void) | Promise<() => void>): Promise<void> {
		this.#preparing.add(id);
		try {
			const takeOver = await build();
			// Another worker may have refused meanwhile, and the round is over.
			if (!this.#preparing.delete(id)) return;
			this.#prepared.set(id, takeOver);
			tell({ type: 'prepared', id });
		} catch (error) {
			if (!this.#preparing.delete(id)) return;
			tell({ type: 'refused', id, message: (error as Error).message });
		}
	}

	#tls(material: TlsMaterial): () => void {
		const contexts = createListenerContexts(material, this.#listener.tls);
		const policy = new ClientPolicy(material);
		const revoked = new RevokedTokens(material.clients?.revoked ?? NOTHING_REVOKED);
		return () => {
			this.#listener.useTls(contexts, policy);
			this.#plane.authenticator.refuseRevoked(revoked);
		};
	}

	#identity(identity: IdentitySeed): () => void {
		const trust = new Trust(identity, this.#onUnknownKey);
		const quotas = createQuotas(this.#seed, identity);
		return () => this.#plane.authenticator.use(trust, quotas);
	}

	/** No tenant has a NUL in its name, so no route has a tenant's key. */
	#routeLimit(prefix: string, rate: RateSeed): RouteLimit {
		const key = tenantKey(this.#seed.tenantSecret, `\0${prefix}`);
		return { rate: rateOf(rate), key, policy: routePolicy(prefix) };
	}

	/** Requests wait on in the room that they are in while tables change. */
	#roomOf(group: string, seed: WaitingSeed, limits: UpstreamLimits): WaitingRoom {
		const room = this.#rooms.get(group) ?? new WaitingRoom(seed, limits, this.#seed.index, this.#plane);
		this.#rooms.set(group, room);
		return room;
	}

	#routing(routing: RoutingSeed, readNames: NameReader | undefined): () => void {
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
					cooldownMs,
					opening,
					rate,
					group,
					access,
					certificateHeaders,
					forwarding,
					requestLimits: own,
					stats,
				}) => ({
					prefix,
					caseInsensitive,
					cooldownMs,
					opening,
					limit: rate && this.#routeLimit(prefix, rate),
					group: groups[group]!,
					access: access && new RouteAccess(access, readNames),
					certificateHeaders: certificateHeaders && new CertificateHeaders(certificateHeaders, readNames),
					forwarding: forwarding && new Forwarding(forwarding, prefix),
					requestLimits:
						own === undefined ? plane.requestLimits : createRequestLimits(plane.limits, plane.deadlines, own),
					stats: RouteStats.view(stats, this.#seed.index),
				}),
			),
		);
		return () => {
			const before = this.#upstreams;
			this.#upstreams = new Map(upstreams.map((upstream, i) => [routing.upstreams[i]!.breakerId, upstream]));
			this.#groups = new Map(groups.map((group) => [group.name, group]));
			this.#plane.routes = routes;
			this.#plane.routesLimitBodies = limitBodies(routing.routes);
			for (const [i, upstream] of upstreams.entries()) {
				upstream.connectBy(transports[i]!);
				upstream.pool.use(routing.upstreams[i]!);
			}
			for (const [i, group] of groups.entries()) {
				group.comesIntoForce();
				const { limits } = routing.groups[i]!;
				const newest = new NewestHead();
				for (const { pool, heads } of group.upstreams) {
					pool.limitTo(limits?.maxConnections, group.room);
					heads.shareWith(newest);
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
}

/** The library that reads names in certificates is loaded for those tables alone whose routes ask for names. */
async function nameReaderFor({ routes }: RoutingSeed): Promise<NameReader | undefined> {
	const readsNames = routes.some(
		({ access, certificateHeaders }) => access?.allow ?? access?.deny ?? certificateHeaders?.xfcc,
	);
	return readsNames ? loadNameReader() : undefined;
}

/** The tenants' quotas. Who is under way with the slots of others before them goes on being counted. */
function createQuotas({ tenantRps, concurrency, index, tenantSecret }: WorkerSeed, identity: IdentitySeed): Quotas {
	const counts = new ConcurrencyCounts(concurrency, index);
	return new Quotas(identity.quotas, tenantRps, (tenant, limit) =>
		counts.slots(tenantKey(tenantSecret, tenant), limit),
	);
}

function createAccessLog({ log, workers }: WorkerSeed, clock: Clock, stats: WorkerStats): AccessLog | undefined {
	if (log.access === 'off') return undefined;
	return new AccessLog({
		errorsOnly: log.access === 'errors',
		clock,
		send: (lines, dropped) => tell({ type: 'access-lines', lines, dropped }),
		maxBytes: accessLogShare(workers),
		stats,
	});
}

function createSpanQueue({ trace, workers }: WorkerSeed, clock: Clock, stats: WorkerStats): SpanQueue | undefined {
	if (trace === undefined) return undefined;
	return new SpanQueue({
		clock,
		send: (spans) => tell({ type: 'spans', spans }),
		maxSpans: Math.ceil(trace.maxQueueSpans / workers),
		tenants: trace.tenants,
		stats,
	});
}

function createLimiter({ limiter, fleet, index }: WorkerSeed): TenantLimiter {
	return fleet === undefined ? new TenantLimiter(limiter, index) : new FleetLimiter(limiter, index, fleet);
}

function createPlane(
	seed: WorkerSeed,
	clock: Clock,
	stats: WorkerStats,
	deadlines: PlaneDeadlines,
	authenticator: Authenticator,
	{ log, accessLog, spans }: { log: Logger; accessLog: AccessLog | undefined; spans: SpanQueue | undefined },
): DataPlane {
	const limiter = createLimiter(seed);
	const debugs = parseLogFilter(seed.logFilter).enabled('debug', 'proxy::request');
	const writers = [...(accessLog ? [accessLog.write] : []), ...(debugs ? [debugLines(log)] : [])];
	const { correlate, identifiers } = createCorrelate(seed);
	const turnEnd = new TurnEnd(reportTo(log));
	return {
		clock,
		limits: seed.limits,
		authenticator,
		limiter,
		routes: new RouteTable([]),
		routesLimitBodies: false,
		requestLimits: createRequestLimits(seed.limits, deadlines),
		stats,
		histograms: createHistograms(seed),
		bufferedBytes: new BufferedBytes(
			new Budget(seed.bufferedBytes, seed.index),
			seed.tenantShares && new TenantShares(seed.tenantShares, seed.index),
		),
		deadlines,
		turnEnd,
		reads: new ReadQueue(turnEnd, clock),
		dispatches: new DispatchQueue(clock, turnEnd),
		log,
		strangers: new RateLimitedLog(log, clock),
		requestLog: createRequestLog(clock, writers, spans, correlate),
		correlate,
		identifiers,
		traces: spans !== undefined,
	};
}

function createRequestLog(
	clock: Clock,
	writers: readonly ((record: RequestRecord) => void)[],
	spans: SpanQueue | undefined,
	correlate: DataPlane['correlate'],
): RequestLog | undefined {
	if (writers.length === 0 && spans === undefined) return undefined;
	const sample = () => correlate?.(UNIDENTIFIED).span;
	return new RequestLog(clock, writers, spans && { write: spans.write, sample });
}

function createCorrelate({ log: { requestId }, trace }: WorkerSeed): Pick<DataPlane, 'correlate' | 'identifiers'> {
	const randomHex = createRandomHex();
	if (trace !== undefined) {
		const identifiers = requestId ? 'trace and request' : 'trace';
		return { correlate: createTracing({ ratio: trace.ratio, requestIds: requestId }, randomHex), identifiers };
	}
	if (!requestId) return { correlate: undefined, identifiers: 'none' };
	return { correlate: (head) => correlate(head, randomHex), identifiers: 'trace and request' };
}

function createHistograms({ index, histograms }: WorkerSeed): PlaneHistograms {
	const { upstream, handshake, gate, handshakes, gates } = histograms;
	return {
		handshakes: BucketCounts.view(handshake, handshakes, index),
		gates: BucketCounts.view(gate, gates, index),
		durationsOf: ({ durations }) => BucketCounts.view(upstream, durations, index),
	};
}

/** The line of `RUST_LOG=proxy::request=debug` about each answer. */
function debugLines(log: Logger): (record: RequestRecord) => void {
	return ({ method, path, status, tenant, upstream, refusal, duration }) => {
		if (status === 0) return;
		log.debug('proxy::request', 'answered', {
			method,
			path,
			status,
			tenant,
			upstream: upstream?.authority,
			rejection: refusal?.code,
			reason: refusal?.reason,
			duration_ms: Math.round(duration * 1000) / 1000,
		});
	};
}

function tell(message: FromWorker): void {
	parentPort!.postMessage(message);
}

const seed = workerData as WorkerSeed;
const worker = new Worker(seed, await nameReaderFor(seed.routing));
/**
 * An error that nothing has caught ends the thread, but not at once. Node goes on reading once more after it has stopped
 * the thread's JavaScript, and aborts the whole process over what an HTTP/2 session gets then (nodejs/node#64850). So the
 * sockets go first; outside the poll, for there Node may be in the middle of a read.
 */
process.once('uncaughtException', (error) => {
	setImmediate(() => {
		worker.abandon();
		setImmediate(() => {
			worker.flush();
			throw error;
		});
	});
});
parentPort!.on('message', (message: ToWorker) => worker.onMessage(message));
await worker.listen();

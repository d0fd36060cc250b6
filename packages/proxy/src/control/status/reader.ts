import { ConcurrencyCounts } from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import { tenantKey } from '@mtls-edge-proxy/gate/memory/tenant-key.ts';
import type { RouteConfig } from '../../config/config.ts';
import { upstreamKey } from '../../config/upstream.ts';
import { type BudgetMemory, budgetInUse } from '../../memory/budget.ts';
import { Summary } from '../../memory/histogram.ts';
import { CLIENT_PROTOCOLS, type RouteStats } from '../../memory/route-stats.ts';
import { UpstreamStats } from '../../memory/upstream-stats.ts';
import { readCounters, type WorkerCounts, type WorkerStats } from '../../memory/worker-stats.ts';
import type { Readiness } from '../admin/readiness.ts';
import { type Expiring, expiringOf, expiringOfUpstreams } from '../facts/certificates.ts';
import { loopFact, readMemory } from '../facts/process.ts';
import type { StoreFacts } from '../facts/store.ts';
import { sum, total } from '../metrics/adding-up.ts';
import type { MetricSources } from '../metrics/families.ts';
import type { ProcessMemory } from '../process-memory.ts';
import type { Endpoint, RoutingPlan, Upstream } from '../routing/table.ts';
import type { InForce } from '../state/in-force.ts';
import { countsOf, type RecentCounter, refusalsOf } from './counts.ts';
import { endpointStatus } from './endpoint-status.ts';
import { grpcStatuses } from './grpc.ts';
import type { History, Sampled } from './history.ts';
import type {
	BudgetStatus,
	CertificateStatus,
	Found,
	IssuerStatus,
	SharedLimitsStatus,
	Snapshot,
	UpstreamStatus,
	WorkerStatus,
} from './schema.ts';
import type { ShareBounds } from './shares.ts';
import type { StatusSource } from './status-pages.ts';
import { DAY_MS, iso, isoOf, seconds, wholeSeconds } from './times.ts';

/** The sources of the status page, in addition to those of metrics. */
interface StatusSources {
	readonly metrics: MetricSources;
	readonly host: string;
	readonly routing: () => RoutingPlan;
	readonly inForce: Pick<InForce, 'tls' | 'upstreamTls' | 'identity' | 'generation' | 'reloads' | 'needsRestart'>;
	readonly readiness: Pick<Readiness, 'obstacle'>;
	readonly memory: Pick<ProcessMemory, 'concurrency' | 'tenantSecret'>;
	/** Whether tenants' names may be shown. */
	readonly tenants: boolean;
	readonly shareBounds: ShareBounds;
}

/** Reads shared memory and the main thread's state. Uses generators, because thousands of upstreams and routes take a while. */
export class StatusReader implements StatusSource {
	readonly #sources: StatusSources;
	/** Views on regions of memory, made once for each. */
	readonly #views = new WeakMap<Endpoint['counters'], readonly UpstreamStats[]>();
	readonly #tenantCounts: ConcurrencyCounts;

	constructor(sources: StatusSources) {
		this.#sources = sources;
		this.#tenantCounts = new ConcurrencyCounts(sources.memory.concurrency, 0);
	}

	*read(history: History): Generator<void, Found> {
		const { metrics, host, readiness, inForce, shareBounds } = this.#sources;
		const { bufferedBytes, connections } = metrics.budgets;
		const now = metrics.now();
		const wallMs = metrics.wallSeconds() * 1000;
		const usage = readMemory();
		const counters = this.counters();
		const inFlight = yield* this.#inFlight();
		const upstreams = yield* this.#upstreams(history);
		const counted = (kind: RecentCounter) => countsOf(kind, counters, history);
		const store = metrics.store?.();
		return {
			schema: 1,
			at: iso(wallMs),
			process: {
				host,
				version: metrics.build.version,
				body_mode: metrics.build.bodyMode,
				node: metrics.build.node,
				started_at: iso(wallMs - now),
				uptime_seconds: Math.max(0, Math.floor(now / 1000)),
				not_ready: readiness.obstacle ?? null,
				resident_bytes: usage.rss,
				heap_used_bytes: usage.heapUsed,
			},
			traffic: {
				requests_total: sum(counters.responses.values()) + total(upstreams, (one) => one.requests_total),
				...history.latest(),
				in_flight: sum(inFlight),
			},
			shares: history.shares(shareBounds, (ms) => iso(Math.round((wallMs - now + ms) / 1000) * 1000)),
			upstreams,
			dns: this.#dns(),
			refusals: refusalsOf(counters, history),
			handshakes: {
				...this.#handshakeTimes(now),
				failed_total: sum(counters.handshakeRefusals.values()),
				failures: counted('handshakeRefusals'),
			},
			connections: {
				handshaking: counters.connections.get('handshake')!,
				http1: counters.connections.get('http/1.1')!,
				h2: counters.connections.get('h2')!,
				websockets: sum(counters.tunnels.values()),
				limit: connections.limit,
				refused: counted('connectionRefusals'),
				ended: counted('connectionEnds'),
				websocket_ends: counted('tunnelEnds'),
				http2_errors: counted('http2Errors'),
			},
			grpc: grpcStatuses(upstreams),
			certificates: [...expiringOf(inForce.tls), ...expiringOfUpstreams(inForce.upstreamTls ?? [])].map((one) =>
				certificate(one, wallMs),
			),
			issuers: this.#issuers(),
			workers: {
				configured: metrics.workerStats.length,
				listening: metrics.listening(),
				each: metrics.workerStats.map((stats, i) => worker(stats, i, inFlight[i]!, now)),
			},
			memory: [
				budget('request and answer bodies', 'bytes', bufferedBytes, 'limits.max_buffered_bytes'),
				budget('client connections', 'connections', connections, 'limits.max_connections'),
			],
			reloads: this.#reloads(),
			log: this.#log(),
			shared_limits: store === undefined ? null : sharedLimits(store, wallMs),
			tenants: this.#tenants(),
		};
	}

	counters(): WorkerCounts {
		return readCounters(this.#sources.metrics.workerStats);
	}

	*sampled(): Iterable<Sampled> {
		for (const [key, { counters }] of this.#sources.routing().endpoints) {
			const regions = this.#regions(counters);
			yield {
				key,
				answers: () => total(regions, (region) => region.responsesInAll),
				serverErrors: () => total(regions, (region) => region.serverErrors),
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

	/** Requests of each worker. */
	*#inFlight(): Generator<void, number[]> {
		const { metrics, routing } = this.#sources;
		const inFlight = metrics.workerStats.map(({ unrouted }) => inFlightOf(unrouted));
		for (const { stats } of routing().traffic.values()) {
			for (const [worker, one] of stats.entries()) inFlight[worker]! += inFlightOf(one);
			yield;
		}
		return inFlight;
	}

	#regions(counters: Endpoint['counters']): readonly UpstreamStats[] {
		const known = this.#views.get(counters);
		if (known !== undefined) return known;
		const regions = counters.stats.map((region) => new UpstreamStats(region));
		this.#views.set(counters, regions);
		return regions;
	}

	*#upstreams(history: History): Generator<void, UpstreamStatus[]> {
		const { routes, endpoints, upstreams } = this.#sources.routing();
		const prefixes = Map.groupBy(routes, ({ upstream }: RouteConfig) => upstreamKey(upstream));
		const read: UpstreamStatus[] = [];
		for (const [key, endpoint] of endpoints) {
			const { address, group } = endpoint;
			const routes = (prefixes.get(group ?? address.authority) ?? []).map(({ prefix }) => prefix);
			const share = group === undefined ? NO_SHARE : shareOf(upstreams.get(group)!, endpoint);
			const regions = this.#regions(endpoint.counters);
			read.push({
				...endpointStatus(endpoint, regions, (code, total) => history.grpcRise(key, code, total)),
				...share,
				routes,
				...history.latest(key),
			});
			yield;
		}
		return read;
	}

	#dns(): Snapshot['dns'] {
		const { metrics, routing } = this.#sources;
		const prefixes = Map.groupBy(routing().routes, ({ upstream }) => upstream.name);
		return Array.from(metrics.addresses(), ({ group, authority: name, value, ageMs, failing }) => ({
			group,
			name,
			routes: (prefixes.get(group) ?? []).map(({ prefix }) => prefix),
			addresses: value?.length ?? 0,
			age_seconds: wholeSeconds(ageMs),
			failing_since: isoOf(failing?.sinceSeconds),
			failures: failing?.failures ?? 0,
			cause: failing?.cause ?? null,
		}));
	}

	#handshakeTimes(now: number): Pick<Snapshot['handshakes'], 'completed_total' | 'p50_seconds' | 'p99_seconds'> {
		const summary = new Summary();
		for (const { handshakes } of this.#sources.metrics.workerStats) handshakes.addTo(summary, now);
		return {
			completed_total: summary.count,
			p50_seconds: seconds(summary.quantile(0.5)),
			p99_seconds: seconds(summary.quantile(0.99)),
		};
	}

	#issuers(): IssuerStatus[] {
		const { inForce, metrics } = this.#sources;
		const remote = new Map(Array.from(metrics.remoteKeys(), (keys) => [keys.issuer.issuer, keys]));
		return inForce.identity.issuers.map((seed) => {
			const refresher = seed.remote ? remote.get(seed.issuer ?? '') : undefined;
			const fetches = refresher?.fetches;
			return {
				issuer: seed.issuer ?? null,
				source: seed.remote ? 'network' : 'file',
				algorithms: seed.algorithms,
				keys: (seed.keys?.keys ?? []).map(({ kid }) => kid ?? null),
				age_seconds: wholeSeconds(refresher?.ageMs),
				fetches: fetches === undefined ? null : { success_total: fetches.success, failure_total: fetches.failure },
			};
		});
	}

	#reloads(): Snapshot['reloads'] {
		const { inForce, metrics } = this.#sources;
		const { generation, reloads, needsRestart } = inForce;
		return {
			generation,
			success_total: reloads.success,
			failure_total: reloads.failure,
			last: metrics.journal.recent.map(({ atSeconds, part, asked, result, cause, generation }) => ({
				at: iso(atSeconds * 1000),
				part,
				asked,
				outcome: result,
				cause: cause ?? null,
				generation,
			})),
			needs_restart: needsRestart?.settings.map(({ words }) => words) ?? [],
			needs_restart_since: isoOf(needsRestart?.sinceSeconds),
		};
	}

	#log(): Snapshot['log'] {
		const { lines, failing } = this.#sources.metrics.logLosses();
		return { lost_total: lines, failing_since: isoOf(failing?.sinceSeconds), cause: failing?.code ?? null };
	}

	/** The tenants of the configuration, the busiest first. No other names are kept. */
	#tenants(): Snapshot['tenants'] {
		const { tenants, inForce, memory } = this.#sources;
		if (!tenants) return null;
		return (inForce.identity.quotas?.tenants ?? [])
			.map(({ name, rate, concurrency }) => ({
				tenant: name,
				requests_per_second: rate === null ? ('unlimited' as const) : (rate?.rps ?? null),
				burst: rate?.burst ?? null,
				concurrency: concurrency ?? null,
				in_flight:
					concurrency === undefined
						? null
						: this.#tenantCounts.slots(tenantKey(memory.tenantSecret, name), concurrency).taken,
			}))
			.sort((a, b) => (b.in_flight ?? 0) - (a.in_flight ?? 0))
			.slice(0, MAX_TENANTS);
	}
}

/** A configuration may name thousands. */
const MAX_TENANTS = 50;
const NO_SHARE = { balance: null, weight: null };

function shareOf({ config, endpoints }: Upstream, endpoint: Endpoint): Pick<UpstreamStatus, 'balance' | 'weight'> {
	const { weight = 1 } = config.addresses[endpoints.indexOf(endpoint)] ?? {};
	return { balance: config.balancing.balance, weight };
}

function worker(stats: WorkerStats, worker: number, inFlight: number, now: number): WorkerStatus {
	const { connections } = stats.read();
	const loop = loopFact(stats.loop, now);
	return {
		worker,
		connections: connections.get('http/1.1')! + connections.get('h2')!,
		in_flight: inFlight,
		utilization: loop === undefined ? null : Number(loop.utilization.toFixed(3)),
		delay_p99_seconds: loop === undefined ? null : seconds(loop.delayP99),
	};
}

function inFlightOf(traffic: RouteStats): number {
	return total(CLIENT_PROTOCOLS, (protocol) => traffic.read(protocol).inFlight);
}

function certificate({ kind, subject, serial, expiresSeconds }: Expiring, wallMs: number): CertificateStatus {
	const expiresMs = expiresSeconds * 1000;
	return { kind, subject, serial, not_after: iso(expiresMs), days_left: Math.floor((expiresMs - wallMs) / DAY_MS) };
}

function budget(
	name: BudgetStatus['name'],
	unit: BudgetStatus['unit'],
	memory: BudgetMemory,
	key: string,
): BudgetStatus {
	return { name, unit, used: budgetInUse(memory), limit: memory.limit, key };
}

function sharedLimits(store: StoreFacts, wallMs: number): SharedLimitsStatus {
	return {
		store: store.isAway ? 'unavailable' : 'up',
		for_seconds: Math.max(0, Math.floor(store.forMs / 1000)),
		since: iso(wallMs - store.forMs),
		reason: store.reason ?? null,
		cause: store.cause ?? null,
		on_store_failure: store.onStoreFailure,
		replicas: store.replicas,
		settle_seconds: Math.round(store.delayMs) / 1000,
		calls: { success_total: store.calls.success, failure_total: sum(store.calls.failures.values()) },
		revocations: store.revocations ?? null,
	};
}

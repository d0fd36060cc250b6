import { ConcurrencyCounts } from '@mtls-edge-proxy/gate/memory/concurrency.ts';
import { tenantKey } from '@mtls-edge-proxy/gate/memory/tenant-key.ts';
import { type BudgetMemory, budgetInUse } from '../../memory/budget.ts';
import { Summary } from '../../memory/histogram.ts';
import { CLIENT_PROTOCOLS, type RouteStats } from '../../memory/route-stats.ts';
import { readCounters, type WorkerCounts, type WorkerStats } from '../../memory/worker-stats.ts';
import type { Readiness } from '../admin/readiness.ts';
import { type Expiring, expiringOf, expiringOfUpstreams } from '../facts/certificates.ts';
import { loopFact, readMemory } from '../facts/process.ts';
import type { StoreFacts } from '../facts/store.ts';
import { sum } from '../metrics/adding-up.ts';
import type { MetricSources } from '../metrics/families.ts';
import type { ProcessState } from '../process-state.ts';
import { type CounterKind, countsOf } from './counts.ts';
import type { History, Sampled } from './history.ts';
import { DAY_MS, iso, isoOf, seconds, wholeSeconds } from './json.ts';
import type { ShareBounds } from './shares.ts';
import { grpcStatuses, readUpstreams, sampledOf } from './upstreams.ts';

interface StatusSources {
	readonly state: ProcessState;
	readonly metrics: MetricSources;
	readonly host: string;
	readonly readiness: Pick<Readiness, 'obstacle'>;
	/** Whether tenants' names may be shown. */
	readonly tenants: boolean;
	readonly shareBounds: ShareBounds;
}

/** The content of `/status.json`, but for the problems. docs/reference/status.md says what each member means. */
export type Found = ReturnType<StatusReader['read']> extends Generator<unknown, infer Read> ? Read : never;

/**
 * Reads shared memory and the main thread's state. Uses generators, because thousands of upstreams and routes take a while. While
 * `schema` is 1, members may be added but never change their meaning.
 */
export class StatusReader {
	readonly #sources: StatusSources;
	readonly #tenantCounts: ConcurrencyCounts;

	constructor(sources: StatusSources) {
		this.#sources = sources;
		this.#tenantCounts = new ConcurrencyCounts(sources.state.memory.concurrency, 0);
	}

	*read(history: History) {
		const { state, metrics, host, readiness, shareBounds } = this.#sources;
		const { clock, inForce } = state;
		const { bufferedBytes, connections, stats } = state.memory;
		const now = clock.now();
		const wallMs = clock.wallSeconds() * 1000;
		const usage = readMemory();
		const counters = this.counters();
		const inFlight = yield* this.#inFlight();
		const upstreams = yield* readUpstreams(state.upstreams.current, history);
		const counted = (kind: CounterKind) => countsOf(kind, counters, history);
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
				requests_total: sum(counters.responses.values()) + sum(upstreams.map((one) => one.requests_total)),
				...history.latest(),
				in_flight: sum(inFlight),
			},
			shares: history.shares(shareBounds, (ms) => iso(Math.round((wallMs - now + ms) / 1000) * 1000)),
			upstreams,
			dns: this.#dns(),
			refusals: counted('refusals'),
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
				configured: stats.length,
				listening: metrics.listening(),
				each: stats.map((one, i) => worker(one, i, inFlight[i]!, now)),
			},
			memory: [
				{
					name: 'request and response bodies',
					unit: 'bytes',
					...inUse(bufferedBytes),
					key: 'limits.max_buffered_bytes',
				},
				{ name: 'client connections', unit: 'connections', ...inUse(connections), key: 'limits.max_connections' },
			],
			reloads: this.#reloads(),
			log: this.#log(),
			shared_limits: store === undefined ? null : sharedLimits(store, wallMs),
			tenants: this.#tenants(),
		} as const;
	}

	counters(): WorkerCounts {
		return readCounters(this.#sources.state.memory.stats);
	}

	/** The smaller part that the history needs, of the table in force. */
	sampled(): Iterable<Sampled> {
		return sampledOf(this.#sources.state.upstreams.current);
	}

	/** Requests of each worker. */
	*#inFlight(): Generator<void, number[]> {
		const { memory, upstreams } = this.#sources.state;
		const inFlight = memory.stats.map(({ unrouted }) => inFlightOf(unrouted));
		for (const { stats } of upstreams.current.traffic.values()) {
			for (const [worker, one] of stats.entries()) inFlight[worker]! += inFlightOf(one);
			yield;
		}
		return inFlight;
	}

	#dns() {
		const { metrics, state } = this.#sources;
		const prefixes = Map.groupBy(state.upstreams.current.routes, ({ upstream }) => upstream.name);
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

	#handshakeTimes(now: number) {
		const summary = new Summary();
		for (const { handshakes } of this.#sources.state.memory.stats) handshakes.addTo(summary, now);
		return {
			completed_total: summary.count,
			p50_seconds: seconds(summary.quantile(0.5)),
			p99_seconds: seconds(summary.quantile(0.99)),
		};
	}

	#issuers() {
		const { state, metrics } = this.#sources;
		const remote = new Map(Array.from(metrics.remoteKeys(), (keys) => [keys.issuer.issuer, keys]));
		return state.inForce.identity.issuers.map((seed) => {
			const refresher = seed.remote ? remote.get(seed.issuer ?? '') : undefined;
			const fetches = refresher?.fetches;
			return {
				issuer: seed.issuer ?? null,
				source: seed.remote ? 'network' : 'file',
				algorithms: seed.algorithms,
				keys: (seed.keys?.keys ?? []).map(({ kid }) => kid ?? null),
				age_seconds: wholeSeconds(refresher?.ageMs),
				fetches: fetches === undefined ? null : { success_total: fetches.success, failure_total: fetches.failure },
			} as const;
		});
	}

	#reloads() {
		const { inForce, journal } = this.#sources.state;
		const { generation, reloads, needsRestart } = inForce;
		return {
			generation,
			success_total: reloads.success,
			failure_total: reloads.failure,
			last: journal.recent.map(({ atSeconds, part, asked, result, cause, generation }) => ({
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

	#log() {
		const { lines, failing } = this.#sources.metrics.logLosses();
		return { lost_total: lines, failing_since: isoOf(failing?.sinceSeconds), cause: failing?.code ?? null };
	}

	/** The tenants of the configuration, the busiest first. No other names are kept. */
	#tenants() {
		const { tenants, state } = this.#sources;
		if (!tenants) return null;
		return (state.inForce.identity.quotas?.tenants ?? [])
			.map(({ name, rate, concurrency }) => ({
				tenant: name,
				requests_per_second: rate === null ? ('unlimited' as const) : (rate?.rps ?? null),
				burst: rate?.burst ?? null,
				concurrency: concurrency ?? null,
				in_flight:
					concurrency === undefined
						? null
						: this.#tenantCounts.slots(tenantKey(state.memory.tenantSecret, name), concurrency).taken,
			}))
			.sort((a, b) => (b.in_flight ?? 0) - (a.in_flight ?? 0))
			.slice(0, MAX_TENANTS);
	}
}

/** A configuration may name thousands. */
const MAX_TENANTS = 50;

function worker(stats: WorkerStats, worker: number, inFlight: number, now: number) {
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
	return sum(CLIENT_PROTOCOLS.map((protocol) => traffic.read(protocol).inFlight));
}

function certificate({ kind, subject, serial, expiresSeconds }: Expiring, wallMs: number) {
	const expiresMs = expiresSeconds * 1000;
	return { kind, subject, serial, not_after: iso(expiresMs), days_left: Math.floor((expiresMs - wallMs) / DAY_MS) };
}

function inUse(memory: BudgetMemory) {
	return { used: budgetInUse(memory), limit: memory.limit };
}

function sharedLimits(store: StoreFacts, wallMs: number) {
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
	} as const;
}

import type { RouteConfig } from '../../config/config.ts';
import { groupKey } from '../../config/upstream.ts';
import { CLOSED } from '../../memory/breaker-cell.ts';
import { type BudgetMemory, budgetInUse } from '../../memory/budget.ts';
import { ConcurrencyCounts, type ConcurrencyMemory } from '../../memory/concurrency.ts';
import { Summary } from '../../memory/histogram.ts';
import { CLIENT_PROTOCOLS, type RouteStats } from '../../memory/route-stats.ts';
import { TLS_VERSIONS, UpstreamStats, type WorkerStats } from '../../memory/stats.ts';
import { tenantKey } from '../../memory/tenant-key.ts';
import { TRANSITIONS } from '../../memory/transition-counts.ts';
import type { AddressRefresher } from '../addresses/address-refresher.ts';
import type { Readiness } from '../admin/readiness.ts';
import { expiringOf, expiringOfUpstreams } from '../facts/certificates.ts';
import { beginning, lastTransition } from '../facts/circuit.ts';
import { loopFact } from '../facts/loops.ts';
import { readMemory } from '../facts/memory.ts';
import { addUp, sum, total } from '../metrics/adding-up.ts';
import type { MetricSources } from '../metrics/families.ts';
import type { RoutingPlan, Upstream, UpstreamGroup } from '../routing/table.ts';
import type { InForce } from '../state/in-force.ts';
import type {
	BudgetFacts,
	CounterFacts,
	Facts,
	IssuerFacts,
	NameFacts,
	TenantFacts,
	UpstreamFacts,
	WorkerFacts,
} from './facts.ts';
import type { Sampled } from './history.ts';
import type { ShareBounds } from './shares.ts';
import type { FactSource } from './status-pages.ts';

/** What the status page is read from, beside what metrics are. */
export interface FactSources {
	readonly metrics: MetricSources;
	readonly routing: () => RoutingPlan;
	/** Of the upstreams whose addresses DNS says. */
	readonly names: () => Iterable<Pick<AddressRefresher, 'group' | 'authority' | 'value' | 'ageMs' | 'failing'>>;
	readonly inForce: Pick<InForce, 'tls' | 'upstreamTls' | 'identity' | 'generation' | 'reloads' | 'needsRestart'>;
	readonly readiness: Pick<Readiness, 'obstacle'>;
	readonly memory: {
		readonly bufferedBytes: BudgetMemory;
		readonly connections: BudgetMemory;
		readonly concurrency: ConcurrencyMemory;
		readonly tenantSecret: Uint8Array;
	};
	/** Whether tenants' names may be shown. */
	readonly tenants: boolean;
	readonly shareBounds: ShareBounds;
}

/** Reads shared memory and the state of the main thread. With thousands of upstreams and routes it takes a while: hence the generators. */
export class FactReader implements FactSource {
	readonly #sources: FactSources;
	/** Views on regions of memory, made once for each. */
	readonly #views = new WeakMap<Upstream['counters'], readonly UpstreamStats[]>();
	readonly #tenantCounts: ConcurrencyCounts;

	constructor(sources: FactSources) {
		this.#sources = sources;
		this.#tenantCounts = new ConcurrencyCounts(sources.memory.concurrency, 0);
	}

	*facts(): Generator<void, Facts> {
		const { metrics, readiness, inForce, memory } = this.#sources;
		const now = metrics.now();
		const wallMs = metrics.wallSeconds() * 1000;
		const usage = readMemory();
		const inFlight = yield* this.#inFlight();
		const upstreams = yield* this.#upstreams();
		return {
			...this.counters(),
			wallMs,
			startedMs: wallMs - now,
			monotonicMs: now,
			build: metrics.build,
			obstacle: readiness.obstacle,
			residentBytes: usage.rss,
			heapUsedBytes: usage.heapUsed,
			listening: metrics.listening(),
			workers: metrics.workerStats.map((stats, worker) => workerFacts(stats, inFlight[worker]!, now)),
			upstreams,
			names: this.#names(),
			handshakes: this.#handshakes(now),
			bodyBudget: budget(memory.bufferedBytes),
			connectionBudget: budget(memory.connections),
			certificates: [...expiringOf(inForce.tls), ...expiringOfUpstreams(inForce.upstreamTls ?? [])],
			issuers: this.#issuers(),
			generation: inForce.generation,
			reloads: { ...inForce.reloads, last: metrics.journal.recent, needsRestart: inForce.needsRestart },
			shareBounds: this.#sources.shareBounds,
			log: metrics.logLosses(),
			store: metrics.store?.(),
			tenants: this.#tenants(),
		};
	}

	counters(): CounterFacts {
		const workers = this.#sources.metrics.workerStats.map((stats) => stats.read());
		const connections = addUp(workers.map((worker) => worker.connections));
		return {
			ownAnswers: addUp(workers.map(({ answers }) => answers)),
			auth: addUp(workers.map(({ auth }) => auth)),
			forbidden: addUp(workers.map(({ forbidden }) => forbidden)),
			rateLimited: addUp(workers.map(({ rateLimited }) => rateLimited)),
			handshakesDone: total(workers, (worker) => total(TLS_VERSIONS, (version) => sum(worker[version].values()))),
			handshakeFailures: addUp(workers.map(({ handshakeRefusals }) => handshakeRefusals)),
			connections: {
				handshake: connections.get('handshake')!,
				'http/1.1': connections.get('http/1.1')!,
				h2: connections.get('h2')!,
				refused: addUp(workers.map(({ connectionRefusals }) => connectionRefusals)),
				ended: addUp(workers.map(({ connectionEnds }) => connectionEnds)),
				http2Errors: addUp(workers.map(({ http2Errors }) => http2Errors)),
			},
		};
	}

	*sampled(): Iterable<Sampled> {
		for (const [key, { counters }] of this.#sources.routing().upstreams) {
			const regions = this.#regions(counters);
			yield {
				key,
				answers: () => total(regions, (region) => region.answersInAll),
				serverErrors: () => total(regions, (region) => region.serverErrors),
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

	#regions(counters: Upstream['counters']): readonly UpstreamStats[] {
		const known = this.#views.get(counters);
		if (known !== undefined) return known;
		const regions = counters.stats.map((region) => new UpstreamStats(region));
		this.#views.set(counters, regions);
		return regions;
	}

	*#upstreams(): Generator<void, UpstreamFacts[]> {
		const { routes, upstreams, groups } = this.#sources.routing();
		const prefixes = Map.groupBy(routes, ({ group }: RouteConfig) => groupKey(group));
		const facts: UpstreamFacts[] = [];
		for (const upstream of upstreams.values()) {
			const { address, group, breaker, counters, health, tls, alive, lastProbe } = upstream;
			const regions = this.#regions(counters);
			const readings = regions.map((region) => region.read());
			const opened = (cells: Float64Array) => total(OPENINGS, (i) => cells[i]!);
			const openings = total([counters, ...regions], ({ transitions }) => opened(transitions.cells));
			facts.push({
				upstream: address.authority,
				group,
				share: group === undefined ? undefined : shareOf(groups.get(group)!, upstream),
				routes: (prefixes.get(group ?? address.authority) ?? []).map(({ prefix }) => prefix),
				circuit: breaker.circuit,
				transition: transitionOf(upstream, openings),
				opened: openings,
				tls: tls === undefined ? 'none' : tls.rejectUnauthorized ? 'verified' : 'not verified',
				probed: health !== undefined,
				alive,
				lastProbe: health === undefined ? undefined : lastProbe,
				answers: addUp(readings.map(({ answers }) => answers)),
				active: total(readings, ({ active }) => active),
				idle: total(readings, ({ idle }) => idle),
			});
			yield;
		}
		return facts;
	}

	#names(): NameFacts[] {
		const { names, routing } = this.#sources;
		const prefixes = Map.groupBy(routing().routes, ({ group }) => group.name);
		return Array.from(names(), ({ group, authority: name, value, ageMs, failing }) => ({
			group,
			name,
			routes: (prefixes.get(group) ?? []).map(({ prefix }) => prefix),
			addresses: value?.length ?? 0,
			ageMs,
			failing,
		}));
	}

	#handshakes(now: number): Facts['handshakes'] {
		const summary = new Summary();
		for (const { handshakes } of this.#sources.metrics.workerStats) handshakes.addTo(summary, now);
		return { completed: summary.count, quantile: (q) => summary.quantile(q) };
	}

	#issuers(): IssuerFacts[] {
		const { inForce, metrics } = this.#sources;
		const remote = new Map(Array.from(metrics.remoteKeys(), (keys) => [keys.issuer.issuer, keys]));
		return inForce.identity.issuers.map((seed) => {
			const refresher = seed.remote ? remote.get(seed.issuer ?? '') : undefined;
			return {
				issuer: seed.issuer,
				remote: seed.remote,
				algorithms: seed.algorithms,
				kids: (seed.keys?.keys ?? []).map(({ kid }) => kid),
				ageMs: refresher?.ageMs,
				fetches: refresher?.fetches,
			};
		});
	}

	/** Those of the configuration: of others nothing is kept by name, so there is nothing to show. The busiest first. */
	#tenants(): TenantFacts[] | undefined {
		const { tenants, inForce, memory } = this.#sources;
		if (!tenants) return undefined;
		return (inForce.identity.quotas?.tenants ?? [])
			.map(({ name, rate, concurrency }) => {
				const inFlight =
					concurrency === undefined
						? undefined
						: this.#tenantCounts.slots(tenantKey(memory.tenantSecret, name), concurrency).taken;
				return { name, rate, concurrency, inFlight };
			})
			.sort((a, b) => (b.inFlight ?? 0) - (a.inFlight ?? 0))
			.slice(0, MAX_TENANTS);
	}
}

function workerFacts(stats: WorkerStats, inFlight: number, now: number): WorkerFacts {
	const { connections, loop } = stats.read();
	return { connections: connections.get('http/1.1')! + connections.get('h2')!, inFlight, loop: loopFact(loop, now) };
}

function inFlightOf(traffic: RouteStats): number {
	return total(CLIENT_PROTOCOLS, (protocol) => traffic.read(protocol).inFlight);
}

function shareOf({ config, upstreams }: UpstreamGroup, upstream: Upstream): UpstreamFacts['share'] {
	const { weight = 1 } = config.addresses[upstreams.indexOf(upstream)] ?? {};
	return { balance: config.balancing.balance, weight };
}

/** A configuration may name thousands. */
const MAX_TENANTS = 50;

/** Indexes of the transitions to open. */
const OPENINGS = [...TRANSITIONS.keys()].filter((i) => TRANSITIONS[i]!.to === 'open');

function budget(memory: BudgetMemory): BudgetFacts {
	return { used: budgetInUse(memory), limit: memory.limit };
}

/** Of one that has never been open nobody asks why, and the words have to be decoded. */
function transitionOf(upstream: Upstream, openings: number): UpstreamFacts['transition'] {
	if (upstream.breaker.circuit !== CLOSED) return lastTransition(upstream) ?? beginning(upstream);
	return openings > 0 ? lastTransition(upstream) : undefined;
}

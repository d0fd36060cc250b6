import { CIRCUIT_NAMES } from '../../memory/transition-counts.ts';
import type { StoreFacts } from '../facts/store.ts';
import { sum } from '../metrics/adding-up.ts';
import { upstreamKey } from '../routing/table.ts';
import { countsOf, refusalsOf } from './counts.ts';
import type { Facts, UpstreamFacts } from './facts.ts';
import type { History } from './history.ts';
import { type Found, findProblems } from './problems.ts';
import type { Point, SharedLimitsStatus, Snapshot, StatusPage, UpstreamStatus } from './schema.ts';
import { pageOf, type View } from './view.ts';

/** What the facts mean. Pure; a step for each upstream. */
export function* takeSnapshot(
	facts: Facts,
	history: Pick<History, 'latest' | 'rise' | 'shares'>,
): Generator<void, Snapshot> {
	const upstreams: UpstreamStatus[] = [];
	for (const one of facts.upstreams) {
		upstreams.push(toStatus(one, history.latest(historyKey(one))));
		yield;
	}
	const { completed, quantile } = facts.handshakes;
	const failures = facts.handshakeFailures;
	const counted = (kind: string, counts: ReadonlyMap<string, number>) => countsOf(kind, counts, history);
	const snapshot: Found = {
		schema: 1,
		at: iso(facts.wallMs),
		process: {
			version: facts.build.version,
			body_mode: facts.build.bodyMode,
			node: facts.build.node,
			started_at: iso(facts.startedMs),
			uptime_seconds: Math.max(0, Math.floor((facts.wallMs - facts.startedMs) / 1000)),
			not_ready: facts.obstacle ?? null,
			resident_bytes: facts.residentBytes,
			heap_used_bytes: facts.heapUsedBytes,
		},
		traffic: {
			requests_total: sum(facts.ownAnswers.values()) + sum(upstreams.map((one) => one.requests_total)),
			...history.latest(),
			in_flight: sum(facts.workers.map(({ inFlight }) => inFlight)),
		},
		shares: history.shares(facts.shareBounds).map(({ kind, count, total, sinceMs }) => ({
			kind,
			count,
			total,
			over_since:
				sinceMs === undefined ? null : iso(Math.round((facts.wallMs - (facts.monotonicMs - sinceMs)) / 1000) * 1000),
		})),
		upstreams,
		dns: facts.names.map(({ group, name, routes, addresses, ageMs, failing }) => ({
			group,
			name,
			routes,
			addresses,
			age_seconds: ageMs === undefined ? null : Math.round(ageMs / 1000),
			failing_since: failing === undefined ? null : iso(failing.sinceSeconds * 1000),
			failures: failing?.failures ?? 0,
			cause: failing?.cause ?? null,
		})),
		refusals: refusalsOf(facts, history),
		handshakes: {
			completed_total: completed,
			failed_total: sum(failures.values()),
			p50_seconds: seconds(quantile(0.5)),
			p99_seconds: seconds(quantile(0.99)),
			failures: counted('handshake', failures),
		},
		connections: {
			handshaking: facts.connections.handshake,
			http1: facts.connections['http/1.1'],
			h2: facts.connections.h2,
			limit: facts.connectionBudget.limit,
			refused: counted('refused', facts.connections.refused),
			ended: counted('ended', facts.connections.ended),
			http2_errors: counted('http2', facts.connections.http2Errors),
		},
		certificates: facts.certificates.map(({ kind, subject, serial, expiresSeconds }) => ({
			kind,
			subject,
			serial,
			not_after: iso(expiresSeconds * 1000),
			days_left: Math.floor((expiresSeconds * 1000 - facts.wallMs) / DAY_MS),
		})),
		issuers: facts.issuers.map(({ issuer, remote, algorithms, kids, ageMs, fetches }) => ({
			issuer: issuer ?? null,
			source: remote ? 'network' : 'file',
			algorithms,
			keys: kids.map((kid) => kid ?? null),
			age_seconds: ageMs === undefined ? null : Math.round(ageMs / 1000),
			fetches: fetches === undefined ? null : { success_total: fetches.success, failure_total: fetches.failure },
		})),
		workers: {
			configured: facts.workers.length,
			listening: facts.listening,
			each: facts.workers.map(({ connections, inFlight, loop }, worker) => ({
				worker,
				connections,
				in_flight: inFlight,
				utilization: loop === undefined ? null : Number(loop.utilization.toFixed(3)),
				delay_p99_seconds: loop === undefined ? null : seconds(loop.delayP99),
			})),
		},
		memory: [
			{
				name: 'request and answer bodies',
				unit: 'bytes',
				...facts.bodyBudget,
				key: 'limits.max_buffered_bytes',
			},
			{ name: 'client connections', unit: 'connections', ...facts.connectionBudget, key: 'limits.max_connections' },
		],
		reloads: {
			generation: facts.generation,
			success_total: facts.reloads.success,
			failure_total: facts.reloads.failure,
			last: facts.reloads.last.map(({ atSeconds, part, asked, result, cause, generation }) => ({
				at: iso(atSeconds * 1000),
				part,
				asked,
				outcome: result,
				cause: cause ?? null,
				generation,
			})),
			needs_restart: facts.reloads.needsRestart?.settings.map(({ words }) => words) ?? [],
			needs_restart_since:
				facts.reloads.needsRestart === undefined ? null : iso(facts.reloads.needsRestart.sinceSeconds * 1000),
		},
		log: {
			lost_total: facts.log.lines,
			failing_since: facts.log.failing === undefined ? null : iso(facts.log.failing.sinceSeconds * 1000),
			cause: facts.log.failing?.code ?? null,
		},
		shared_limits: facts.store === undefined ? null : sharedLimits(facts.store, facts.wallMs),
		tenants:
			facts.tenants?.map(({ name, rate, concurrency, inFlight }) => ({
				tenant: name,
				requests_per_second: rate === null ? 'unlimited' : (rate?.rps ?? null),
				burst: rate?.burst ?? null,
				concurrency: concurrency ?? null,
				in_flight: inFlight ?? null,
			})) ?? null,
	};
	const problems = findProblems(snapshot);
	return { ...snapshot, problems, well: problems.length === 0 };
}

function sharedLimits(store: StoreFacts, wallMs: number): SharedLimitsStatus {
	return {
		store: store.isAway ? 'away' : 'up',
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

/** The part of a snapshot that a view shows. Pure; a step for each upstream. */
export function* pageOfSnapshot(
	{ upstreams, ...rest }: Snapshot,
	view: View,
	history: Pick<History, 'chart' | 'total'>,
	nowMs: number,
): Generator<void, StatusPage> {
	const filter = view.filter.toLowerCase();
	const matching: UpstreamStatus[] = [];
	for (const one of upstreams) {
		if (isShown(one, filter, view.troubled)) matching.push(one);
		yield;
	}
	const page = pageOf(matching, view);
	const items: StatusPage['upstreams']['items'][number][] = [];
	for (const one of page.items) {
		items.push({ ...one, history: history.chart(historyKey(one), nowMs) ?? null });
		yield;
	}
	return {
		...rest,
		upstreams: { total: upstreams.length, ...page, items },
		history: { seconds_between: 10, ...history.total(nowMs) },
	};
}

/** @param filter in lower case. */
function isShown(one: UpstreamStatus, filter: string, troubled: boolean): boolean {
	if (troubled && !isProblem(one)) return false;
	const contains = (name: string) => name.toLowerCase().includes(filter);
	return filter === '' || contains(one.upstream) || contains(one.group ?? '') || one.routes.some(contains);
}

function historyKey({
	upstream,
	group,
}: {
	readonly upstream: string;
	readonly group?: string | null | undefined;
}): string {
	return upstreamKey(upstream, group ?? undefined);
}

/** Whether a problem may be about it. */
function isProblem(upstream: UpstreamStatus): boolean {
	return isTroubled(upstream) || upstream.tls === 'not verified';
}

export function isTroubled({ breaker, health }: UpstreamStatus): boolean {
	return breaker.state !== 'closed' || health === 'unhealthy';
}

function toStatus(facts: UpstreamFacts, point: Point): UpstreamStatus {
	const {
		upstream,
		group,
		share,
		tls,
		routes,
		circuit,
		alive,
		probed,
		lastProbe,
		transition,
		opened,
		answers,
		active,
		idle,
	} = facts;
	let errors = 0;
	for (const [status, count] of answers) if (status >= 500) errors += count;
	return {
		upstream,
		group: group ?? null,
		balance: share?.balance ?? null,
		weight: share?.weight ?? null,
		tls,
		routes,
		breaker: {
			state: CIRCUIT_NAMES[circuit]!,
			since: transition === undefined ? null : iso(transition.wallSeconds * 1000),
			reason: transition?.reason ?? null,
			cause: transition?.cause || null,
			opened_total: opened,
		},
		health: probed ? (alive === undefined ? 'not probed yet' : alive ? 'healthy' : 'unhealthy') : 'not probed',
		last_probe:
			lastProbe === undefined
				? null
				: {
						at: iso(lastProbe.atSeconds * 1000),
						passed: lastProbe.passed,
						found: lastProbe.found,
						remedy: lastProbe.remedy ?? null,
					},
		requests_total: sum(answers.values()),
		errors_total: errors,
		...point,
		connections: { active, idle },
	};
}

const DAY_MS = 24 * 3_600_000;

function iso(ms: number): string {
	return new Date(ms).toISOString();
}

function seconds(ms: number): number | null {
	return Number.isNaN(ms) ? null : Number((ms / 1000).toPrecision(3));
}

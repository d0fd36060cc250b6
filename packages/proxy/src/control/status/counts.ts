import type { WorkerCounts } from '../../memory/worker-stats.ts';
import type { History } from './history.ts';

/** The workers' counters that the page shows, and their names in the ring of the last ten minutes. */

const KINDS = [
	'refusals',
	'handshakeRefusals',
	'connectionRefusals',
	'connectionEnds',
	'tunnelEnds',
	'http2Errors',
] as const;
export type CounterKind = (typeof KINDS)[number];

interface Counter {
	readonly reason: string;
	/** Of the response, where there was one. */
	readonly status?: number;
	/** Since the start. */
	readonly total: number;
}

export type Count = Counter & { readonly last_ten_minutes: number };

/** The counts above zero, the most frequent in the last ten minutes first. */
export function countsOf(kind: CounterKind, counts: WorkerCounts, history: Pick<History, 'rise'>): Count[] {
	return listOf(kind, counts)
		.filter(({ total }) => total > 0)
		.map((one) => ({ ...one, last_ten_minutes: history.rise(`${kind} ${one.reason}`, one.total) }))
		.sort((a, b) => b.last_ten_minutes - a.last_ten_minutes || b.total - a.total);
}

/** All counters in the ring, by name. The names come from fixed lists, so there are some dozens at most. */
export function countersOf(counts: WorkerCounts): Map<string, number> {
	const named = (kind: CounterKind) =>
		listOf(kind, counts).map(({ reason, total }) => [`${kind} ${reason}`, total] as const);
	return new Map(KINDS.flatMap(named));
}

function listOf(kind: CounterKind, counts: WorkerCounts): Counter[] {
	if (kind === 'refusals') return refusals(counts);
	return [...counts[kind]].map(([reason, total]) => ({ reason, total }));
}

/** The requests that never reached an upstream, by reason and by the status of their responses. */
function refusals({ auth, forbidden, rateLimited, responses }: WorkerCounts): Counter[] {
	const responded = (status: number, counts: ReadonlyMap<string, number>, words: (reason: string) => string) =>
		[...counts].map(([reason, total]) => ({ reason: words(reason), status, total }));
	const others = [...responses]
		.filter(([status]) => !COUNTED_BY_REASON.has(status))
		.map(([status, total]) => ({ reason: REASONS.get(status) ?? 'other', status, total }));
	return [
		...responded(401, auth, (reason) => `token ${reason}`),
		...responded(403, forbidden, (reason) => `forbidden by ${reason}`),
		...responded(429, rateLimited, (reason) => RATE_LIMITS.get(reason) ?? reason),
		...others,
	];
}

const RATE_LIMITS = new Map([
	['tenant', "over the tenant's rate"],
	['route', "over the route's rate"],
	['concurrency', "over the tenant's concurrency"],
]);

const COUNTED_BY_REASON: ReadonlySet<number> = new Set([401, 403, 429]);

/** By the table of `gates/rejection.ts`. */
const REASONS: ReadonlyMap<number, string> = new Map([
	[400, 'malformed request or path'],
	[404, 'no route'],
	[405, 'method not allowed'],
	[408, 'body too slow'],
	[413, 'body too large'],
	[431, 'head too large'],
	[500, 'fault of the proxy'],
	[501, 'method or upgrade not implemented'],
	[503, 'overloaded, or no address serves'],
]);

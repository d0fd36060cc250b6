import type { WorkerCounts } from '../../memory/worker-stats.ts';
import type { History } from './history.ts';
import type { Count } from './schema.ts';

/** The workers' counters that the page shows, and their names in the ring of the last ten minutes. */

const RECENT = ['handshakeRefusals', 'connectionRefusals', 'connectionEnds', 'tunnelEnds', 'http2Errors'] as const;
export type RecentCounter = (typeof RECENT)[number];

/** The counts above zero, the most frequent in the last ten minutes first. */
export function countsOf(kind: RecentCounter, counts: WorkerCounts, history: Pick<History, 'rise'>): Count[] {
	return recentCounts(kind, named(counts[kind]), history);
}

/** The requests that never reached an upstream, by reason and by the status of their responses. */
export function refusalsOf(counts: Answered, history: Pick<History, 'rise'>): Count[] {
	return recentCounts('refusal', refusals(counts), history);
}

function recentCounts(kind: string, counts: readonly Counted[], history: Pick<History, 'rise'>): Count[] {
	return counts
		.filter(({ total }) => total > 0)
		.map((one) => ({ ...one, last_ten_minutes: history.rise(`${kind} ${one.reason}`, one.total) }))
		.sort((a, b) => b.last_ten_minutes - a.last_ten_minutes || b.total - a.total);
}

/** All counters in the ring, by name. The names come from fixed lists, so there are some dozens at most. */
export function countersOf(counts: WorkerCounts): Map<string, number> {
	const lists = [['refusal', refusals(counts)] as const, ...RECENT.map((kind) => [kind, named(counts[kind])] as const)];
	return new Map(lists.flatMap(([kind, list]) => list.map(({ reason, total }) => [`${kind} ${reason}`, total])));
}

type Counted = Omit<Count, 'last_ten_minutes'>;

function named(counts: ReadonlyMap<string, number>): Counted[] {
	return Array.from(counts, ([reason, total]) => ({ reason, total }));
}

type Answered = Pick<WorkerCounts, 'auth' | 'forbidden' | 'rateLimited' | 'responses'>;

function refusals({ auth, forbidden, rateLimited, responses }: Answered): Counted[] {
	const answered = (status: number, counts: ReadonlyMap<string, number>, words: (reason: string) => string) =>
		[...counts].map(([reason, total]) => ({ reason: words(reason), status, total }));
	const others = [...responses]
		.filter(([status]) => !COUNTED_BY_REASON.has(status))
		.map(([status, total]) => ({ reason: REASONS.get(status) ?? 'other', status, total }));
	return [
		...answered(401, auth, (reason) => `token ${reason}`),
		...answered(403, forbidden, (reason) => `forbidden by ${reason}`),
		...answered(429, rateLimited, (reason) => RATE_LIMITS.get(reason) ?? reason),
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

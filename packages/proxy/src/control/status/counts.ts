import type { History } from './history.ts';
import type { Count } from './schema.ts';

/** The workers' counters added up, and their names on the page and in the ring of the last ten minutes. */
export interface CounterFacts {
	/** Answers without an upstream, by status. */
	readonly ownResponses: ReadonlyMap<number, number>;
	readonly auth: ReadonlyMap<string, number>;
	readonly forbidden: ReadonlyMap<string, number>;
	readonly rateLimited: ReadonlyMap<string, number>;
	readonly handshakeFailures: ReadonlyMap<string, number>;
	readonly handshakesDone: number;
	readonly connections: {
		readonly handshake: number;
		readonly 'http/1.1': number;
		readonly h2: number;
		readonly websockets: number;
		readonly refused: ReadonlyMap<string, number>;
		readonly ended: ReadonlyMap<string, number>;
		readonly websocketEnds: ReadonlyMap<string, number>;
		readonly http2Errors: ReadonlyMap<string, number>;
	};
}

/** The counts above zero, the most frequent in the last ten minutes first. */
export function countsOf(kind: string, counts: ReadonlyMap<string, number>, history: Pick<History, 'rise'>): Count[] {
	return latestFirst(
		[...counts]
			.filter(([, total]) => total > 0)
			.map(([reason, total]) => ({ reason, total, last_ten_minutes: history.rise(`${kind} ${reason}`, total) })),
	);
}

type Answered = Pick<CounterFacts, 'auth' | 'forbidden' | 'rateLimited' | 'ownResponses'>;

/** The requests that never reached an upstream, by reason and by the status of their answers. */
export function refusalsOf(facts: Answered, history: Pick<History, 'rise'>): Count[] {
	const counts = refusals(facts).filter(({ total }) => total > 0);
	return latestFirst(
		counts.map(({ reason, status, total }) => ({
			reason,
			status,
			total,
			last_ten_minutes: history.rise(`refusal ${reason}`, total),
		})),
	);
}

/** All counters in the ring, by name. The names come from fixed lists, so there are some dozens at most. */
export function countersOf(facts: CounterFacts): Map<string, number> {
	const { refused, ended, websocketEnds, http2Errors } = facts.connections;
	const named = (kind: string, counts: ReadonlyMap<string, number>) =>
		[...counts].map(([reason, total]): [string, number] => [`${kind} ${reason}`, total]);
	return new Map([
		...refusals(facts).map(({ reason, total }): [string, number] => [`refusal ${reason}`, total]),
		...named('handshake', facts.handshakeFailures),
		...named('refused', refused),
		...named('ended', ended),
		...named('websocket', websocketEnds),
		...named('http2', http2Errors),
	]);
}

function refusals({ auth, forbidden, rateLimited, ownResponses }: Answered) {
	const named = (status: number, counts: ReadonlyMap<string, number>, words: (reason: string) => string) =>
		[...counts].map(([reason, total]) => ({ reason: words(reason), status, total }));
	const others = [...ownResponses]
		.filter(([status]) => !COUNTED_BY_REASON.has(status))
		.map(([status, total]) => ({ reason: REASONS.get(status) ?? 'other', status, total }));
	return [
		...named(401, auth, (reason) => `token ${reason}`),
		...named(403, forbidden, (reason) => `forbidden by ${reason}`),
		...named(429, rateLimited, (reason) => RATE_LIMITS.get(reason) ?? reason),
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

function latestFirst(counts: Count[]): Count[] {
	return counts.sort((a, b) => b.last_ten_minutes - a.last_ten_minutes || b.total - a.total);
}

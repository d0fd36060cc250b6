import { HANDSHAKE_REFUSALS, type HandshakeRefusal } from '../identity/handshake-refusals.ts';
import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';
import { CLIENT_PROTOCOLS, type ClientProtocol, ROUTE_STATS_BYTES, RouteStats } from './route-stats.ts';
import { TRANSITION_CELLS, TransitionCounts } from './transition-counts.ts';

/**
 * What the metrics are made of: regions of plain 64-bit floats, one for each worker and one for each worker and
 * upstream. Only that worker writes; the main thread adds them up at scrape. A worker that takes a dead one's place
 * goes on in the same regions, so counters never fall.
 */

const STATUSES = 600;

/** Why a connection is closed before anything of it is read. */
export const CONNECTION_REFUSALS = ['max_connections', 'descriptors'] as const;
export type ConnectionRefusal = (typeof CONNECTION_REFUSALS)[number];

/** Why a connection whose handshake was good is ended before its client ends it. */
export const CONNECTION_ENDS = ['revoked', 'expired', 'ca_removed', 'age'] as const;
export type ConnectionEnd = (typeof CONNECTION_ENDS)[number];

/** Why an HTTP/2 connection was ended with an error: the label of a metric, so these and no others. */
export const HTTP2_ERROR_REASONS = [
	'preface',
	'frame-size',
	'protocol',
	'stream-closed',
	'flow-control',
	'compression',
	'stream-limit',
	'control-flood',
	'reset-flood',
	'continuation-flood',
	'client-error',
	'internal',
] as const;
export type Http2ErrorReason = (typeof HTTP2_ERROR_REASONS)[number];

/** Why a stream was reset, or a request of one refused, for an error of the client's: the label of a metric. */
export const HTTP2_STREAM_ERROR_REASONS = [
	/** A request that is malformed (RFC 9113 section 8.1.1). */
	'malformed',
	'protocol',
	'flow-control',
	'stream-closed',
	'frame-size',
	/** More fields than `limits.max_header_bytes` has room for. */
	'too-many-fields',
] as const;
export type Http2StreamErrorReason = (typeof HTTP2_STREAM_ERROR_REASONS)[number];

/** What handshakes have agreed on; the names are OpenSSL's. */
export const TLS_VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const;
export const TLS_GROUPS = [
	'x25519',
	'x448',
	'secp256r1',
	'secp384r1',
	'secp521r1',
	'X25519MLKEM768',
	'SecP256r1MLKEM768',
	'SecP384r1MLKEM1024',
	/** Any other one, or none. */
	'other',
] as const;
export type TlsVersionName = (typeof TLS_VERSIONS)[number];
export type TlsGroup = (typeof TLS_GROUPS)[number];

/** Who may not use a route that there is: the client by its certificate, its tenant, its token by the scopes. */
export const FORBIDDEN_REASONS = ['certificate', 'tenant', 'scope'] as const;
export type ForbiddenReason = (typeof FORBIDDEN_REASONS)[number];
/** Which limit a request was over: the label of a metric. */
export const RATE_LIMIT_REASONS = ['tenant', 'route', 'concurrency'] as const;
export type RateLimitReason = (typeof RATE_LIMIT_REASONS)[number];

/** What a worker's event loop has been doing; see `LoopReading`. */
const LOOP_CELLS = ['sampledAt', 'utilization', 'activeMs', 'idleMs', 'delayP50', 'delayP99', 'delayMax'] as const;

/** One worker's event loop, as it was sampled last. */
export interface LoopReading {
	/** Monotonic milliseconds of the sample; 0 before the first one, and while there is no such thread. */
	readonly sampledAt: number;
	/** Part of the time between the last two samples in which the loop did not wait for events, 0 to 1. */
	readonly utilization: number;
	/** Milliseconds in which it did not wait, and in which it did, over all threads that have had this index. */
	readonly activeMs: number;
	readonly idleMs: number;
	/** By how much timers came too late in the last 10 to 20 s, ms: median, 99th percentile, most. */
	readonly delayP50: number;
	readonly delayP99: number;
	readonly delayMax: number;
}

const ANSWERS = 9;
const REFUSALS = ANSWERS + STATUSES;

/** Cells of a worker's own region. */
const CELL = {
	authMissing: 0,
	authInvalid: 1,
	connectionsHandshaking: 4,
	connectionsHttp1: 5,
	connectionsHttp2: 6,
	accessLinesDropped: 7,
	spansDropped: 8,
	/** Answers without an upstream, by status. */
	answers: ANSWERS,
	/** In the order of the lists of the same names. */
	...rowsOf(REFUSALS, {
		handshakeRefusals: HANDSHAKE_REFUSALS,
		connectionRefusals: CONNECTION_REFUSALS,
		http2Errors: HTTP2_ERROR_REASONS,
		forbidden: FORBIDDEN_REASONS,
		connectionEnds: CONNECTION_ENDS,
		rateLimited: RATE_LIMIT_REASONS,
		tokenCache: ['hits', 'misses'],
		loop: LOOP_CELLS,
		http2StreamErrors: HTTP2_STREAM_ERROR_REASONS,
		handshakesTls12: TLS_GROUPS,
		handshakesTls13: TLS_GROUPS,
		readsDelayed: CLIENT_PROTOCOLS,
	}),
} as const;
const WORKER_CELLS = CELL.end;

/** A row of cells for each list, one behind the other. */
function rowsOf<Name extends string>(
	first: number,
	lists: Readonly<Record<Name, readonly string[]>>,
): Readonly<Record<Name | 'end', number>> {
	const rows: Record<string, number> = {};
	let next = first;
	for (const [name, list] of Object.entries<readonly string[]>(lists)) {
		rows[name] = next;
		next += list.length;
	}
	return { ...rows, end: next } as Record<Name | 'end', number>;
}

export class WorkerStats {
	readonly cells: Float64Array;
	/** From accept to the end of the handshake. */
	readonly handshakes: Histogram;
	/** Requests for which no route has been found (yet). */
	readonly unrouted: RouteStats;

	constructor(memory: SharedArrayBuffer) {
		this.cells = new Float64Array(memory, 0, WORKER_CELLS);
		this.handshakes = new Histogram(memory, WORKER_CELLS * 8);
		this.unrouted = new RouteStats(memory, WORKER_CELLS * 8 + HISTOGRAM_BYTES);
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(WORKER_CELLS * 8 + HISTOGRAM_BYTES + ROUTE_STATS_BYTES);
	}

	authFailure(reason: 'missing' | 'invalid'): void {
		this.cells[reason === 'missing' ? CELL.authMissing : CELL.authInvalid]! += 1;
	}

	rateLimited(reason: RateLimitReason): void {
		this.cells[CELL.rateLimited + RATE_LIMIT_REASONS.indexOf(reason)]! += 1;
	}

	handshakeFailed(reason: HandshakeRefusal): void {
		this.cells[CELL.handshakeRefusals + HANDSHAKE_REFUSALS.indexOf(reason)]! += 1;
	}

	connectionRefused(reason: ConnectionRefusal): void {
		this.cells[CELL.connectionRefusals + CONNECTION_REFUSALS.indexOf(reason)]! += 1;
	}

	connectionEnded(reason: ConnectionEnd): void {
		this.cells[CELL.connectionEnds + CONNECTION_ENDS.indexOf(reason)]! += 1;
	}

	/** A connection had to wait for its share. */
	readDelayed(protocol: ClientProtocol): void {
		this.cells[CELL.readsDelayed + CLIENT_PROTOCOLS.indexOf(protocol)]! += 1;
	}

	accessLineDropped(): void {
		this.cells[CELL.accessLinesDropped]! += 1;
	}

	spanDropped(): void {
		this.cells[CELL.spansDropped]! += 1;
	}

	http2ConnectionError(reason: Http2ErrorReason): void {
		this.cells[CELL.http2Errors + HTTP2_ERROR_REASONS.indexOf(reason)]! += 1;
	}

	forbidden(reason: ForbiddenReason): void {
		this.cells[CELL.forbidden + FORBIDDEN_REASONS.indexOf(reason)]! += 1;
	}

	/** An answer given before an upstream was chosen. */
	answered(status: number): void {
		this.cells[CELL.answers + status]! += 1;
	}

	http2StreamError(reason: Http2StreamErrorReason): void {
		this.cells[CELL.http2StreamErrors + HTTP2_STREAM_ERROR_REASONS.indexOf(reason)]! += 1;
	}

	/** A handshake that has succeeded. */
	handshakeAgreed(version: TlsVersionName, group: TlsGroup): void {
		this.cells[HANDSHAKE_CELLS[version] + TLS_GROUPS.indexOf(group)]! += 1;
	}

	/** A token whose verdict was remembered. */
	tokenCacheHit(): void {
		this.cells[CELL.tokenCache]! += 1;
	}

	/** A token that had to be verified. */
	tokenCacheMiss(): void {
		this.cells[CELL.tokenCache + 1]! += 1;
	}

	/** What its loop has done since the last sample. `activeMs` and `idleMs` are of that time alone, and are added up here. */
	loopSampled(reading: LoopReading): void {
		const cells = this.cells;
		LOOP_CELLS.forEach((name, i) => {
			const adds = name === 'activeMs' || name === 'idleMs';
			cells[CELL.loop + i] = reading[name] + (adds ? cells[CELL.loop + i]! : 0);
		});
	}

	/** @param change +1 or -1. */
	connections(protocol: ConnectionProtocol, change: number): void {
		this.cells[CONNECTION_CELLS[protocol]]! += change;
	}

	/** The gauges of a worker that is gone: nothing of it is connected any more. */
	clearGauges(): void {
		for (const cell of Object.values(CONNECTION_CELLS)) this.cells[cell] = 0;
		LOOP_CELLS.forEach((name, i) => {
			if (name !== 'activeMs' && name !== 'idleMs') this.cells[CELL.loop + i] = 0;
		});
		this.unrouted.clearGauges();
	}

	read(): {
		authMissing: number;
		authInvalid: number;
		rateLimited: Map<RateLimitReason, number>;
		handshakeRefusals: Map<HandshakeRefusal, number>;
		connectionRefusals: Map<ConnectionRefusal, number>;
		connectionEnds: Map<ConnectionEnd, number>;
		readsDelayed: Map<ClientProtocol, number>;
		accessLinesDropped: number;
		spansDropped: number;
		connections: Record<ConnectionProtocol, number>;
		http2Errors: Map<Http2ErrorReason, number>;
		http2StreamErrors: Map<Http2StreamErrorReason, number>;
		handshakesAgreed: Record<TlsVersionName, Map<TlsGroup, number>>;
		forbidden: Map<ForbiddenReason, number>;
		answers: Map<number, number>;
		tokenCache: { hits: number; misses: number };
		loop: LoopReading;
	} {
		const c = this.cells;
		return {
			authMissing: c[CELL.authMissing]!,
			authInvalid: c[CELL.authInvalid]!,
			rateLimited: named(RATE_LIMIT_REASONS, c, CELL.rateLimited),
			handshakeRefusals: named(HANDSHAKE_REFUSALS, c, CELL.handshakeRefusals),
			connectionRefusals: named(CONNECTION_REFUSALS, c, CELL.connectionRefusals),
			connectionEnds: named(CONNECTION_ENDS, c, CELL.connectionEnds),
			readsDelayed: named(CLIENT_PROTOCOLS, c, CELL.readsDelayed),
			accessLinesDropped: c[CELL.accessLinesDropped]!,
			spansDropped: c[CELL.spansDropped]!,
			connections: {
				handshake: c[CELL.connectionsHandshaking]!,
				'http/1.1': c[CELL.connectionsHttp1]!,
				h2: c[CELL.connectionsHttp2]!,
			},
			http2Errors: named(HTTP2_ERROR_REASONS, c, CELL.http2Errors),
			http2StreamErrors: named(HTTP2_STREAM_ERROR_REASONS, c, CELL.http2StreamErrors),
			handshakesAgreed: {
				'TLSv1.2': named(TLS_GROUPS, c, CELL.handshakesTls12),
				'TLSv1.3': named(TLS_GROUPS, c, CELL.handshakesTls13),
			},
			forbidden: named(FORBIDDEN_REASONS, c, CELL.forbidden),
			answers: nonZero(c.subarray(CELL.answers, CELL.answers + STATUSES)),
			tokenCache: { hits: c[CELL.tokenCache]!, misses: c[CELL.tokenCache + 1]! },
			loop: Object.fromEntries(LOOP_CELLS.map((name, i) => [name, c[CELL.loop + i]!])) as unknown as LoopReading,
		};
	}
}

export type ConnectionProtocol = 'handshake' | 'http/1.1' | 'h2';
const CONNECTION_CELLS: Record<ConnectionProtocol, number> = {
	handshake: CELL.connectionsHandshaking,
	'http/1.1': CELL.connectionsHttp1,
	h2: CELL.connectionsHttp2,
};

const HANDSHAKE_CELLS: Readonly<Record<TlsVersionName, number>> = {
	'TLSv1.2': CELL.handshakesTls12,
	'TLSv1.3': CELL.handshakesTls13,
};

/** Why a request was sent again: the failures of `UpstreamFailure` that allow it. In the order of the cells. */
export const RETRY_REASONS = ['unreachable', 'stale', 'unanswered', 'broken'] as const;
export type RetryReason = (typeof RETRY_REASONS)[number];

/** Cells of a worker's region for one upstream. */
const UPSTREAM_CELL = {
	idle: 0,
	active: 1,
	retriesDenied: 2,
	retries: 3,
	transitions: 3 + RETRY_REASONS.length,
	answers: 3 + RETRY_REASONS.length + TRANSITION_CELLS,
} as const;
const UPSTREAM_CELLS = UPSTREAM_CELL.answers + STATUSES;

export class UpstreamStats {
	readonly cells: Float64Array;
	/** Successful round trips: from the request's departure to the end of the exchange with the upstream. */
	readonly roundTrips: Histogram;
	/** What this worker has made of the circuit. */
	readonly transitions: TransitionCounts;

	constructor(memory: SharedArrayBuffer) {
		this.cells = new Float64Array(memory, 0, UPSTREAM_CELLS);
		this.roundTrips = new Histogram(memory, UPSTREAM_CELLS * 8);
		const { transitions, answers } = UPSTREAM_CELL;
		this.transitions = new TransitionCounts(this.cells.subarray(transitions, answers));
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(UPSTREAM_CELLS * 8 + HISTOGRAM_BYTES);
	}

	/** Answers of any status. */
	get answersInAll(): number {
		return this.#answersFrom(0);
	}

	/** Answers of 500 and above. */
	get serverErrors(): number {
		return this.#answersFrom(500);
	}

	#answersFrom(status: number): number {
		let sum = 0;
		for (let cell = UPSTREAM_CELL.answers + status; cell < UPSTREAM_CELLS; cell++) sum += this.cells[cell]!;
		return sum;
	}

	/** An answer given after this upstream was chosen, its own or ours. */
	answered(status: number): void {
		this.cells[UPSTREAM_CELL.answers + status]! += 1;
	}

	/** A request that this upstream did not take was sent again. */
	retried(reason: RetryReason): void {
		this.cells[UPSTREAM_CELL.retries + RETRY_REASONS.indexOf(reason)]! += 1;
	}

	/** One could have been sent again, and the budget for that was spent. */
	retryDenied(): void {
		this.cells[UPSTREAM_CELL.retriesDenied]! += 1;
	}

	/** @param change +1 or -1. */
	connections(state: 'idle' | 'active', change: number): void {
		this.cells[UPSTREAM_CELL[state]]! += change;
	}

	clearGauges(): void {
		this.cells[UPSTREAM_CELL.idle] = 0;
		this.cells[UPSTREAM_CELL.active] = 0;
	}

	read(): {
		idle: number;
		active: number;
		retries: Map<RetryReason, number>;
		retriesDenied: number;
		answers: Map<number, number>;
	} {
		return {
			idle: this.cells[UPSTREAM_CELL.idle]!,
			active: this.cells[UPSTREAM_CELL.active]!,
			retries: named(RETRY_REASONS, this.cells, UPSTREAM_CELL.retries),
			retriesDenied: this.cells[UPSTREAM_CELL.retriesDenied]!,
			answers: nonZero(this.cells.subarray(UPSTREAM_CELL.answers)),
		};
	}
}

function nonZero(cells: Float64Array): Map<number, number> {
	const found = new Map<number, number>();
	// Most of them are zero: no call for each.
	for (let status = 0; status < cells.length; status++) if (cells[status] !== 0) found.set(status, cells[status]!);
	return found;
}

/** All of them, zeros included: no alert may start from a gap. */
function named<Name extends string>(names: readonly Name[], cells: Float64Array, first: number): Map<Name, number> {
	return new Map(names.map((name, i) => [name, cells[first + i]!]));
}

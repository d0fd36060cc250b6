import { GRPC_STATUSES } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { RATE_LIMIT_REASONS } from '@mtls-edge-proxy/gate/gates/quota.ts';
import { HANDSHAKE_REFUSALS } from '../identity/handshake-refusals.ts';
import { CounterLayout, type Label } from './counters.ts';
import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';
import { CLIENT_PROTOCOLS, type ClientProtocol, ROUTE_STATS_BYTES, RouteStats } from './route-stats.ts';
import { TRANSITION_CELLS, TransitionCounts } from './transition-counts.ts';

/**
 * The memory behind the metrics: regions of 64-bit floats, one for each worker, and one for each worker and endpoint. Only that
 * worker writes; the main thread adds them up for each scrape. The replacement of a dead worker continues in the same regions, so
 * counters never decrease.
 */

const STATUSES = 600;

/** Why a connection is closed before anything is read from it. */
export const CONNECTION_REFUSALS = ['max_connections', 'descriptors'] as const;
export type ConnectionRefusal = (typeof CONNECTION_REFUSALS)[number];

/** Why the proxy ends a connection after a successful handshake. */
export const CONNECTION_ENDS = ['revoked', 'expired', 'ca_removed', 'age'] as const;
export type ConnectionEnd = (typeof CONNECTION_ENDS)[number];

/** The cause of a tunnel's end: one of its two sides, or the proxy. */
export const TUNNEL_ENDS = [
	'client',
	'upstream',
	/** Cut off. */
	'client_lost',
	'upstream_lost',
	'token_expired',
	/** The same as for connections. */
	'expired',
	'ca_removed',
	'revoked',
	'age',
	'idle',
	'drain',
	'no_memory',
	'internal_error',
] as const;
export type TunnelEnd = (typeof TUNNEL_ENDS)[number];

/** Why an HTTP/2 connection was ended with an error: the label of a metric, so the list is fixed. */
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

/** Why a stream was reset or its request refused after an error of the client: the label of a metric. */
export const HTTP2_STREAM_ERROR_REASONS = [
	/** A malformed request (RFC 9113 section 8.1.1). */
	'malformed',
	'protocol',
	'flow-control',
	'stream-closed',
	'frame-size',
	/** The fields exceed `limits.max_header_bytes`. */
	'too-many-fields',
] as const;
export type Http2StreamErrorReason = (typeof HTTP2_STREAM_ERROR_REASONS)[number];

/** Versions and groups of completed handshakes, by OpenSSL's names. */
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
	/** Another group, or none. */
	'other',
] as const;
export type TlsVersionName = (typeof TLS_VERSIONS)[number];
export type TlsGroup = (typeof TLS_GROUPS)[number];

/** Why a route refused a caller: client certificate, tenant, or the scopes of the token. */
export const FORBIDDEN_REASONS = ['certificate', 'tenant', 'scope'] as const;
export type ForbiddenReason = (typeof FORBIDDEN_REASONS)[number];

/** State of a worker's event loop, see `LoopReading`. */
const LOOP_CELLS = ['sampledAt', 'utilization', 'activeMs', 'idleMs', 'delayP50', 'delayP99', 'delayMax'] as const;

/** The last sample of one worker's event loop. */
export interface LoopReading {
	/** Monotonic milliseconds of the sample; 0 before the first one, and while there is no such thread. */
	readonly sampledAt: number;
	/** Fraction of the time between the last two samples in which the loop was busy, 0 to 1. */
	readonly utilization: number;
	/** Milliseconds in which the loop was busy, and in which it waited for events, across all threads that have had this index. */
	readonly activeMs: number;
	readonly idleMs: number;
	/** Delay of timers in the last 10 to 20 s, ms: median, 99th percentile, maximum. */
	readonly delayP50: number;
	readonly delayP99: number;
	readonly delayMax: number;
}

/** The first cells count answers without an upstream, by status; these counters follow. */
const WORKER = new CounterLayout(
	{
		auth: ['missing', 'invalid'],
		rateLimited: RATE_LIMIT_REASONS,
		forbidden: FORBIDDEN_REASONS,
		handshakeRefusals: HANDSHAKE_REFUSALS,
		connectionRefusals: CONNECTION_REFUSALS,
		connectionEnds: CONNECTION_ENDS,
		tunnelEnds: TUNNEL_ENDS,
		http2Errors: HTTP2_ERROR_REASONS,
		http2StreamErrors: HTTP2_STREAM_ERROR_REASONS,
		/** Completed handshakes, by group. */
		'TLSv1.2': TLS_GROUPS,
		'TLSv1.3': TLS_GROUPS,
		/** How often a connection had used up its share of the worker, and was read later. */
		readsDelayed: CLIENT_PROTOCOLS,
		/** Tokens found in the cache, and tokens that had to be verified. */
		tokenCache: ['hit', 'miss'],
		/** Records dropped before they left the worker. */
		dropped: ['access lines', 'spans'],
		/** Gauges. */
		connections: ['handshake', 'http/1.1', 'h2'],
		tunnels: CLIENT_PROTOCOLS,
	},
	STATUSES,
);
const LOOP = WORKER.end;
const WORKER_CELLS = LOOP + LOOP_CELLS.length;

type WorkerCounter = keyof typeof WORKER.lists;

export class WorkerStats {
	readonly cells: Float64Array;
	/** Durations from accept to the end of the handshake. */
	readonly handshakes: Histogram;
	/** Requests without a route, or before theirs is known. */
	readonly unrouted: RouteStats;

	constructor(memory: SharedArrayBuffer) {
		this.cells = new Float64Array(memory, 0, WORKER_CELLS);
		this.handshakes = new Histogram(memory, WORKER_CELLS * 8);
		this.unrouted = new RouteStats(memory, WORKER_CELLS * 8 + HISTOGRAM_BYTES);
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(WORKER_CELLS * 8 + HISTOGRAM_BYTES + ROUTE_STATS_BYTES);
	}

	count<Name extends WorkerCounter>(name: Name, label: Label<typeof WORKER.lists, Name>): void {
		this.cells[WORKER.cell(name, label)]! += 1;
	}

	/** A response given before an upstream was chosen. */
	answered(status: number): void {
		this.cells[status]! += 1;
	}

	/** Stores a sample. Its `activeMs` and `idleMs` cover only the time since the last sample, and are summed here. */
	loopSampled(reading: LoopReading): void {
		const cells = this.cells;
		LOOP_CELLS.forEach((name, i) => {
			const adds = name === 'activeMs' || name === 'idleMs';
			cells[LOOP + i] = reading[name] + (adds ? cells[LOOP + i]! : 0);
		});
	}

	/** @param change +1 or -1. */
	connections(protocol: ConnectionProtocol, change: number): void {
		this.cells[CONNECTION_CELLS[protocol]]! += change;
	}

	/** @param change +1 or -1. */
	tunnels(protocol: ClientProtocol, change: number): void {
		this.cells[WORKER.cell('tunnels', protocol)]! += change;
	}

	/** Clears the gauges of a dead worker. */
	clearGauges(): void {
		for (const cell of Object.values(CONNECTION_CELLS)) this.cells[cell] = 0;
		for (const protocol of CLIENT_PROTOCOLS) this.cells[WORKER.cell('tunnels', protocol)] = 0;
		LOOP_CELLS.forEach((name, i) => {
			if (name !== 'activeMs' && name !== 'idleMs') this.cells[LOOP + i] = 0;
		});
		this.unrouted.clearGauges();
	}

	read() {
		const loop = Object.fromEntries(LOOP_CELLS.map((name, i) => [name, this.cells[LOOP + i]!]));
		return {
			...WORKER.read(this.cells),
			/** By status; those that are not zero. */
			answers: nonZero(this.cells.subarray(0, STATUSES)),
			loop: loop as unknown as LoopReading,
		};
	}
}

export type ConnectionProtocol = 'handshake' | 'http/1.1' | 'h2';
const CONNECTION_CELLS: Record<ConnectionProtocol, number> = {
	handshake: WORKER.cell('connections', 'handshake'),
	'http/1.1': WORKER.cell('connections', 'http/1.1'),
	h2: WORKER.cell('connections', 'h2'),
};

/** Why a request was retried: the kinds of `UpstreamFailure` that allow it. In the order of the cells. */
export const RETRY_REASONS = ['unreachable', 'stale', 'refused', 'unanswered', 'broken'] as const;
export type RetryReason = (typeof RETRY_REASONS)[number];

/** What an upstream may choose in the handshake (ALPN). */
export const UPSTREAM_CHOICES = ['http/1.1', 'h2'] as const;
export type UpstreamChoice = (typeof UPSTREAM_CHOICES)[number];

const UPSTREAM = new CounterLayout(
	{
		/** A gauge. */
		connections: ['idle', 'active'],
		/** A gauge: requests in flight on multiplexed connections (HTTP/2). */
		streams: ['open'],
		/** 1 + the index of the last choice in `UPSTREAM_CHOICES`; 0: none yet. Only where the upstream may choose. */
		choice: ['last'],
		/** Retries after a failure at this upstream, by reason. */
		retries: RETRY_REASONS,
		/** Requests that were not retried because the retry budget was spent. */
		retriesDenied: ['budget'],
		/** Responses to gRPC calls. */
		grpc: GRPC_STATUSES,
	},
	0,
);
/** Cells of a worker's region for one upstream. Answers are last, by status. */
const UPSTREAM_CELL = {
	idle: UPSTREAM.cell('connections', 'idle'),
	active: UPSTREAM.cell('connections', 'active'),
	streams: UPSTREAM.cell('streams', 'open'),
	choice: UPSTREAM.cell('choice', 'last'),
	transitions: UPSTREAM.end,
	answers: UPSTREAM.end + TRANSITION_CELLS,
} as const;
const UPSTREAM_CELLS = UPSTREAM_CELL.answers + STATUSES;

export class UpstreamStats {
	readonly cells: Float64Array;
	/** Durations of successful round trips: from sending the request to the end of the exchange with the upstream. */
	readonly roundTrips: Histogram;
	/** Transitions of the circuit that this worker made. */
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

	/** Counts a response of this upstream, or a refusal after it was chosen. */
	answered(status: number): void {
		this.cells[UPSTREAM_CELL.answers + status]! += 1;
	}

	count<Name extends 'retries' | 'retriesDenied' | 'grpc'>(
		name: Name,
		label: Label<typeof UPSTREAM.lists, Name>,
	): void {
		this.cells[UPSTREAM.cell(name, label)]! += 1;
	}

	/** @param change +1 or -1. */
	connections(state: 'idle' | 'active', change: number): void {
		this.cells[UPSTREAM_CELL[state]]! += change;
	}

	/** @param change +1 or -1. */
	streams(change: number): void {
		this.cells[UPSTREAM_CELL.streams]! += change;
	}

	/** The upstream has chosen the protocol of a new connection. */
	chose(protocol: UpstreamChoice): void {
		this.cells[UPSTREAM_CELL.choice] = 1 + UPSTREAM_CHOICES.indexOf(protocol);
	}

	clearGauges(): void {
		this.cells[UPSTREAM_CELL.choice] = 0;
		this.cells[UPSTREAM_CELL.streams] = 0;
		this.cells[UPSTREAM_CELL.idle] = 0;
		this.cells[UPSTREAM_CELL.active] = 0;
	}

	/** Adds responses to gRPC calls, by status code. */
	addGrpcTo(counts: Float64Array): void {
		const first = UPSTREAM.rows.grpc;
		for (let code = 0; code < counts.length; code++) counts[code]! += this.cells[first + code]!;
	}

	read() {
		const { retries, retriesDenied, grpc } = UPSTREAM.read(this.cells);
		return {
			idle: this.cells[UPSTREAM_CELL.idle]!,
			active: this.cells[UPSTREAM_CELL.active]!,
			streams: this.cells[UPSTREAM_CELL.streams]!,
			/** `undefined`: none yet, or the upstream has no choice. */
			choice: UPSTREAM_CHOICES[this.cells[UPSTREAM_CELL.choice]! - 1],
			retries,
			retriesDenied: retriesDenied.get('budget')!,
			/** By `grpc-status`; those that are not zero. */
			grpc: new Map([...grpc].filter(([, count]) => count !== 0)),
			/** By status; those that are not zero. */
			answers: nonZero(this.cells.subarray(UPSTREAM_CELL.answers)),
		};
	}
}

function nonZero(cells: Float64Array): Map<number, number> {
	const found = new Map<number, number>();
	// A plain loop: most cells are zero, and a callback for each would be expensive.
	for (let status = 0; status < cells.length; status++) if (cells[status] !== 0) found.set(status, cells[status]!);
	return found;
}

import { GRPC_STATUSES } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { RATE_LIMIT_REASONS } from '@mtls-edge-proxy/gate/gates/quota.ts';
import { HANDSHAKE_REFUSALS } from '../identity/handshake-refusals.ts';
import { CounterLayout, type Label } from './counters.ts';
import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';
import { CLIENT_PROTOCOLS, type ClientProtocol, ROUTE_STATS_BYTES, RouteStats } from './route-stats.ts';
import { TRANSITION_CELLS, TransitionCounts } from './transition-counts.ts';

/**
 * The memory behind the metrics: regions of plain 64-bit floats, one for each worker and one for each worker and
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

/** The cause of a tunnel's end: one of its two sides, or the proxy. */
export const TUNNEL_ENDS = [
	'client',
	'upstream',
	/** Cut off. */
	'client_lost',
	'upstream_lost',
	'token_expired',
	/** As a connection's. */
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

/** Versions, suites and groups of completed handshakes; the names are OpenSSL's. */
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

/** Refusals of an existing route: by the client's certificate, its tenant, or the scopes of its token. */
export const FORBIDDEN_REASONS = ['certificate', 'tenant', 'scope'] as const;
export type ForbiddenReason = (typeof FORBIDDEN_REASONS)[number];

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

/** Answers without an upstream lie before the rest, by status. */
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
		/** Handshakes that have succeeded, by group. */
		'TLSv1.2': TLS_GROUPS,
		'TLSv1.3': TLS_GROUPS,
		/** Connections that had to wait for their share. */
		readsDelayed: CLIENT_PROTOCOLS,
		/** Tokens whose verdict was remembered, and tokens that had to be verified. */
		tokenCache: ['hit', 'miss'],
		/** Records that were dropped before they left the worker. */
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

	count<Name extends WorkerCounter>(name: Name, label: Label<typeof WORKER.lists, Name>): void {
		this.cells[WORKER.cell(name, label)]! += 1;
	}

	/** An answer given before an upstream was chosen. */
	answered(status: number): void {
		this.cells[status]! += 1;
	}

	/** The loop's times since the last sample. `activeMs` and `idleMs` cover only that interval, and are summed here. */
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

	/** Clears the gauges of a dead worker, which has no connections any more. */
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

/** Why a request was sent again: the failures of `UpstreamFailure` that allow it. In the order of the cells. */
export const RETRY_REASONS = ['unreachable', 'stale', 'refused', 'unanswered', 'broken'] as const;
export type RetryReason = (typeof RETRY_REASONS)[number];

const UPSTREAM = new CounterLayout(
	{
		/** A gauge. */
		connections: ['idle', 'active'],
		/** A gauge: requests under way on connections that carry several (HTTP/2). */
		streams: ['open'],
		/** Requests that this upstream did not take and that were sent again. */
		retries: RETRY_REASONS,
		/** Requests that could have been sent again, and the budget for that was spent. */
		retriesDenied: ['budget'],
		/** Responses to gRPC calls. */
		grpc: GRPC_STATUSES,
	},
	0,
);
/** Cells of a worker's region for one upstream, behind its counters. Answers come last, by status. */
const UPSTREAM_CELL = {
	idle: UPSTREAM.cell('connections', 'idle'),
	active: UPSTREAM.cell('connections', 'active'),
	streams: UPSTREAM.cell('streams', 'open'),
	transitions: UPSTREAM.end,
	answers: UPSTREAM.end + TRANSITION_CELLS,
} as const;
const UPSTREAM_CELLS = UPSTREAM_CELL.answers + STATUSES;

export class UpstreamStats {
	readonly cells: Float64Array;
	/** Successful round trips: from the request's departure to the end of the exchange with the upstream. */
	readonly roundTrips: Histogram;
	/** This worker's changes of the circuit. */
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

	clearGauges(): void {
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
	// Most of them are zero: no call for each.
	for (let status = 0; status < cells.length; status++) if (cells[status] !== 0) found.set(status, cells[status]!);
	return found;
}

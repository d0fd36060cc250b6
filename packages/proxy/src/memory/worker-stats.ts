import { RATE_LIMIT_REASONS } from '@mtls-edge-proxy/gate/gates/quota.ts';
import { HANDSHAKE_REFUSALS } from '../identity/handshake-refusals.ts';
import { addedUp, CounterLayout, countsByStatus, type Label, STATUSES } from './counters.ts';
import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';
import { CLIENT_PROTOCOLS, type ClientProtocol, ROUTE_STATS_BYTES, RouteStats } from './route-stats.ts';

/**
 * What a worker counts for the metrics: a region of 64-bit floats for each worker. Only that worker writes; the main thread adds the
 * regions up for each scrape. The replacement of a dead worker continues in the same region, so counters never decrease.
 */

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

/** The first cells count responses without an upstream, by status; these counters follow. */
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
type ConnectionProtocol = Label<typeof WORKER.lists, 'connections'>;

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
	responded(status: number): void {
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
		this.cells[WORKER.cell('connections', protocol)]! += change;
	}

	/** @param change +1 or -1. */
	tunnels(protocol: ClientProtocol, change: number): void {
		this.cells[WORKER.cell('tunnels', protocol)]! += change;
	}

	/** Clears the gauges of a dead worker. */
	clearGauges(): void {
		for (const name of ['connections', 'tunnels'] as const) {
			for (const label of WORKER.lists[name]) this.cells[WORKER.cell(name, label)] = 0;
		}
		LOOP_CELLS.forEach((name, i) => {
			if (name !== 'activeMs' && name !== 'idleMs') this.cells[LOOP + i] = 0;
		});
		this.unrouted.clearGauges();
	}

	/** The last sample. */
	get loop(): LoopReading {
		const entries = LOOP_CELLS.map((name, i) => [name, this.cells[LOOP + i]!]);
		return Object.fromEntries(entries) as LoopReading;
	}

	read() {
		return { ...readCounters([this]), loop: this.loop };
	}
}

export type WorkerCounts = ReturnType<typeof readCounters>;

/** The counters of several workers, added up. */
export function readCounters(workers: readonly Pick<WorkerStats, 'cells'>[]) {
	const cells = addedUp(
		workers.map((one) => one.cells),
		LOOP,
	);
	/** `responses`: responses without an upstream, by status; those that are not zero. */
	return { ...WORKER.read(cells), responses: countsByStatus(cells.subarray(0, STATUSES)) };
}

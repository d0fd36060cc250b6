import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';

/**
 * What the metrics are made of: regions of plain 64-bit floats, one for each worker and one for each worker and
 * upstream. Only that worker writes; the main thread adds them up at scrape. A worker that takes a dead one's place
 * goes on in the same regions, so counters never fall.
 */

const STATUSES = 600;

/** Cells of a worker's own region. */
const CELL = {
	authMissing: 0,
	authInvalid: 1,
	rateLimited: 2,
	handshakeFailures: 3,
	connectionsHandshaking: 4,
	connectionsHttp1: 5,
	connectionsHttp2: 6,
	/** Answers without an upstream, by status. */
	answers: 8,
} as const;

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

/** Behind the answers, by reason. */
const HTTP2_ERRORS = CELL.answers + STATUSES;
const WORKER_CELLS = HTTP2_ERRORS + HTTP2_ERROR_REASONS.length;

export class WorkerStats {
	readonly cells: Float64Array;
	/** From accept to the end of the handshake. */
	readonly handshakes: Histogram;

	constructor(memory: SharedArrayBuffer) {
		this.cells = new Float64Array(memory, 0, WORKER_CELLS);
		this.handshakes = new Histogram(memory, WORKER_CELLS * 8);
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(WORKER_CELLS * 8 + HISTOGRAM_BYTES);
	}

	authFailure(reason: 'missing' | 'invalid'): void {
		this.cells[reason === 'missing' ? CELL.authMissing : CELL.authInvalid]! += 1;
	}

	rateLimited(): void {
		this.cells[CELL.rateLimited]! += 1;
	}

	handshakeFailed(): void {
		this.cells[CELL.handshakeFailures]! += 1;
	}

	http2ConnectionError(reason: Http2ErrorReason): void {
		this.cells[HTTP2_ERRORS + HTTP2_ERROR_REASONS.indexOf(reason)]! += 1;
	}

	/** An answer given before an upstream was chosen. */
	answered(status: number): void {
		this.cells[CELL.answers + status]! += 1;
	}

	/** @param change +1 or -1. */
	connections(protocol: ConnectionProtocol, change: number): void {
		this.cells[CONNECTION_CELLS[protocol]]! += change;
	}

	/** The gauges of a worker that is gone: nothing of it is connected any more. */
	clearGauges(): void {
		for (const cell of Object.values(CONNECTION_CELLS)) this.cells[cell] = 0;
	}

	read(): {
		authMissing: number;
		authInvalid: number;
		rateLimited: number;
		handshakeFailures: number;
		connections: Record<ConnectionProtocol, number>;
		http2Errors: Record<Http2ErrorReason, number>;
		answers: Map<number, number>;
	} {
		const c = this.cells;
		return {
			authMissing: c[CELL.authMissing]!,
			authInvalid: c[CELL.authInvalid]!,
			rateLimited: c[CELL.rateLimited]!,
			handshakeFailures: c[CELL.handshakeFailures]!,
			connections: {
				handshake: c[CELL.connectionsHandshaking]!,
				'http/1.1': c[CELL.connectionsHttp1]!,
				h2: c[CELL.connectionsHttp2]!,
			},
			http2Errors: Object.fromEntries(HTTP2_ERROR_REASONS.map((reason, i) => [reason, c[HTTP2_ERRORS + i]!])) as Record<
				Http2ErrorReason,
				number
			>,
			answers: nonZero(c.subarray(CELL.answers, HTTP2_ERRORS)),
		};
	}
}

export type ConnectionProtocol = 'handshake' | 'http/1.1' | 'h2';
const CONNECTION_CELLS: Record<ConnectionProtocol, number> = {
	handshake: CELL.connectionsHandshaking,
	'http/1.1': CELL.connectionsHttp1,
	h2: CELL.connectionsHttp2,
};

/** Cells of a worker's region for one upstream. */
const UPSTREAM_CELL = { idle: 0, active: 1, answers: 2 } as const;
const UPSTREAM_CELLS = UPSTREAM_CELL.answers + STATUSES;

export class UpstreamStats {
	readonly cells: Float64Array;
	/** Successful round trips: from the request's departure to the end of the exchange with the upstream. */
	readonly roundTrips: Histogram;

	constructor(memory: SharedArrayBuffer) {
		this.cells = new Float64Array(memory, 0, UPSTREAM_CELLS);
		this.roundTrips = new Histogram(memory, UPSTREAM_CELLS * 8);
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(UPSTREAM_CELLS * 8 + HISTOGRAM_BYTES);
	}

	/** An answer given after this upstream was chosen, its own or ours. */
	answered(status: number): void {
		this.cells[UPSTREAM_CELL.answers + status]! += 1;
	}

	/** @param change +1 or -1. */
	connections(state: 'idle' | 'active', change: number): void {
		this.cells[UPSTREAM_CELL[state]]! += change;
	}

	clearGauges(): void {
		this.cells[UPSTREAM_CELL.idle] = 0;
		this.cells[UPSTREAM_CELL.active] = 0;
	}

	read(): { idle: number; active: number; answers: Map<number, number> } {
		return {
			idle: this.cells[UPSTREAM_CELL.idle]!,
			active: this.cells[UPSTREAM_CELL.active]!,
			answers: nonZero(this.cells.subarray(UPSTREAM_CELL.answers)),
		};
	}
}

function nonZero(cells: Float64Array): Map<number, number> {
	const found = new Map<number, number>();
	cells.forEach((n, status) => {
		if (n !== 0) found.set(status, n);
	});
	return found;
}

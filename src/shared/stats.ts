import type { TransitionReason } from './breaker-cell.ts';
import { HANDSHAKE_REFUSALS, type HandshakeRefusal } from './handshake-refusals.ts';
import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';

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

/** Who may not use a route that there is: the client by its certificate, its tenant, its token by the scopes. */
export const FORBIDDEN_REASONS = ['certificate', 'tenant', 'scope'] as const;
export type ForbiddenReason = (typeof FORBIDDEN_REASONS)[number];
/** Which limit a request was over: the label of a metric. */
export const RATE_LIMIT_REASONS = ['tenant', 'route', 'concurrency'] as const;
export type RateLimitReason = (typeof RATE_LIMIT_REASONS)[number];

const ANSWERS = 8;
const REFUSALS = ANSWERS + STATUSES;

/** Cells of a worker's own region. */
const CELL = {
	authMissing: 0,
	authInvalid: 1,
	connectionsHandshaking: 4,
	connectionsHttp1: 5,
	connectionsHttp2: 6,
	accessLinesDropped: 7,
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

	accessLineDropped(): void {
		this.cells[CELL.accessLinesDropped]! += 1;
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
		rateLimited: Map<RateLimitReason, number>;
		handshakeRefusals: Map<HandshakeRefusal, number>;
		connectionRefusals: Map<ConnectionRefusal, number>;
		connectionEnds: Map<ConnectionEnd, number>;
		accessLinesDropped: number;
		connections: Record<ConnectionProtocol, number>;
		http2Errors: Map<Http2ErrorReason, number>;
		forbidden: Map<ForbiddenReason, number>;
		answers: Map<number, number>;
	} {
		const c = this.cells;
		return {
			authMissing: c[CELL.authMissing]!,
			authInvalid: c[CELL.authInvalid]!,
			rateLimited: named(RATE_LIMIT_REASONS, c, CELL.rateLimited),
			handshakeRefusals: named(HANDSHAKE_REFUSALS, c, CELL.handshakeRefusals),
			connectionRefusals: named(CONNECTION_REFUSALS, c, CELL.connectionRefusals),
			connectionEnds: named(CONNECTION_ENDS, c, CELL.connectionEnds),
			accessLinesDropped: c[CELL.accessLinesDropped]!,
			connections: {
				handshake: c[CELL.connectionsHandshaking]!,
				'http/1.1': c[CELL.connectionsHttp1]!,
				h2: c[CELL.connectionsHttp2]!,
			},
			http2Errors: named(HTTP2_ERROR_REASONS, c, CELL.http2Errors),
			forbidden: named(FORBIDDEN_REASONS, c, CELL.forbidden),
			answers: nonZero(c.subarray(CELL.answers, CELL.answers + STATUSES)),
		};
	}
}

export type ConnectionProtocol = 'handshake' | 'http/1.1' | 'h2';
const CONNECTION_CELLS: Record<ConnectionProtocol, number> = {
	handshake: CELL.connectionsHandshaking,
	'http/1.1': CELL.connectionsHttp1,
	h2: CELL.connectionsHttp2,
};

/** The states of a circuit, as metrics and logs name them; by the numbers of `gates/breaker.ts`. */
export const CIRCUIT_NAMES = ['closed', 'open', 'half-open'] as const;
export type CircuitName = (typeof CIRCUIT_NAMES)[number];

/** What a circuit can become, and why; each has a cell. */
export const TRANSITIONS = [
	{ to: 'open', reason: 'status' },
	{ to: 'open', reason: 'connect' },
	{ to: 'open', reason: 'timeout' },
	{ to: 'open', reason: 'broken' },
	{ to: 'open', reason: 'health' },
	{ to: 'open', reason: 'probe' },
	{ to: 'half-open', reason: 'probe' },
	{ to: 'closed', reason: 'probe' },
	{ to: 'closed', reason: 'health' },
] as const satisfies readonly { to: CircuitName; reason: TransitionReason }[];

/** How often one thread has changed one upstream's circuit, by `TRANSITIONS`. */
export class TransitionCounts {
	readonly cells: Float64Array;

	constructor(cells: Float64Array = new Float64Array(TRANSITIONS.length)) {
		this.cells = cells;
	}

	count(to: CircuitName, reason: TransitionReason): void {
		this.cells[TRANSITIONS.findIndex((one) => one.to === to && one.reason === reason)]! += 1;
	}
}

/** Cells of a worker's region for one upstream. */
const UPSTREAM_CELL = { idle: 0, active: 1, transitions: 2, answers: 2 + TRANSITIONS.length } as const;
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
		let sum = 0;
		for (let cell = UPSTREAM_CELL.answers; cell < UPSTREAM_CELLS; cell++) sum += this.cells[cell]!;
		return sum;
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

/** All of them, zeros included: no alert may start from a gap. */
function named<Name extends string>(names: readonly Name[], cells: Float64Array, first: number): Map<Name, number> {
	return new Map(names.map((name, i) => [name, cells[first + i]!]));
}

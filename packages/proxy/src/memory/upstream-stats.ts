import { GRPC_STATUSES } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { addedUp, CounterLayout, countsByStatus, type Label, STATUSES } from './counters.ts';
import { HISTOGRAM_BYTES, Histogram } from './histogram.ts';
import { TRANSITION_CELLS, TransitionCounts } from './transition-counts.ts';

/**
 * What a worker counts for one endpoint, for the metrics: a region of 64-bit floats, as in `worker-stats.ts`. Each pair of worker and
 * endpoint has its own.
 */

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
/** Cells of a worker's region for one endpoint. Responses are last, by status. */
const UPSTREAM_CELL = {
	idle: UPSTREAM.cell('connections', 'idle'),
	active: UPSTREAM.cell('connections', 'active'),
	streams: UPSTREAM.cell('streams', 'open'),
	choice: UPSTREAM.cell('choice', 'last'),
	transitions: UPSTREAM.end,
	responses: UPSTREAM.end + TRANSITION_CELLS,
} as const;
const UPSTREAM_CELLS = UPSTREAM_CELL.responses + STATUSES;

export class UpstreamStats {
	readonly cells: Float64Array;
	/** Durations of successful round trips: from sending the request to the end of the exchange with the upstream. */
	readonly roundTrips: Histogram;
	/** Transitions of the circuit that this worker made. */
	readonly transitions: TransitionCounts;

	constructor(memory: SharedArrayBuffer) {
		this.cells = new Float64Array(memory, 0, UPSTREAM_CELLS);
		this.roundTrips = new Histogram(memory, UPSTREAM_CELLS * 8);
		const { transitions, responses } = UPSTREAM_CELL;
		this.transitions = new TransitionCounts(this.cells.subarray(transitions, responses));
	}

	static allocate(): SharedArrayBuffer {
		return new SharedArrayBuffer(UPSTREAM_CELLS * 8 + HISTOGRAM_BYTES);
	}

	/** Responses of any status. */
	get responsesInAll(): number {
		return this.#responsesFrom(0);
	}

	/** Responses of 500 and above. */
	get serverErrors(): number {
		return this.#responsesFrom(500);
	}

	#responsesFrom(status: number): number {
		let sum = 0;
		for (let cell = UPSTREAM_CELL.responses + status; cell < UPSTREAM_CELLS; cell++) sum += this.cells[cell]!;
		return sum;
	}

	/** Counts a response of this upstream, or a refusal after it was chosen. */
	responded(status: number): void {
		this.cells[UPSTREAM_CELL.responses + status]! += 1;
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
		/** `choice`: `undefined`: none yet, or the upstream has no choice. */
		return { ...readEndpoint([this]), choice: UPSTREAM_CHOICES[this.cells[UPSTREAM_CELL.choice]! - 1] };
	}
}

/** The counts of several workers for one endpoint, added up. */
export function readEndpoint(regions: readonly Pick<UpstreamStats, 'cells'>[]) {
	const cells = addedUp(
		regions.map((one) => one.cells),
		UPSTREAM_CELLS,
	);
	const { connections, streams, retries, retriesDenied, grpc } = UPSTREAM.read(cells);
	return {
		idle: connections.get('idle')!,
		active: connections.get('active')!,
		/** Requests on multiplexed connections. */
		streams: streams.get('open')!,
		retries,
		retriesDenied: retriesDenied.get('budget')!,
		/** By `grpc-status`; those that are not zero. */
		grpc: new Map([...grpc].filter(([, count]) => count !== 0)),
		/** By status; those that are not zero. */
		responses: countsByStatus(cells.subarray(UPSTREAM_CELL.responses)),
	};
}

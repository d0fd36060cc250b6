/**
 * One worker's counts for one route, by the client's protocol: requests in flight and bytes of bodies. The workers share one region
 * for each route, in which each has its own cache line. The replacement of a dead worker continues in the same cells.
 */

export const CLIENT_PROTOCOLS = ['http/1.1', 'h2'] as const;
export type ClientProtocol = (typeof CLIENT_PROTOCOLS)[number];

/** Cells of one protocol. */
const CELL = { inFlight: 0, received: 1, gave: 2 } as const;
const PROTOCOL_CELLS = 4;
/** Bytes of one worker's part: a cache line. */
export const ROUTE_STATS_BYTES = CLIENT_PROTOCOLS.length * PROTOCOL_CELLS * 8;

export interface Traffic {
	readonly inFlight: number;
	/** Bytes of requests' bodies. */
	readonly received: number;
	/** Bytes of responses' bodies. */
	readonly gave: number;
}

export class RouteStats {
	readonly #cells: Float64Array;

	/** @param offset bytes into the region, a multiple of 8. */
	constructor(memory: SharedArrayBuffer, offset = 0) {
		this.#cells = new Float64Array(memory, offset, ROUTE_STATS_BYTES / 8);
	}

	static allocate(workers: number): SharedArrayBuffer {
		return new SharedArrayBuffer(workers * ROUTE_STATS_BYTES);
	}

	/** One worker's part of a route's region. */
	static view(memory: SharedArrayBuffer, worker: number): RouteStats {
		return new RouteStats(memory, worker * ROUTE_STATS_BYTES);
	}

	/** @param change +1 or -1. */
	inFlight(protocol: ClientProtocol, change: number): void {
		this.#cells[first(protocol) + CELL.inFlight]! += change;
	}

	/** Counts bytes of a request body received from the client. */
	received(protocol: ClientProtocol, bytes: number): void {
		this.#cells[first(protocol) + CELL.received]! += bytes;
	}

	/** Counts bytes of a response's body written to the client's connection. */
	gave(protocol: ClientProtocol, bytes: number): void {
		this.#cells[first(protocol) + CELL.gave]! += bytes;
	}

	/** A dead worker has nothing in flight any more. */
	clearGauges(): void {
		for (const protocol of CLIENT_PROTOCOLS) this.#cells[first(protocol) + CELL.inFlight] = 0;
	}

	read(protocol: ClientProtocol): Traffic {
		const at = first(protocol);
		const cells = this.#cells;
		return {
			inFlight: cells[at + CELL.inFlight]!,
			received: cells[at + CELL.received]!,
			gave: cells[at + CELL.gave]!,
		};
	}
}

/** The sum over several workers. */
export function readTraffic(parts: readonly RouteStats[], protocol: ClientProtocol): Traffic {
	const sum = { inFlight: 0, received: 0, gave: 0 };
	for (const part of parts) {
		const { inFlight, received, gave } = part.read(protocol);
		sum.inFlight += inFlight;
		sum.received += received;
		sum.gave += gave;
	}
	return sum;
}

function first(protocol: ClientProtocol): number {
	return protocol === 'h2' ? PROTOCOL_CELLS : 0;
}

import { UPSTREAM_TIMEOUT } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Timed } from '../loop/deadlines.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';

/** Whose call it is. */
export interface CalledRequest {
	/** The client has said that it waits no longer. */
	callTimedOut(): void;
	onFault(error: unknown): void;
}

/**
 * How long the client of a gRPC call waits for all of it (`grpc-timeout`). It stands beside the deadline of the exchange, which follows
 * the steps of the request and is set anew with each of them.
 */
export class CallDeadline extends Timed {
	readonly #request: CalledRequest;
	readonly #ms: number;
	/** Monotonic milliseconds. */
	readonly #dueAt: number;

	/**
	 * @param ms from `startedAt` on.
	 * @param startedAt monotonic milliseconds.
	 */
	constructor(request: CalledRequest, ms: number, startedAt: number, deadlines: PlaneDeadlines) {
		super();
		this.#request = request;
		this.#ms = ms;
		this.#dueAt = startedAt + ms;
		deadlines.atLeast(ms)?.add(this);
	}

	/** @param now monotonic milliseconds. @returns milliseconds; nothing or less: the time is over, though the wheel may tell of it later. */
	leftAt(now: number): number {
		return this.#dueAt - now;
	}

	/** Whether an upstream may take the time for over, which it counts as well. grpc-go resets the stream then. @param now monotonic milliseconds. */
	mayBeOverAtUpstream(now: number): boolean {
		return this.leftAt(now) <= ROUNDING_MS + this.#ms * CLOCK_DRIFT;
	}

	override onDeadline(): void {
		this.#request.callTimedOut();
	}

	override onFault(error: unknown): void {
		this.#request.onFault(error);
	}
}

/** What the client gets then, if it is still there. */
export const CALL_TIMED_OUT = UPSTREAM_TIMEOUT.because("the client's grpc-timeout is over");

/** Of servers that count whole milliseconds. */
const ROUNDING_MS = 2;
/** By how much two machines may differ about the length of a second. */
const CLOCK_DRIFT = 0.001;

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
	/** Monotonic milliseconds. */
	readonly #dueAt: number;

	/**
	 * @param ms from `startedAt` on.
	 * @param startedAt monotonic milliseconds.
	 */
	constructor(request: CalledRequest, ms: number, startedAt: number, deadlines: PlaneDeadlines) {
		super();
		this.#request = request;
		this.#dueAt = startedAt + ms;
		deadlines.atLeast(ms)?.add(this);
	}

	/** @param now monotonic milliseconds. @returns milliseconds; nothing or less: the time is over, though the wheel may tell of it later. */
	leftAt(now: number): number {
		return this.#dueAt - now;
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

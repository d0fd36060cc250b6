import { UPSTREAM_TIMEOUT } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Timed } from '../loop/deadlines.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';
import type { Exchange } from './exchange.ts';

/**
 * The time that the client of a gRPC call allows for the whole call (`grpc-timeout`). The exchange has a separate deadline, which is set
 * anew at each step of the request.
 */
export class CallDeadline extends Timed {
	readonly #request: Exchange;
	readonly #ms: number;
	/** Monotonic milliseconds. */
	readonly #dueAt: number;

	/**
	 * @param ms counted from `startedAt`.
	 * @param startedAt monotonic milliseconds.
	 */
	constructor(request: Exchange, ms: number, startedAt: number, deadlines: PlaneDeadlines) {
		super();
		this.#request = request;
		this.#ms = ms;
		this.#dueAt = startedAt + ms;
		deadlines.atLeast(ms)?.add(this);
	}

	/** @param now monotonic milliseconds. @returns milliseconds; 0 or less: the time is over, although the wheel may report it later. */
	leftAt(now: number): number {
		return this.#dueAt - now;
	}

	/** Whether the time may be over by the upstream's own count. grpc-go then resets the stream. @param now monotonic milliseconds. */
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

/** The response after the timeout, if the client is still there. */
export const CALL_TIMED_OUT = UPSTREAM_TIMEOUT.because("the client's grpc-timeout is over");

/** A call that allows less, in milliseconds, cannot be answered. Its price in tokens (`ConnectionShare`). */
export const LEAST_TIMEOUT_MS = 1;
export const PRICE_OF_LESS = 50;

/** Allows for servers that count whole milliseconds. */
const ROUNDING_MS = 2;
/** Relative drift allowed between the clocks of two machines. */
const CLOCK_DRIFT = 0.001;

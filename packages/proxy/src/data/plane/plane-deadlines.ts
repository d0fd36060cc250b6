import type { Limits } from '../../shared/limits.ts';
import type { DeadlineQueue, Deadlines } from '../loop/deadlines.ts';

/** One queue for each kind of limit. */
export interface PlaneDeadlines {
	/** Monotonic milliseconds, to the resolution of the timer. */
	readonly now: number;
	/** How often the timer has fired. Between two ticks all sockets were polled, however late the event loop is. */
	readonly ticks: number;
	readonly handshake: DeadlineQueue;
	/** For the PROXY header of load balancers, before the handshake. Call it once. @param ms how long the header may take. */
	readonly proxyHeader: (ms: number) => DeadlineQueue;
	readonly firstRequest: DeadlineQueue;
	/** For a client to read its response, or a part of it. */
	readonly response: DeadlineQueue;
	/** Between two looks at a client that takes no more of its response. */
	readonly full: DeadlineQueue;
	/** An HTTP/1.1 connection between two requests. */
	readonly idleClient: DeadlineQueue;
	/** Until an HTTP/2 connection is pinged, and until the ping must be answered. */
	readonly ping: DeadlineQueue;
	readonly pong: DeadlineQueue;
	/** Between two checks of which connections must end. */
	readonly patrol: DeadlineQueue;
	/** For requests in flight on a connection whose certificate is no longer valid. */
	readonly ending: DeadlineQueue;
	/** A closing HTTP/1.1 connection whose client is still sending. */
	readonly linger: DeadlineQueue;
	/** For limits of routes and upstreams: a body, a round trip, a connection to an upstream, a wait in its queue. @param ms length. */
	readonly lasting: (ms: number) => DeadlineQueue;
	/**
	 * For limits that clients set: rounded up by at most an eighth, so that there are few queues.
	 *
	 * @returns `undefined` for more than a day.
	 */
	readonly atLeast: (ms: number) => DeadlineQueue | undefined;
}

/** Rounds a length up, since each length needs its own queue. Each octave from 64 ms to a day has eight lengths: at most 176 queues. */
export function rounded(ms: number): number {
	const step = 2 ** Math.floor(Math.log2(Math.max(ms, LEAST_ROUNDED)) - 3);
	return Math.max(LEAST_ROUNDED, Math.ceil(ms / step) * step);
}

const LEAST_ROUNDED = 64;
const DAY = 86_400_000;

/** Lengths that are numbers here have no key in the configuration. */
export function createDeadlines(wheel: Deadlines, limits: Limits): PlaneDeadlines {
	const queues = new Map<number, DeadlineQueue>();
	const lasting = (ms: number) => {
		// A queue for each length: configurations name few different ones.
		const queue = queues.get(ms) ?? wheel.queue(ms);
		queues.set(ms, queue);
		return queue;
	};
	return {
		get now() {
			return wheel.now;
		},
		get ticks() {
			return wheel.ticks;
		},
		handshake: wheel.queue(limits.tlsHandshakeTimeoutMs),
		proxyHeader: (ms) => wheel.queue(ms),
		firstRequest: wheel.queue(limits.firstRequestTimeoutMs),
		// The limit for upstreams in `[limits]`, even if a route has its own.
		response: wheel.queue(limits.upstreamTimeoutMs),
		full: wheel.queue(0),
		idleClient: wheel.queue(60_000),
		ping: wheel.queue(30_000),
		pong: wheel.queue(20_000),
		patrol: wheel.queue(1_000),
		// Together with `patrol`, 5 s.
		ending: wheel.queue(4_000),
		linger: wheel.queue(2_000),
		lasting,
		atLeast: (ms) => (ms > DAY ? undefined : lasting(rounded(ms))),
	};
}

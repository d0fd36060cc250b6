import type { Limits } from '../../shared/limits.ts';
import type { DeadlineQueue, Deadlines } from '../loop/deadlines.ts';

/** One queue for each kind of limit. */
export interface PlaneDeadlines {
	/** Monotonic milliseconds, to the resolution of the timer. */
	readonly now: number;
	/** How often the timer has gone off: between two of them all sockets were looked at, however late the loop is. */
	readonly ticks: number;
	readonly handshake: DeadlineQueue;
	/** Ahead of it, where load balancers speak the PROXY protocol; to be asked for once. @param ms how long it may take. */
	readonly proxyHeader: (ms: number) => DeadlineQueue;
	readonly firstRequest: DeadlineQueue;
	/** For a client to take its answer, or some of it. */
	readonly answer: DeadlineQueue;
	/** An HTTP/1.1 connection between two requests. */
	readonly idleClient: DeadlineQueue;
	/** Until an HTTP/2 connection is pinged, and until the ping must be answered. */
	readonly ping: DeadlineQueue;
	readonly pong: DeadlineQueue;
	/** Between two looks at which connections have to end. */
	readonly patrol: DeadlineQueue;
	/** For what is under way on a connection whose certificate is worth nothing any more. */
	readonly ending: DeadlineQueue;
	/** A closing HTTP/1.1 connection whose client is still sending. */
	readonly linger: DeadlineQueue;
	/** For limits that routes and upstreams set themselves: of a body, a round trip, an upstream's connection, a place in its queue. @param ms how long. */
	readonly lasting: (ms: number) => DeadlineQueue;
	/** For limits that clients set: up to an eighth longer, so that there are few queues. @returns `undefined` for more than a day. */
	readonly atLeast: (ms: number) => DeadlineQueue | undefined;
}

/** Deadlines of one queue last equally long. Each octave from 64 ms to a day has eight lengths: 176 queues at most. */
export function rounded(ms: number): number {
	const step = 2 ** Math.floor(Math.log2(Math.max(ms, LEAST_ROUNDED)) - 3);
	return Math.max(LEAST_ROUNDED, Math.ceil(ms / step) * step);
}

const LEAST_ROUNDED = 64;
const DAY = 86_400_000;

/** Those written as numbers here have no key in the configuration. */
export function createDeadlines(wheel: Deadlines, limits: Limits): PlaneDeadlines {
	const queues = new Map<number, DeadlineQueue>();
	const lasting = (ms: number) => {
		// Deadlines of one queue last equally long; configurations name few different times.
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
		// As long as `[limits]` gives an upstream, whatever a route gives its own.
		answer: wheel.queue(limits.upstreamTimeoutMs),
		idleClient: wheel.queue(60_000),
		ping: wheel.queue(30_000),
		pong: wheel.queue(20_000),
		patrol: wheel.queue(1_000),
		// With the time that finding the connection takes, 5 s in all.
		ending: wheel.queue(4_000),
		linger: wheel.queue(2_000),
		lasting,
		atLeast: (ms) => (ms > DAY ? undefined : lasting(rounded(ms))),
	};
}

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
}

/** Those written as numbers here have no key in the configuration. */
export function createDeadlines(wheel: Deadlines, limits: Limits): PlaneDeadlines {
	const lasting = new Map<number, DeadlineQueue>();
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
		lasting(ms) {
			// Deadlines of one queue last equally long; configurations name few different times.
			const queue = lasting.get(ms) ?? wheel.queue(ms);
			lasting.set(ms, queue);
			return queue;
		},
	};
}

import type { DeadlineQueue } from '../deadlines.ts';
import type { PlaneDeadlines, Upstream } from '../plane.ts';
import { UpstreamConnection } from './connection.ts';

/** Idle connections are dropped this much before the upstream would (decisions "HTTP"), ms. */
const HEAD_START_MS = 1000;

/**
 * The idle connections of one worker to one upstream. Last in, first out: the connection that was used last is the one
 * least likely to have been closed, and those that are not needed age and go.
 */
export class UpstreamPool {
	readonly #upstream: Upstream;
	readonly #deadlines: PlaneDeadlines;
	#idleMs: number;
	#idleDeadlines: DeadlineQueue;
	readonly #idle: UpstreamConnection[] = [];
	#retired = false;

	/** @param idleMs how long an idle connection is kept. */
	constructor(upstream: Upstream, deadlines: PlaneDeadlines, idleMs: number) {
		this.#upstream = upstream;
		this.#deadlines = deadlines;
		this.#idleMs = idleMs;
		this.#idleDeadlines = deadlines.idleUpstream(idleMs);
	}

	/** For connections that become idle from now on. */
	keepIdleFor(ms: number): void {
		this.#idleMs = ms;
		this.#idleDeadlines = this.#deadlines.idleUpstream(ms);
	}

	/** A connection for one request: idle if there is one, new otherwise. */
	take(now: number): UpstreamConnection {
		for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
			this.#upstream.stats.connections('idle', -1);
			this.#upstream.stats.connections('active', 1);
			connection.cancelDeadline();
			if (now < connection.usableUntil) return connection;
			connection.destroy();
		}
		return this.open();
	}

	/** A connection that no request has used before. */
	open(): UpstreamConnection {
		this.#upstream.stats.connections('active', 1);
		return new UpstreamConnection(this.#upstream);
	}

	/** Takes back a connection that is ready for another request. */
	release(connection: UpstreamConnection): void {
		const promised = connection.keepAliveTimeoutMs;
		const idleMs = promised === undefined ? this.#idleMs : Math.min(this.#idleMs, promised - HEAD_START_MS);
		if (this.#retired || idleMs <= 0 || connection.transport !== this.#upstream.transport) {
			connection.destroy();
			return;
		}
		connection.usableUntil = this.#deadlines.now + idleMs;
		this.#idleDeadlines.add(connection);
		this.#idle.push(connection);
		this.#upstream.stats.connections('active', -1);
		this.#upstream.stats.connections('idle', 1);
	}

	/** A connection has ended, wherever it was. */
	forget(connection: UpstreamConnection): void {
		const at = this.#idle.lastIndexOf(connection);
		if (at !== -1) this.#idle.splice(at, 1);
		this.#upstream.stats.connections(at === -1 ? 'active' : 'idle', -1);
	}

	/** No route leads here any more: idle connections go now, those in use when they are done. */
	retire(): void {
		this.#retired = true;
		this.closeIdle();
	}

	closeIdle(): void {
		for (const connection of [...this.#idle]) connection.destroy();
	}
}

import type { PlaneDeadlines, Upstream } from '../plane.ts';
import { UpstreamConnection } from './connection.ts';

/** Idle connections are dropped after this long, or this much before the upstream would (decisions "HTTP"), ms. */
export const IDLE_MS = 4000;
const HEAD_START_MS = 1000;

/**
 * The idle connections of one worker to one upstream. Last in, first out: the connection that was used last is the one
 * least likely to have been closed, and those that are not needed age and go.
 */
export class UpstreamPool {
	readonly #upstream: Upstream;
	readonly #deadlines: PlaneDeadlines;
	readonly #idle: UpstreamConnection[] = [];
	#retired = false;

	constructor(upstream: Upstream, deadlines: PlaneDeadlines) {
		this.#upstream = upstream;
		this.#deadlines = deadlines;
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
		const idleMs = promised === undefined ? IDLE_MS : Math.min(IDLE_MS, promised - HEAD_START_MS);
		if (this.#retired || idleMs <= 0) {
			connection.destroy();
			return;
		}
		connection.usableUntil = this.#deadlines.now + idleMs;
		this.#deadlines.idleUpstream.add(connection);
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
		for (const connection of [...this.#idle]) connection.destroy();
	}
}

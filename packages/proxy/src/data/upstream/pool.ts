import { UpstreamConnection } from './connection.ts';
import { ConnectionPool } from './connection-pool.ts';
import type { Dial } from './dial.ts';
import type { PendingQueue } from './pending-queue.ts';

/** Idle connections are dropped this much before the endpoint would, ms. */
const HEAD_START_MS = 1000;

/**
 * The idle connections of one worker to one endpoint. Last in, first out: the connection that was used last is the one
 * least likely to have been closed, and those that are not needed age and go.
 */
export class UpstreamPool extends ConnectionPool {
	readonly isShut = false;
	readonly #idle: UpstreamConnection[] = [];
	#retired = false;

	hasRoom(now: number): boolean {
		return !this.count.isLimited || this.hasIdle(now) || this.count.hasRoom;
	}

	reserve(now: number, isNew = false): boolean {
		const count = this.count;
		if (!count.isLimited || count.isReserved || (!isNew && this.hasIdle(now))) return true;
		if (count.reserve()) return true;
		if (!this.hasIdle(now)) return false;
		this.#idle[0]!.destroy();
		return count.reserve();
	}

	giveWay(wanted: number): void {
		while (this.#idle.length > 0 && this.count.lacks(wanted)) this.#idle[0]!.destroy();
	}

	/** Whether a connection waits for a request. */
	hasIdle(now: number): boolean {
		for (let last = this.#idle.at(-1); last !== undefined; last = this.#idle.at(-1)) {
			if (now < last.usableUntil) return true;
			last.destroy();
		}
		return false;
	}

	take(now: number): UpstreamConnection {
		for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
			this.turned('active');
			connection.cancelDeadline();
			if (now < connection.usableUntil) {
				connection.takenAt = this.endpoint.deadlines.ticks;
				return connection;
			}
			connection.destroy();
		}
		return this.open();
	}

	open(): UpstreamConnection {
		return this.begin(() => new UpstreamConnection(this.endpoint, this));
	}

	/** Takes over a connection that was made and counted elsewhere; it is in use. */
	adopt(dial: Dial): UpstreamConnection {
		const connection = new UpstreamConnection(this.endpoint, this, dial);
		connection.takenAt = this.endpoint.deadlines.ticks;
		return connection;
	}

	/** Takes back a connection that is ready for another request. */
	release(connection: UpstreamConnection): void {
		const promised = connection.keepAliveTimeoutMs;
		const { idleDeadlines, transport, deadlines } = this.endpoint;
		const idleMs =
			promised === undefined ? this.endpoint.idleMs : Math.min(this.endpoint.idleMs, promised - HEAD_START_MS);
		const isLast = connection.isForOne || connection.transport !== transport;
		if (isLast || this.#retired || idleMs <= 0 || this.count.cedes()) return connection.destroy();
		connection.usableUntil = deadlines.now + idleMs;
		idleDeadlines.add(connection);
		this.#idle.push(connection);
		this.turned('idle');
		this.count.idle();
	}

	/** A connection has ended, idle or not. */
	forget(connection: UpstreamConnection): void {
		const at = this.#idle.lastIndexOf(connection);
		if (at !== -1) this.#idle.splice(at, 1);
		this.ended(at === -1 ? 'active' : 'idle');
	}

	retire(pending: PendingQueue | undefined): void {
		this.#retired = true;
		this.count.tell(pending);
		this.closeIdle();
	}

	closeIdle(): void {
		for (const connection of [...this.#idle]) connection.destroy();
	}
}

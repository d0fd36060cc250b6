import type { DeadlineQueue } from '../loop/deadlines.ts';
import { FlushQueue, type TurnEnd } from '../loop/turn-end.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';
import { UpstreamConnection } from './connection.ts';
import { ConnectionCount } from './connection-count.ts';
import type { Dial } from './dial.ts';
import type { Endpoint } from './endpoint.ts';
import type { PendingQueue } from './pending-queue.ts';
import type { ConnectionPool, ConnectionTimes } from './pool-contract.ts';

/** Idle connections are dropped this much before the endpoint would, ms. */
const HEAD_START_MS = 1000;

/**
 * The idle connections of one worker to one endpoint. Last in, first out: the connection that was used last is the one
 * least likely to have been closed, and those that are not needed age and go.
 */
export class UpstreamPool implements ConnectionPool {
	/** For connections: output to write at the end of the loop's turn. */
	readonly writing: FlushQueue;
	readonly #endpoint: Endpoint;
	readonly #deadlines: PlaneDeadlines;
	#idleMs = 0;
	#idleDeadlines!: DeadlineQueue;
	/** `undefined`: only the request's own time limits apply. */
	#connectDeadlines: DeadlineQueue | undefined;
	readonly isShut = false;
	readonly #idle: UpstreamConnection[] = [];
	#retired = false;
	readonly #count: ConnectionCount;

	/** @param count of the connections to the address, if not all belong to this pool. */
	constructor(
		endpoint: Endpoint,
		{ deadlines, turnEnd }: { readonly deadlines: PlaneDeadlines; readonly turnEnd: TurnEnd },
		times: ConnectionTimes,
		count = new ConnectionCount(endpoint.connections),
	) {
		this.#endpoint = endpoint;
		this.#count = count;
		this.#deadlines = deadlines;
		this.writing = new FlushQueue(turnEnd);
		this.use(times);
	}

	use({ idleTimeoutMs, connectTimeoutMs }: ConnectionTimes): void {
		this.#idleMs = idleTimeoutMs;
		this.#idleDeadlines = this.#deadlines.lasting(idleTimeoutMs);
		this.#connectDeadlines = connectTimeoutMs === undefined ? undefined : this.#deadlines.lasting(connectTimeoutMs);
	}

	limitTo(max: number | undefined, pending: PendingQueue | undefined): void {
		this.#count.limitTo(max, pending);
	}

	hasRoom(now: number): boolean {
		return !this.#count.isLimited || this.hasIdle(now) || this.#count.hasRoom;
	}

	reserve(now: number, isNew = false): boolean {
		const count = this.#count;
		if (!count.isLimited || count.isReserved || (!isNew && this.hasIdle(now))) return true;
		if (count.reserve()) return true;
		if (!this.hasIdle(now)) return false;
		this.#idle[0]!.destroy();
		return count.reserve();
	}

	giveBackReserved(): void {
		this.#count.giveBackReserved();
	}

	giveWay(wanted: number): void {
		while (this.#idle.length > 0 && this.#count.lacks(wanted)) this.#idle[0]!.destroy();
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
			this.#endpoint.stats.connections('idle', -1);
			this.#endpoint.stats.connections('active', 1);
			connection.cancelDeadline();
			if (now < connection.usableUntil) {
				connection.takenAt = this.ticks;
				return connection;
			}
			connection.destroy();
		}
		return this.open();
	}

	open(): UpstreamConnection {
		this.#count.begin();
		this.#endpoint.stats.connections('active', 1);
		try {
			const connection = new UpstreamConnection(this.#endpoint, this);
			this.#connectDeadlines?.add(connection);
			return connection;
		} catch (error) {
			this.#endpoint.stats.connections('active', -1);
			this.#count.end();
			throw error;
		}
	}

	/** Takes over a connection that was made and counted elsewhere; it is in use. */
	adopt(dial: Dial): UpstreamConnection {
		const connection = new UpstreamConnection(this.#endpoint, this, dial);
		connection.takenAt = this.ticks;
		return connection;
	}

	/** Monotonic milliseconds, to the resolution of the timer. */
	get now(): number {
		return this.#deadlines.now;
	}

	/** Ticks of the timer of all time limits. */
	get ticks(): number {
		return this.#deadlines.ticks;
	}

	/** Takes back a connection that is ready for another request. */
	release(connection: UpstreamConnection): void {
		const promised = connection.keepAliveTimeoutMs;
		const idleMs = promised === undefined ? this.#idleMs : Math.min(this.#idleMs, promised - HEAD_START_MS);
		const isLast = connection.isForOne || connection.transport !== this.#endpoint.transport;
		if (isLast || this.#retired || idleMs <= 0 || this.#count.cedes()) return connection.destroy();
		connection.usableUntil = this.#deadlines.now + idleMs;
		this.#idleDeadlines.add(connection);
		this.#idle.push(connection);
		this.#endpoint.stats.connections('active', -1);
		this.#endpoint.stats.connections('idle', 1);
		this.#count.idle();
	}

	/** A connection has ended, idle or not. */
	forget(connection: UpstreamConnection): void {
		const at = this.#idle.lastIndexOf(connection);
		if (at !== -1) this.#idle.splice(at, 1);
		this.#endpoint.stats.connections(at === -1 ? 'active' : 'idle', -1);
		this.#count.end();
	}

	freed(): void {
		this.#count.freed();
	}

	retire(pending: PendingQueue | undefined): void {
		this.#retired = true;
		this.#count.tell(pending);
		this.closeIdle();
	}

	closeIdle(): void {
		for (const connection of [...this.#idle]) connection.destroy();
	}
}

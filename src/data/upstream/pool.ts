import type { UpstreamSeed } from '../../shared/messages.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';
import { UpstreamConnection } from './connection.ts';
import type { Upstream } from './upstream.ts';
import type { WaitingRoom } from './waiting-room.ts';

/** How long a connection may take, and how long it may wait, ms. */
export type ConnectionTimes = Pick<UpstreamSeed, 'idleTimeoutMs' | 'connectTimeoutMs'>;

/** Idle connections are dropped this much before the upstream would, ms. */
const HEAD_START_MS = 1000;

/**
 * The idle connections of one worker to one upstream. Last in, first out: the connection that was used last is the one
 * least likely to have been closed, and those that are not needed age and go.
 */
export class UpstreamPool {
	readonly #upstream: Upstream;
	readonly #deadlines: PlaneDeadlines;
	#idleMs = 0;
	#idleDeadlines!: DeadlineQueue;
	/** `undefined`: the request's own time is all there is. */
	#connectDeadlines: DeadlineQueue | undefined;
	readonly #idle: UpstreamConnection[] = [];
	#retired = false;
	#max: number | undefined;
	#room: WaitingRoom | undefined;
	/** The next `open` has been counted. */
	#isReserved = false;

	constructor(upstream: Upstream, deadlines: PlaneDeadlines, times: ConnectionTimes) {
		this.#upstream = upstream;
		this.#deadlines = deadlines;
		this.use(times);
	}

	/** For connections that are made, or become idle, from now on. */
	use({ idleTimeoutMs, connectTimeoutMs }: ConnectionTimes): void {
		this.#idleMs = idleTimeoutMs;
		this.#idleDeadlines = this.#deadlines.lasting(idleTimeoutMs);
		this.#connectDeadlines = connectTimeoutMs === undefined ? undefined : this.#deadlines.lasting(connectTimeoutMs);
	}

	/**
	 * @param max connections in the whole process, idle ones included.
	 * @param room where requests wait that there is no connection for.
	 */
	limitTo(max: number | undefined, room: WaitingRoom | undefined): void {
		this.#max = max;
		this.#room = room;
	}

	/** Whether a request could have a connection now. */
	hasRoom(now: number): boolean {
		return this.#max === undefined || this.#hasIdle(now) || this.#upstream.connections.total < this.#max;
	}

	/**
	 * Sees to it that the next `take` or `open` stays within the limit.
	 *
	 * @param isNew it is to be one that nobody has used; at the limit an idle one makes room for it.
	 */
	reserve(now: number, isNew = false): boolean {
		if (this.#max === undefined || this.#isReserved || (!isNew && this.#hasIdle(now))) return true;
		const { connections } = this.#upstream;
		this.#isReserved = connections.tryInc(this.#max);
		if (!this.#isReserved && this.#hasIdle(now)) {
			this.#idle[0]!.destroy();
			this.#isReserved = connections.tryInc(this.#max);
		}
		return this.#isReserved;
	}

	/** What `reserve` has kept free, and no `take` or `open` has used. */
	giveBackReserved(): void {
		if (!this.#isReserved) return;
		this.#isReserved = false;
		this.#upstream.connections.dec();
		this.freed();
	}

	/** Idle connections end, those first that have been idle longest, until so many new ones could be made. */
	giveWay(wanted: number): void {
		if (this.#max === undefined) return;
		const { connections } = this.#upstream;
		while (this.#idle.length > 0 && connections.total + wanted > this.#max) this.#idle[0]!.destroy();
	}

	get #isAtLimit(): boolean {
		return this.#max !== undefined && this.#upstream.connections.total >= this.#max;
	}

	#hasIdle(now: number): boolean {
		for (let last = this.#idle.at(-1); last !== undefined; last = this.#idle.at(-1)) {
			if (now < last.usableUntil) return true;
			last.destroy();
		}
		return false;
	}

	/** A connection for one request: idle if there is one, new otherwise. */
	take(now: number): UpstreamConnection {
		for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
			this.#upstream.stats.connections('idle', -1);
			this.#upstream.stats.connections('active', 1);
			connection.cancelDeadline();
			if (now < connection.usableUntil) {
				connection.takenAt = this.ticks;
				return connection;
			}
			connection.destroy();
		}
		return this.open();
	}

	/** A connection that no request has used before. */
	open(): UpstreamConnection {
		if (this.#isReserved) this.#isReserved = false;
		else this.#upstream.connections.inc();
		this.#upstream.stats.connections('active', 1);
		try {
			const connection = new UpstreamConnection(this.#upstream);
			this.#connectDeadlines?.add(connection);
			return connection;
		} catch (error) {
			this.#upstream.stats.connections('active', -1);
			this.#upstream.connections.dec();
			this.freed();
			throw error;
		}
	}

	/** Of the timer of all time limits. */
	get ticks(): number {
		return this.#deadlines.ticks;
	}

	/** Takes back a connection that is ready for another request. */
	release(connection: UpstreamConnection): void {
		const promised = connection.keepAliveTimeoutMs;
		const idleMs = promised === undefined ? this.#idleMs : Math.min(this.#idleMs, promised - HEAD_START_MS);
		if (this.#retired || idleMs <= 0 || connection.transport !== this.#upstream.transport) {
			connection.destroy();
			return;
		}
		if (this.#isAtLimit && this.#room?.owes(this.#upstream.connections)) {
			this.#room.cede();
			connection.destroy();
			return;
		}
		connection.usableUntil = this.#deadlines.now + idleMs;
		this.#idleDeadlines.add(connection);
		this.#idle.push(connection);
		this.#upstream.stats.connections('active', -1);
		this.#upstream.stats.connections('idle', 1);
		if (this.#max !== undefined) this.#room?.freed();
	}

	/** A connection has ended, wherever it was. */
	forget(connection: UpstreamConnection): void {
		const at = this.#idle.lastIndexOf(connection);
		if (at !== -1) this.#idle.splice(at, 1);
		this.#upstream.stats.connections(at === -1 ? 'active' : 'idle', -1);
		this.#upstream.connections.dec();
		this.freed();
	}

	/** A request or a connection has ended: somebody may wait for that, whatever the limits were when it began. */
	freed(): void {
		this.#room?.freed();
	}

	/**
	 * No route leads here any more: idle connections go now, those in use when they are done.
	 *
	 * @param room of its group: the address may be there again with another breaker, and the connections count.
	 */
	retire(room: WaitingRoom | undefined): void {
		this.#retired = true;
		this.#room = room;
		this.closeIdle();
	}

	closeIdle(): void {
		for (const connection of [...this.#idle]) connection.destroy();
	}
}

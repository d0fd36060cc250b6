import type { UpstreamLoad } from '../../memory/upstream-load.ts';
import type { Timed } from '../loop/deadlines.ts';
import type { UpstreamRequest } from './contract.ts';
import type { Endpoint } from './endpoint.ts';
import type { PendingQueue } from './pending-queue.ts';

/** The connections of one worker to one address, by whatever protocol. */
export abstract class ConnectionPool {
	protected readonly endpoint: Endpoint;
	protected readonly count: ConnectionCount;

	/** @param count of the connections to the address, if not all belong to this pool. */
	constructor(endpoint: Endpoint, count = new ConnectionCount(endpoint.connections)) {
		this.endpoint = endpoint;
		this.count = count;
	}

	/**
	 * @param max connections in the whole process, idle ones included.
	 * @param pending the queue of requests that find no connection.
	 */
	limitTo(max: number | undefined, pending: PendingQueue | undefined): void {
		this.count.limitTo(max, pending);
	}

	/** Whether a request could have a connection now. */
	abstract hasRoom(now: number): boolean;
	/** The address has said that it takes no request at the moment, on any connection. */
	abstract readonly isShut: boolean;
	/**
	 * Ensures that the next `take` or `open` stays within the limit.
	 *
	 * @param isNew `open` follows; at the limit, an idle connection makes room for it.
	 */
	abstract reserve(now: number, isNew?: boolean): boolean;

	/** Gives back a reservation that no `take` or `open` has used. */
	giveBackReserved(): void {
		this.count.giveBackReserved();
	}

	/** Closes idle connections, longest idle first, until `wanted` new ones could be made. */
	abstract giveWay(wanted: number): void;
	/** For one request: uses an existing connection if one has room, otherwise a new one. */
	abstract take(now: number): UpstreamRequest;
	/** For a request that failed on another connection: uses one that cannot have ended unnoticed. */
	abstract open(): UpstreamRequest;
	/**
	 * Only if the address chooses its protocol: a connection over HTTP/1.1, for a WebSocket that it does not take over HTTP/2.
	 *
	 * @returns `undefined` if the limit of connections does not allow one.
	 */
	openHttp1?(now: number): UpstreamRequest | undefined;

	/** A request or a connection has ended. Others may wait for that, whatever the limits were when it began. */
	freed(): void {
		this.count.freed();
	}

	/**
	 * No route leads here any more: idle connections end now, others when they are done.
	 *
	 * @param room of its upstream: the address may return with another breaker, and these connections still count.
	 */
	abstract retire(pending: PendingQueue | undefined): void;
	/** Closes idle connections, and those of another transport than the current one when they are done. */
	abstract closeIdle(): void;

	/** Counts a connection from the moment when it is begun. */
	protected begin<Connection extends Timed>(connect: () => Connection): Connection {
		this.count.begin();
		this.endpoint.stats.connections('active', 1);
		try {
			const connection = connect();
			this.endpoint.connectDeadlines?.add(connection);
			return connection;
		} catch (error) {
			this.ended('active');
			throw error;
		}
	}

	/** A connection has become idle, or carries a request again. */
	protected turned(state: 'idle' | 'active'): void {
		const { stats } = this.endpoint;
		stats.connections(state === 'idle' ? 'active' : 'idle', -1);
		stats.connections(state, 1);
	}

	/** A connection has ended, in this state. */
	protected ended(state: 'idle' | 'active'): void {
		this.endpoint.stats.connections(state, -1);
		this.count.end();
	}
}

/** Counts and limits the connections to one address across the process, and notifies the queue that waits for one. */
export class ConnectionCount {
	/** Connections of all threads. */
	readonly connections: UpstreamLoad;
	#max: number | undefined;
	#pending: PendingQueue | undefined;
	/** The next connection has been counted. */
	#isReserved = false;

	constructor(connections: UpstreamLoad) {
		this.connections = connections;
	}

	/** @param max idle connections included. @param pending the queue of requests that find no connection. */
	limitTo(max: number | undefined, pending: PendingQueue | undefined): void {
		this.#max = max;
		this.#pending = pending;
	}

	/** @param pending the queue that waits for connections from now on. */
	tell(pending: PendingQueue | undefined): void {
		this.#pending = pending;
	}

	get isLimited(): boolean {
		return this.#max !== undefined;
	}

	get isReserved(): boolean {
		return this.#isReserved;
	}

	/** Whether another connection could be made. */
	get hasRoom(): boolean {
		return this.#max === undefined || this.connections.total < this.#max;
	}

	/** Whether `wanted` more connections would exceed the limit. */
	lacks(wanted: number): boolean {
		return this.#max !== undefined && this.connections.total + wanted > this.#max;
	}

	/** Counts the next connection beforehand. @returns whether it is within the limit. */
	reserve(): boolean {
		if (this.#max === undefined || this.#isReserved) return true;
		this.#isReserved = this.connections.tryInc(this.#max);
		return this.#isReserved;
	}

	/** Gives back a connection that `reserve` has counted and `begin` has not used. */
	giveBackReserved(): void {
		if (!this.#isReserved) return;
		this.#isReserved = false;
		this.end();
	}

	/** A connection is made. */
	begin(): void {
		if (this.#isReserved) this.#isReserved = false;
		else this.connections.inc();
	}

	/** A connection has ended. */
	end(): void {
		this.connections.dec();
		this.freed();
	}

	/** A request or a connection has ended. Others may wait for that, whatever the limits were when it began. */
	freed(): void {
		this.#pending?.freed();
	}

	/** A connection is idle now. */
	idle(): void {
		if (this.#max !== undefined) this.#pending?.freed();
	}

	/** Whether a connection that this thread no longer needs is owed to another thread, and must therefore end. */
	cedes(): boolean {
		if (this.hasRoom || !this.#pending?.owes(this.connections)) return false;
		this.#pending.cede();
		return true;
	}
}

import type { UpstreamLoad } from '../../memory/upstream-load.ts';
import type { PendingQueue } from './pending-queue.ts';

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

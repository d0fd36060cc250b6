import type { UpstreamLoad } from '../../memory/upstream-load.ts';
import type { PendingQueue } from './pending-queue.ts';

/** How many connections to one address there may be in the whole process, and who waits for one. */
export class ConnectionCount {
	/** Of all threads. */
	readonly connections: UpstreamLoad;
	#max: number | undefined;
	#room: PendingQueue | undefined;
	/** The next connection has been counted. */
	#isReserved = false;

	constructor(connections: UpstreamLoad) {
		this.connections = connections;
	}

	/** @param max idle ones included. @param room where requests wait that there is no connection for. */
	limitTo(max: number | undefined, room: PendingQueue | undefined): void {
		this.#max = max;
		this.#room = room;
	}

	/** @param room that waits for connections from now on. */
	tell(room: PendingQueue | undefined): void {
		this.#room = room;
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

	/** Whether so many new ones would be too many. */
	lacks(wanted: number): boolean {
		return this.#max !== undefined && this.connections.total + wanted > this.#max;
	}

	/** Counts the next connection beforehand. @returns whether it is within the limit. */
	reserve(): boolean {
		if (this.#max === undefined || this.#isReserved) return true;
		this.#isReserved = this.connections.tryInc(this.#max);
		return this.#isReserved;
	}

	/** What `reserve` has counted, and no `begin` has used. */
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

	/** A request or a connection has ended: somebody may wait for that, whatever the limits were when it began. */
	freed(): void {
		this.#room?.freed();
	}

	/** A connection is idle now. */
	idle(): void {
		if (this.#max !== undefined) this.#room?.freed();
	}

	/** Whether a connection that nobody here needs any more is another thread's; if so it is to end. */
	cedes(): boolean {
		if (this.hasRoom || !this.#room?.owes(this.connections)) return false;
		this.#room.cede();
		return true;
	}
}

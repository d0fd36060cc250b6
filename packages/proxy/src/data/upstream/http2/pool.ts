import type { AutoPool } from '../auto-pool.ts';
import { type ConnectionCount, ConnectionPool } from '../connection-pool.ts';
import type { UpstreamRequest } from '../contract.ts';
import { Dial } from '../dial.ts';
import type { Endpoint } from '../endpoint.ts';
import type { PendingQueue } from '../pending-queue.ts';
import { Http2UpstreamConnection } from './connection.ts';

/**
 * The connections of one worker to one address over HTTP/2: few, and warm. Requests go to the first one until it is busy, so
 * unneeded connections become idle, age and end. Another one is made before the first becomes a bottleneck.
 */
export class Http2Pool extends ConnectionPool {
	/** Connections that take requests, oldest first. */
	readonly #connections: Http2UpstreamConnection[] = [];
	/** Connections that are being made. */
	readonly #dials: Dial[] = [];
	/** Concurrent streams that the last connection allowed. RFC 9113 section 6.5.2 asks servers to allow at least a hundred. */
	#streams = 100;
	/** The connection that last set the limit of streams, if it set 0. */
	#shutBy: Http2UpstreamConnection | undefined;
	/** Set if the address may choose HTTP/1.1. */
	readonly #auto: AutoPool | undefined;

	constructor(endpoint: Endpoint, count?: ConnectionCount, auto?: AutoPool) {
		super(endpoint, count);
		this.#auto = auto;
	}

	/** RFC 9113 section 6.5.2: a limit of 0 is temporary. A new connection would not be allowed any request either. */
	get isShut(): boolean {
		return this.#shutBy !== undefined && !this.hasPlace(false);
	}

	hasRoom(_now: number): boolean {
		return (this.count.hasRoom && this.#shutBy === undefined) || this.hasPlace(false);
	}

	/** Whether an existing connection has room for a request. */
	get hasConnection(): boolean {
		return this.#connections.some(({ hasRoom }) => hasRoom);
	}

	/** Whether a connection that exists or is being made has room. @param isNew only one that cannot have ended unnoticed. */
	hasPlace(isNew: boolean): boolean {
		return this.#find(isNew) !== undefined || this.#dials.some(hasRoom);
	}

	reserve(_now: number, isNew = false): boolean {
		if (this.#shutBy !== undefined) return this.hasPlace(isNew);
		if (!this.count.isLimited || this.hasPlace(isNew) || this.count.reserve()) return true;
		const idle = this.#connections.find(({ isIdle }) => isIdle);
		if (idle === undefined) return false;
		idle.close();
		return this.count.reserve();
	}

	giveWay(wanted: number): void {
		while (this.count.lacks(wanted)) {
			const idle = this.#connections.find(({ isIdle }) => isIdle);
			if (idle === undefined) return;
			idle.close();
		}
	}

	take(_now: number): UpstreamRequest {
		return this.#request(false);
	}

	open(): UpstreamRequest {
		return this.#request(true);
	}

	/** @param isNew only on a connection that cannot have ended unnoticed. */
	#request(isNew: boolean): UpstreamRequest {
		const connection = this.#find(isNew);
		if (connection !== undefined && !connection.isBusy) return connection.request();
		if (connection === undefined || connection.isStalled) {
			const dial = this.#dials.find(hasRoom);
			if (dial !== undefined) return dial.request();
		}
		if (connection === undefined) return this.#open().request();
		// Waiting for a new connection is better than waiting for another request's body.
		if (connection.isStarved && this.#mayOpen()) return this.#open().request();
		this.#warm();
		return connection.request();
	}

	/**
	 * The first that is not busy, or the one with the fewest requests; a starved one only if there is no other.
	 *
	 * @param isNew only one that cannot have ended unnoticed.
	 */
	#find(isNew: boolean): Http2UpstreamConnection | undefined {
		let least: Http2UpstreamConnection | undefined;
		for (const connection of this.#connections) {
			if (!connection.hasRoom || (isNew && !connection.isProven)) continue;
			if (!connection.isBusy) return connection;
			if (least === undefined || isBetter(connection, least)) least = connection;
		}
		return least;
	}

	/** Whether the limit allows another connection. */
	#mayOpen(): boolean {
		return this.#shutBy === undefined && (!this.count.isLimited || this.count.reserve());
	}

	/** Makes another connection in addition to busy ones, one at a time. */
	#warm(): void {
		if (this.#dials.length > 0) return;
		if (this.#mayOpen()) this.#open();
	}

	#open(): Dial {
		const places = this.#auto?.isLikely ? 1 : this.#streams;
		const dial = this.begin(() => new Dial(this.endpoint, this, places, this.#auto !== undefined));
		this.#dials.push(dial);
		return dial;
	}

	/** For dials: the connection has been made. It takes the dial's requests, and the socket. */
	onMade(dial: Dial): void {
		this.#dials.splice(this.#dials.indexOf(dial), 1);
		if (this.#auto !== undefined) {
			this.endpoint.stats.chose(dial.protocol);
			if (dial.protocol === 'http/1.1') return this.#auto.adopt(dial);
		}
		const connection = new Http2UpstreamConnection(this.endpoint, this, dial, this.#streams);
		this.#connections.push(connection);
		moveTo(connection, dial);
		if (this.#auto?.isLikely) this.#gather(connection);
		if (dial.isLeaving) connection.retire();
		connection.begun();
	}

	/** The address has changed to HTTP/2. This connection carries all waiting requests, so their own dials are not needed. */
	#gather(connection: Http2UpstreamConnection): void {
		this.#auto!.isLikely = false;
		for (const dial of [...this.#dials]) {
			if (dial.isLeaving || !connection.hasRoomFor(dial.size)) continue;
			moveTo(connection, dial);
			dial.end();
		}
	}

	/** For dials: it has ended before that. */
	forgetDial(dial: Dial): void {
		const at = this.#dials.indexOf(dial);
		if (at !== -1) this.#dials.splice(at, 1);
		this.ended('active');
	}

	retire(pending: PendingQueue | undefined): void {
		this.count.tell(pending);
		for (const connection of [...this.#connections]) connection.retire();
		for (const dial of [...this.#dials]) dial.leave();
	}

	closeIdle(): void {
		const { transport } = this.endpoint;
		for (const connection of [...this.#connections]) {
			if (connection.isIdle) connection.close();
			else if (connection.transport !== transport) connection.retire();
		}
		for (const dial of [...this.#dials]) if (dial.transport !== transport) dial.leave();
	}

	// --- Events of connections. ---

	/** @returns false: it should not be kept. */
	whenIdle(connection: Http2UpstreamConnection): boolean {
		this.turned('idle');
		this.endpoint.idleDeadlines.add(connection);
		if (this.endpoint.idleMs <= 0 || this.count.cedes()) return false;
		this.count.idle();
		return true;
	}

	/** It carries a request again. */
	whenBusy(): void {
		this.turned('active');
	}

	/** It takes no more requests. */
	leave(connection: Http2UpstreamConnection): void {
		const at = this.#connections.indexOf(connection);
		if (at === -1) return;
		this.#connections.splice(at, 1);
		if (this.#opens(connection)) this.freed();
	}

	/** How many requests it takes at once. */
	onLimit(connection: Http2UpstreamConnection, streams: number): void {
		this.#shutBy = streams === 0 ? connection : undefined;
		if (streams > 0) this.#streams = streams;
		this.freed();
	}

	/** The connection takes no more requests, whatever limit it has set. @returns whether others may be made now. */
	#opens(connection: Http2UpstreamConnection): boolean {
		if (this.#shutBy !== connection) return false;
		this.#shutBy = undefined;
		return true;
	}

	/** Whether another thread waits for the connection, and this one has more than its share. */
	isOwed(): boolean {
		return this.count.cedes();
	}

	/** It has ended. */
	forget(connection: Http2UpstreamConnection): void {
		const at = this.#connections.indexOf(connection);
		if (at !== -1) this.#connections.splice(at, 1);
		this.#opens(connection);
		this.ended(connection.isIdle ? 'idle' : 'active');
	}
}

function hasRoom(dial: Dial): boolean {
	return dial.hasRoom;
}

/** Sends the requests that wait for `dial` on `connection`. */
function moveTo(connection: Http2UpstreamConnection, dial: Dial): void {
	for (const request of dial.take()) if (request.isWanted) request.sendOn(connection.request());
}

/** Compares two busy connections. */
function isBetter(one: Http2UpstreamConnection, other: Http2UpstreamConnection): boolean {
	return one.isStarved === other.isStarved ? one.size < other.size : other.isStarved;
}

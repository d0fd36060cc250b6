import type { DeadlineQueue } from '../../loop/deadlines.ts';
import { FlushQueue, type TurnEnd } from '../../loop/turn-end.ts';
import type { PlaneDeadlines } from '../../plane/plane-deadlines.ts';
import { ConnectionCount } from '../connection-count.ts';
import type { UpstreamRequest } from '../contract.ts';
import { Dial, type DialOwner } from '../dial.ts';
import type { Endpoint } from '../endpoint.ts';
import type { PendingQueue } from '../pending-queue.ts';
import type { ConnectionPool, ConnectionTimes } from '../pool-contract.ts';
import { type ConnectionOwner, Http2UpstreamConnection } from './connection.ts';
import type { Liveness } from './liveness.ts';

/**
 * The connections of one worker to one address over HTTP/2: few, and warm. Requests go to the first one until it is busy, so
 * unneeded connections become idle, age and end. Another one is made before the first becomes a bottleneck.
 */
export class Http2Pool implements ConnectionPool, ConnectionOwner, DialOwner {
	readonly #endpoint: Endpoint;
	readonly #deadlines: PlaneDeadlines;
	readonly #count: ConnectionCount;
	readonly #writing: FlushQueue;
	/** Connections that take requests, oldest first. */
	readonly #connections: Http2UpstreamConnection[] = [];
	/** Connections that take no more requests but still carry some. */
	readonly #leaving = new Set<Http2UpstreamConnection>();
	/** Connections that are being made. */
	readonly #dials: Dial[] = [];
	/** Concurrent streams that the last connection allowed. RFC 9113 section 6.5.2 asks servers to allow at least a hundred. */
	#streams = 100;
	/** The connection that last set the limit of streams, if it set 0. */
	#shutBy: Http2UpstreamConnection | undefined;
	#idleDeadlines!: DeadlineQueue;
	#isKept = true;
	/** `undefined`: only the request's own time limits apply. */
	#connectDeadlines: DeadlineQueue | undefined;

	readonly #http1: Http1Side | undefined;

	/**
	 * @param count of the connections to the address, if not all belong to this pool.
	 * @param http1 if the address may choose HTTP/1.1.
	 */
	constructor(
		endpoint: Endpoint,
		{ deadlines, turnEnd }: { readonly deadlines: PlaneDeadlines; readonly turnEnd: TurnEnd },
		times: ConnectionTimes,
		count = new ConnectionCount(endpoint.connections),
		http1?: Http1Side,
	) {
		this.#http1 = http1;
		this.#endpoint = endpoint;
		this.#deadlines = deadlines;
		this.#writing = new FlushQueue(turnEnd);
		this.#count = count;
		this.use(times);
	}

	use({ idleTimeoutMs, connectTimeoutMs }: ConnectionTimes): void {
		this.#isKept = idleTimeoutMs > 0;
		this.#idleDeadlines = this.#deadlines.lasting(idleTimeoutMs);
		this.#connectDeadlines = connectTimeoutMs === undefined ? undefined : this.#deadlines.lasting(connectTimeoutMs);
	}

	limitTo(max: number | undefined, pending: PendingQueue | undefined): void {
		this.#count.limitTo(max, pending);
	}

	/** RFC 9113 section 6.5.2: a limit of 0 is temporary. A new connection would not be allowed any request either. */
	get isShut(): boolean {
		return this.#shutBy !== undefined && !this.hasPlace(false);
	}

	hasRoom(_now: number): boolean {
		return (this.#count.hasRoom && this.#shutBy === undefined) || this.hasPlace(false);
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
		if (!this.#count.isLimited || this.hasPlace(isNew) || this.#count.reserve()) return true;
		const idle = this.#connections.find(({ isIdle }) => isIdle);
		if (idle === undefined) return false;
		idle.close();
		return this.#count.reserve();
	}

	giveBackReserved(): void {
		this.#count.giveBackReserved();
	}

	giveWay(wanted: number): void {
		while (this.#count.lacks(wanted)) {
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
		return this.#shutBy === undefined && (!this.#count.isLimited || this.#count.reserve());
	}

	/** Makes another connection in addition to busy ones, one at a time. */
	#warm(): void {
		if (this.#dials.length > 0) return;
		if (this.#mayOpen()) this.#open();
	}

	#open(): Dial {
		this.#count.begin();
		this.#endpoint.stats.connections('active', 1);
		try {
			const places = this.#http1?.isLikely ? 1 : this.#streams;
			const dial = new Dial(this.#endpoint, this, places, this.#http1 !== undefined);
			this.#dials.push(dial);
			this.#connectDeadlines?.add(dial);
			return dial;
		} catch (error) {
			this.#endpoint.stats.connections('active', -1);
			this.#count.end();
			throw error;
		}
	}

	/** For dials. */
	onMade(dial: Dial): void {
		this.#dials.splice(this.#dials.indexOf(dial), 1);
		if (this.#http1 !== undefined) {
			this.#endpoint.stats.chose(dial.protocol);
			if (dial.protocol === 'http/1.1') return this.#http1.adopt(dial);
		}
		const connection = new Http2UpstreamConnection(this.#endpoint, this, dial, this.#streams);
		this.#connections.push(connection);
		moveTo(connection, dial);
		if (this.#http1?.isLikely) this.#gather(connection);
		if (dial.isLeaving) connection.retire();
		connection.begun();
	}

	/** The address has changed to HTTP/2. This connection carries all waiting requests, so their own dials are not needed. */
	#gather(connection: Http2UpstreamConnection): void {
		this.#http1!.isLikely = false;
		for (const dial of [...this.#dials]) {
			if (dial.isLeaving || !connection.hasRoomFor(dial.size)) continue;
			moveTo(connection, dial);
			dial.end();
		}
	}

	/** For dials. */
	forgetDial(dial: Dial): void {
		const at = this.#dials.indexOf(dial);
		if (at !== -1) this.#dials.splice(at, 1);
		this.#endpoint.stats.connections('active', -1);
		this.#count.end();
	}

	freed(): void {
		this.#count.freed();
	}

	retire(pending: PendingQueue | undefined): void {
		this.#count.tell(pending);
		for (const connection of [...this.#connections]) connection.retire();
		for (const dial of [...this.#dials]) dial.leave();
	}

	closeIdle(): void {
		const { transport } = this.#endpoint;
		for (const connection of [...this.#connections]) {
			if (connection.isIdle) connection.close();
			else if (connection.transport !== transport) connection.retire();
		}
		for (const dial of [...this.#dials]) if (dial.transport !== transport) dial.leave();
	}

	// --- Events of connections. ---

	get ticks(): number {
		return this.#deadlines.ticks;
	}

	get now(): number {
		return this.#deadlines.now;
	}

	flushLater(connection: Http2UpstreamConnection): void {
		this.#writing.add(connection);
	}

	whenIdle(connection: Http2UpstreamConnection): boolean {
		this.#endpoint.stats.connections('active', -1);
		this.#endpoint.stats.connections('idle', 1);
		this.#idleDeadlines.add(connection);
		if (!this.#isKept || this.#count.cedes()) return false;
		this.#count.idle();
		return true;
	}

	whenBusy(_connection: Http2UpstreamConnection): void {
		this.#endpoint.stats.connections('idle', -1);
		this.#endpoint.stats.connections('active', 1);
	}

	leave(connection: Http2UpstreamConnection): void {
		const at = this.#connections.indexOf(connection);
		if (at === -1) return;
		this.#connections.splice(at, 1);
		this.#leaving.add(connection);
		if (this.#opens(connection)) this.freed();
	}

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

	isOwed(): boolean {
		return this.#count.cedes();
	}

	forget(connection: Http2UpstreamConnection): void {
		const at = this.#connections.indexOf(connection);
		if (at !== -1) this.#connections.splice(at, 1);
		this.#leaving.delete(connection);
		this.#opens(connection);
		this.#endpoint.stats.connections(connection.isIdle ? 'idle' : 'active', -1);
		this.#count.end();
	}

	lookLater(liveness: Liveness, isAsked: boolean): void {
		const { ping, pong } = this.#deadlines;
		(isAsked ? pong : ping).add(liveness);
	}
}

/** The HTTP/1.1 side of an address that may choose either protocol. */
export interface Http1Side {
	/** The last connection has chosen HTTP/1.1, so the next one most likely takes one request, too. */
	isLikely: boolean;
	/** A connection that speaks HTTP/1.1 has been made. */
	adopt(dial: Dial): void;
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

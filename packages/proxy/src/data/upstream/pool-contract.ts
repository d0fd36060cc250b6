import type { EndpointSeed } from '../../shared/messages.ts';
import type { UpstreamRequest } from './contract.ts';
import type { PendingQueue } from './pending-queue.ts';

/** How long connecting may take, and how long a connection may stay idle, ms. */
export type ConnectionTimes = Pick<EndpointSeed, 'idleTimeoutMs' | 'connectTimeoutMs'>;

/** The connections of one worker to one address, by whatever protocol: `pool.ts` or `http2/pool.ts`. */
export interface ConnectionPool {
	/** Sets the times for connections that are made, or become idle, from now on. */
	use(times: ConnectionTimes): void;
	/**
	 * @param max connections in the whole process, idle ones included.
	 * @param pending the queue of requests that find no connection.
	 */
	limitTo(max: number | undefined, pending: PendingQueue | undefined): void;
	/** Whether a request could have a connection now. */
	hasRoom(now: number): boolean;
	/** The address has said that it takes no request at the moment, on any connection. */
	readonly isShut: boolean;
	/**
	 * Ensures that the next `take` or `open` stays within the limit.
	 *
	 * @param isNew `open` follows; at the limit, an idle connection makes room for it.
	 */
	reserve(now: number, isNew?: boolean): boolean;
	/** Gives back a reservation that no `take` or `open` has used. */
	giveBackReserved(): void;
	/** Closes idle connections, longest idle first, until `wanted` new ones could be made. */
	giveWay(wanted: number): void;
	/** For one request: uses an existing connection if one has room, otherwise a new one. */
	take(now: number): UpstreamRequest;
	/** For a request that failed on another connection: uses one that cannot have ended unnoticed. */
	open(): UpstreamRequest;
	/**
	 * Only if the address chooses its protocol: a connection over HTTP/1.1, for a WebSocket that it does not take over HTTP/2.
	 *
	 * @returns `undefined` if the limit of connections does not allow one.
	 */
	openHttp1?(now: number): UpstreamRequest | undefined;
	/** A request or a connection has ended. Others may wait for that, whatever the limits were when it began. */
	freed(): void;
	/**
	 * No route leads here any more: idle connections end now, others when they are done.
	 *
	 * @param room of its upstream: the address may return with another breaker, and these connections still count.
	 */
	retire(pending: PendingQueue | undefined): void;
	/** Closes idle connections, and those of another transport than the current one when they are done. */
	closeIdle(): void;
}

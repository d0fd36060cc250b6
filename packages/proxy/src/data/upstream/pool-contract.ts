import type { EndpointSeed } from '../../shared/messages.ts';
import type { UpstreamRequest } from './contract.ts';
import type { PendingQueue } from './pending-queue.ts';

/** How long a connection may take, and how long it may wait, ms. */
export type ConnectionTimes = Pick<EndpointSeed, 'idleTimeoutMs' | 'connectTimeoutMs'>;

/** The connections of one worker to one address, by whatever protocol: `pool.ts` or `http2/pool.ts`. */
export interface ConnectionPool {
	/** For connections that are made, or become idle, from now on. */
	use(times: ConnectionTimes): void;
	/**
	 * @param max connections in the whole process, idle ones included.
	 * @param room where requests wait that there is no connection for.
	 */
	limitTo(max: number | undefined, room: PendingQueue | undefined): void;
	/** Whether a request could have a connection now. */
	hasRoom(now: number): boolean;
	/** The address has said that it takes no request at the moment, on any connection. */
	readonly isShut: boolean;
	/**
	 * Sees to it that the next `take` or `open` stays within the limit.
	 *
	 * @param isNew it is to be `open`; at the limit an idle connection makes room for it.
	 */
	reserve(now: number, isNew?: boolean): boolean;
	/** What `reserve` has kept free, and no `take` or `open` has used. */
	giveBackReserved(): void;
	/** Idle connections end, those first that have been idle longest, until so many new ones could be made. */
	giveWay(wanted: number): void;
	/** For one request: on a connection that is there if one has room, on a new one otherwise. */
	take(now: number): UpstreamRequest;
	/** For a request that another connection has failed: on one that cannot have ended unnoticed. */
	open(): UpstreamRequest;
	/** A request or a connection has ended: somebody may wait for that, whatever the limits were when it began. */
	freed(): void;
	/**
	 * No route leads here any more: idle connections go now, those in use when they are done.
	 *
	 * @param room of its upstream: the address may be there again with another breaker, and the connections count.
	 */
	retire(room: PendingQueue | undefined): void;
	/** Also those in use, when they are done, where they were made in another way than new ones would be. */
	closeIdle(): void;
}

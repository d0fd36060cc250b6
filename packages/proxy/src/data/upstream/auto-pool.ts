import { ConnectionPool } from './connection-pool.ts';
import type { UpstreamFailure, UpstreamRequest } from './contract.ts';
import type { Dial, DialledRequest } from './dial.ts';
import type { Endpoint } from './endpoint.ts';
import { Http2Pool } from './http2/pool.ts';
import type { PendingQueue } from './pending-queue.ts';
import { UpstreamPool } from './pool.ts';

/**
 * The connections of one worker to one address that chooses between HTTP/2 and HTTP/1.1 in each handshake (ALPN, RFC 7301). The pool
 * expects the last choice again: over HTTP/2 many requests wait for one connection, over HTTP/1.1 each for its own. Before the first handshake
 * they wait together. If an address changes its choice, no response is lost: waiting requests are sent on other connections.
 */
export class AutoPool extends ConnectionPool {
	/** The last connection has chosen HTTP/1.1, so the next one most likely takes one request, too. */
	isLikely = false;
	readonly #http1: UpstreamPool;
	/** Makes all connections. */
	readonly #http2: Http2Pool;

	constructor(endpoint: Endpoint) {
		super(endpoint);
		this.#http1 = new UpstreamPool(endpoint, this.count);
		this.#http2 = new Http2Pool(endpoint, this.count, this);
	}

	get isShut(): boolean {
		return this.#http2.isShut && !this.#http1.hasIdle(this.endpoint.deadlines.now);
	}

	hasRoom(now: number): boolean {
		return this.#http2.hasRoom(now) || this.#http1.hasIdle(now);
	}

	reserve(now: number, isNew = false): boolean {
		if (!isNew && this.#http1.hasIdle(now)) return true;
		return this.#http2.reserve(now, isNew) || (!this.#http2.isShut && this.#http1.reserve(now, true));
	}

	giveWay(wanted: number): void {
		this.#http1.giveWay(wanted);
		this.#http2.giveWay(wanted);
	}

	/** Prefers an existing connection if one has room. */
	take(now: number): UpstreamRequest {
		return !this.#http2.hasConnection && this.#http1.hasIdle(now) ? this.#http1.take(now) : this.#http2.take(now);
	}

	open(): UpstreamRequest {
		return this.#http2.open();
	}

	override openHttp1(now: number): UpstreamRequest | undefined {
		this.giveWay(1);
		if (!this.#http1.reserve(now, true)) return undefined;
		const connection = this.#http1.open();
		// Other requests use HTTP/2, which some of them need (gRPC).
		connection.isForOne = true;
		return connection;
	}

	/** For `Http2Pool`: the address has chosen HTTP/1.1. */
	adopt(dial: Dial): void {
		this.isLikely = true;
		const waiting = dial.take();
		const connection = this.#http1.adopt(dial);
		const first = waiting.find(({ isWanted }) => isWanted);
		if (first === undefined) this.#http1.release(connection);
		else first.sendOn(connection);
		for (const request of waiting) if (request !== first && request.isWanted) this.#sendAnew(request);
	}

	/** Sends a request that has waited for a connection which serves another one. */
	#sendAnew(request: DialledRequest): void {
		const { now } = this.endpoint.deadlines;
		if (this.reserve(now)) return request.sendOn(this.take(now));
		request.failing(NO_CONNECTION);
		request.failed(NO_CONNECTION);
	}

	retire(pending: PendingQueue | undefined): void {
		this.#http1.retire(pending);
		this.#http2.retire(pending);
	}

	closeIdle(): void {
		this.#http1.closeIdle();
		this.#http2.closeIdle();
	}
}

/** The request waits for its turn, like any other over the limit. */
const NO_CONNECTION: UpstreamFailure = {
	kind: 'refused',
	cause: 'not sent: the upstream chose HTTP/1.1, and all its connections are in use (max_connections)',
};

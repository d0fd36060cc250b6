import type { Socket } from 'node:net';
import { PacedReads, type ReadSink } from '../client/paced-reads.ts';
import { ConnectionShare } from '../client/read-share.ts';
import type { Endpoint } from './endpoint.ts';

/**
 * Reads an HTTP/1.1 upstream later if its reads cost more than its share of the worker: many tiny chunks, or long trailers. The reads of
 * honest upstreams are too cheap to be charged.
 */
export class CostlyReads implements ReadSink {
	readonly #share: ConnectionShare;
	readonly #reads: PacedReads;
	readonly #endpoint: Endpoint;

	constructor(socket: Socket, endpoint: Endpoint) {
		this.#endpoint = endpoint;
		this.#share = new ConnectionShare(endpoint.share);
		this.#reads = new PacedReads(socket, this.#share, endpoint.reads, this);
	}

	/** @returns whether to read on; otherwise the socket is read again once there are tokens. */
	pay(price: number): boolean {
		this.#share.spend(price);
		return this.#reads.mayGoOn();
	}

	/** Its owner has stopped the socket. */
	pause(): void {
		this.#reads.isPaused = true;
	}

	/** Its owner reads the socket again. */
	unpause(): void {
		this.#reads.isPaused = false;
	}

	/** Nothing is held here: each read is taken whole. */
	onData(bytes: Buffer): number {
		return bytes.length;
	}

	onDelayed(): void {
		this.#endpoint.reportDelay();
	}

	onFault(error: unknown): void {
		this.#endpoint.log.error('proxy::exchange', 'internal error', { error });
	}
}

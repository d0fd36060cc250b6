import type { OnReadOpts, Socket } from 'node:net';
import { READ_BUFFER } from '#read-buffer';
import type { Trailers } from '../../gates/trailers.ts';
import { Timed } from '../loop/deadlines.ts';
import { endOwner, listen } from '../loop/faults.ts';
import {
	connectFailure,
	type OutgoingBody,
	type OutgoingRequest,
	type ResponseHandler,
	UNCONNECTED,
	UNREACHED,
	type UpstreamFailure,
	type UpstreamRequest,
} from './contract.ts';
import type { Endpoint } from './endpoint.ts';
import type { Http2Pool } from './http2/pool.ts';
import type { Transport } from './transport.ts';

/**
 * A connection that is being made, and the requests that wait for it. Nothing is written before that: a request that is
 * cancelled earlier never reaches the upstream, and the protocol may be known only after the handshake (ALPN).
 */
export class Dial extends Timed {
	readonly transport: Transport;
	/** Time that connecting took: at least one round trip, ms. */
	connectMs = 0;
	/** The dial takes no more requests, and the connection ends after those that already wait. */
	isLeaving = false;
	readonly #endpoint: Endpoint;
	readonly #pool: Http2Pool;
	/** The most requests that may wait. */
	readonly #places: number;
	readonly #waiting = new Set<DialledRequest>();
	readonly #socket: Socket;
	readonly #openedAt: number;
	#isOver = false;
	#reader: Reader | undefined;

	/** @param asksForBuffers whether a reader may supply buffers, which costs a call for each read. */
	constructor(endpoint: Endpoint, pool: Http2Pool, places: number, asksForBuffers: boolean) {
		super();
		this.#endpoint = endpoint;
		this.#pool = pool;
		this.#places = places;
		this.#openedAt = endpoint.clock.now();
		this.transport = endpoint.transport;
		const socket = this.transport.open({
			buffer: asksForBuffers ? () => this.#reader?.buffer() ?? READ_BUFFER : READ_BUFFER,
			callback: (length, bytes) => this.#reader?.callback(length, bytes) ?? false,
		});
		this.#socket = socket;
		const onEof = () => this.#fail(UNCONNECTED);
		listen(socket, this, {
			[this.transport.connected]: () => this.#onConnected(),
			error: (error: NodeJS.ErrnoException) => this.#fail(connectFailure(error)),
			end: onEof,
			close: onEof,
		});
	}

	/** Requests that wait. */
	get size(): number {
		return this.#waiting.size;
	}

	get hasRoom(): boolean {
		return !this.isLeaving && this.#waiting.size < this.#places;
	}

	/** Creates a request that waits once it is sent. */
	request(): DialledRequest {
		return new DialledRequest(this);
	}

	/** For requests: called when the request is sent. */
	add(request: DialledRequest): void {
		this.#waiting.add(request);
		this.#endpoint.stats.streams(1);
	}

	/** For requests: the request is no longer wanted. */
	cancel(request: DialledRequest): void {
		if (!this.#waiting.delete(request)) return;
		this.#endpoint.stats.streams(-1);
		if (this.#waiting.size === 0) this.end();
	}

	/** Removes and returns all waiting requests, which are then sent elsewhere. */
	take(): DialledRequest[] {
		const waiting = [...this.#waiting];
		this.#waiting.clear();
		this.#endpoint.stats.streams(-waiting.length);
		return waiting;
	}

	#onConnected(): void {
		if (this.#isOver || this.#socket.destroyed) return;
		this.cancelDeadline();
		this.connectMs = this.#endpoint.clock.now() - this.#openedAt;
		this.#pool.onMade(this);
	}

	/** The protocol that the upstream speaks on the connection. */
	get protocol(): 'http/1.1' | 'h2' {
		return this.transport.protocolOf(this.#socket);
	}

	/** Gives the connection to another owner. @param reader of everything that arrives. */
	handOver(reader: Reader): Socket {
		this.#isOver = true;
		this.#reader = reader;
		return this.#socket;
	}

	/** Takes no more requests; those that wait are served. */
	leave(): void {
		this.isLeaving = true;
		if (this.#waiting.size === 0) this.end();
	}

	/** Ends a dial that no request waits for. */
	end(): void {
		this.#fail(UNCONNECTED);
	}

	override onDeadline(): void {
		this.#fail(UNREACHED);
	}

	/** Our code has thrown in a callback of the socket. */
	override onFault(error: unknown): void {
		this.#endpoint.log.error('proxy::exchange', 'internal error', { error });
		const waiting = this.take();
		this.end();
		for (const request of waiting) request.fault(error);
	}

	#fail(failure: UpstreamFailure): void {
		if (this.#isOver) return;
		this.#isOver = true;
		this.cancelDeadline();
		const waiting = this.take();
		// Before another request can take the connection's place: a breaker that this failure opens must be open by then.
		for (const request of waiting) request.failing(failure);
		this.#pool.forgetDial(this);
		this.#socket.destroy();
		for (const request of waiting) request.failed(failure);
	}
}

/** Reads the socket. */
interface Reader {
	buffer(): Uint8Array;
	readonly callback: OnReadOpts['callback'];
}

/** A request that waits for its connection. More of its body comes only after `onConnected`. */
export class DialledRequest implements UpstreamRequest {
	readonly #dial: Dial;
	#unsent: { request: OutgoingRequest; body: OutgoingBody; handler: ResponseHandler } | undefined;
	/** The request on its connection, once it has been sent. */
	#sent: UpstreamRequest | undefined;

	constructor(dial: Dial) {
		this.#dial = dial;
	}

	get isConnected(): boolean {
		return this.#sent?.isConnected ?? false;
	}

	get mayBeRefused(): boolean {
		return this.#sent?.mayBeRefused ?? false;
	}

	/** For the taker of the request: `false` if it has been cancelled meanwhile. */
	get isWanted(): boolean {
		return this.#unsent !== undefined;
	}

	send(request: OutgoingRequest, body: OutgoingBody, handler: ResponseHandler): void {
		this.#unsent = { request, body, handler };
		this.#dial.add(this);
	}

	/** For the taker of the request. @param place on a connection, or on another dial. */
	sendOn(place: UpstreamRequest): void {
		const { request, body, handler } = this.#unsent!;
		this.#unsent = undefined;
		this.#sent = place;
		try {
			place.send(request, body, handler);
			if (place.isConnected) handler.onConnected();
		} catch (error) {
			place.destroy();
			endOwner(handler, error);
		}
	}

	write(bytes: Buffer): boolean {
		return this.#sent!.write(bytes);
	}

	finish(trailers?: Trailers): void {
		this.#sent!.finish(trailers);
	}

	pause(): void {
		this.#sent?.pause();
	}

	resume(): void {
		this.#sent?.resume();
	}

	destroy(): void {
		if (this.#sent !== undefined) return this.#sent.destroy();
		this.#unsent = undefined;
		this.#dial.cancel(this);
	}

	/** `failed` follows, once any thread can take the connection's place. */
	failing(failure: UpstreamFailure): void {
		this.#unsent?.handler.onFailing(failure);
	}

	failed(failure: UpstreamFailure): void {
		const handler = this.#unsent?.handler;
		this.#unsent = undefined;
		if (handler === undefined) return;
		try {
			handler.onFailure(failure);
		} catch (error) {
			endOwner(handler, error);
		}
	}

	/** Our code has thrown, and the connection ends. */
	fault(error: unknown): void {
		const handler = this.#unsent?.handler;
		this.#unsent = undefined;
		if (handler !== undefined) endOwner(handler, error);
	}
}

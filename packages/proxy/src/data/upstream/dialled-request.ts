import type { Trailers } from '../../gates/trailers.ts';
import { endOwner } from '../loop/faults.ts';
import type { OutgoingBody, OutgoingRequest, ResponseHandler, UpstreamFailure, UpstreamRequest } from './contract.ts';
import type { Dial } from './dial.ts';

/** A request that waits for its connection. More of its body comes only after `onConnected`. */
export class DialledRequest implements UpstreamRequest {
	readonly #dial: Dial;
	#unsent: Unsent | undefined;
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

interface Unsent {
	readonly request: OutgoingRequest;
	readonly body: OutgoingBody;
	readonly handler: ResponseHandler;
}

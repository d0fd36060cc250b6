import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Timed } from '../loop/deadlines.ts';
import type { Exchange } from '../request/exchange.ts';
import { Reservation } from './buffered-bytes.ts';

/**
 * The memory that connections hold of one request's bytes until the other side takes them. It is charged to the tenant, like a
 * collected body.
 */
export class HeldBytes extends Timed {
	readonly #request: Exchange;
	readonly #refuse: (why: Rejection) => void;
	readonly #charged = new Map<Holder, Reservation>();
	#isClientFull = false;

	/** @param refuse called if there is no room. */
	constructor(request: Exchange, refuse: (why: Rejection) => void) {
		super();
		this.#request = request;
		this.#refuse = refuse;
	}

	/** @param bytes that are held there now. */
	hold(holder: Holder, bytes: number): void {
		let charged = this.#charged.get(holder);
		if (bytes === 0) return charged?.release();
		if (charged === undefined) {
			const { plane, principal } = this.#request.context;
			charged = new Reservation(plane.bufferedBytes, principal!.tenantKey);
			this.#charged.set(holder, charged);
		}
		const noRoom = charged.resize(bytes);
		if (noRoom !== undefined) this.#refuse(noRoom);
	}

	/** The client's connection takes no more of the response. Mostly it does so again at once, so it is looked at from time to time. */
	onClientFull(): void {
		this.#isClientFull = true;
		if (this.deadline.queue === undefined) this.#request.context.plane.deadlines.full.add(this);
	}

	onClientDrained(): void {
		this.#isClientFull = false;
		if (this.#charged.size > 0) this.hold('client', 0);
	}

	override onDeadline(): void {
		if (this.#isClientFull) this.hold('client', this.#request.context.client.heldResponse);
	}

	override onFault(error: unknown): void {
		this.#request.onFault(error);
	}

	release(): void {
		this.cancelDeadline();
		for (const charged of this.#charged.values()) charged.release();
	}
}

/** The client's connection holds the `upload`, then the upstream's; that holds the `response`, then the client's. */
type Holder = 'upload' | 'upstream upload' | 'response' | 'client';

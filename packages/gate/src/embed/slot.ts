import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { RequestSlots } from '../gates/quota.ts';

/** An admitted request's place among the requests that its tenant may have in flight. */
export interface Slot {
	/** Call it when the request is over. Further calls do nothing. */
	release(): void;
	/** The same as `release`. */
	[Symbol.dispose](): void;
}

/**
 * @param slots the tenant's slots, of which the caller has just claimed one.
 *
 * @internal
 */
export function takenSlot(slots: RequestSlots): Slot {
	let isTaken = true;
	const release = () => {
		if (!isTaken) return;
		isTaken = false;
		slots.release();
	};
	return { release, [Symbol.dispose]: release };
}

/**
 * Releases the slot when the response is over: sent, aborted, or never begun because the client has left.
 *
 * @internal
 */
export function releaseAfterResponse(
	slot: Slot,
	req: IncomingMessage | Http2ServerRequest,
	res: ServerResponse | Http2ServerResponse,
): void {
	// After an asynchronous middleware the response may be over already, and no event follows.
	if ('stream' in res && res.stream !== undefined) {
		if (res.stream.destroyed) return slot.release();
	} else {
		const { socket } = req as IncomingMessage;
		if ((res as ServerResponse).destroyed || socket?.destroyed) return slot.release();
		// A pipelined response: until its turn, Node does not tell it that the connection has ended.
		if (res.socket === null) releaseAfterPipeline(slot, res as ServerResponse, socket);
	}
	// Requests of Fastify's `inject` emit `finish` and never `close`.
	(res as ServerResponse).once('finish', slot.release).once('close', slot.release);
}

/**
 * Releases the slot when the connection is closed.
 *
 * @internal
 */
export function releaseAfterConnection(slot: Slot, socket: Duplex): void {
	if (socket.destroyed) slot.release();
	else socket.once('close', slot.release);
}

/** One listener for each connection, however many requests wait on it. */
const PIPELINED = new WeakMap<Socket, Set<Slot>>();

function releaseAfterPipeline(slot: Slot, res: ServerResponse, socket: Socket): void {
	let waiting = PIPELINED.get(socket);
	if (waiting === undefined) {
		const slots = new Set<Slot>();
		socket.once('close', () => {
			for (const one of slots) one.release();
		});
		PIPELINED.set(socket, slots);
		waiting = slots;
	}
	waiting.add(slot);
	res.once('close', () => waiting.delete(slot));
}

/**
 * Releases the slot when the client of a web-standard request disconnects.
 *
 * @internal
 */
export function releaseAfterAbort(slot: Slot, signal: AbortSignal): void {
	// An aborted signal emits no further event.
	if (signal.aborted) slot.release();
	else signal.addEventListener('abort', slot.release, { once: true });
}

/**
 * As `releaseAfterResponse`, for a web-standard response, which has no event for its end. The slot is released after the last byte of the
 * body, or when the server cancels it.
 *
 * @returns the response to return in its place.
 *
 * @internal
 */
export function releaseAfterBody(slot: Slot, response: Response): Response {
	const { body } = response;
	// A body with another reader cannot be watched.
	if (body === null || body.locked) {
		slot.release();
		return response;
	}
	const watched = body.pipeThrough(new TransformStream({ flush: slot.release, cancel: slot.release }));
	return new Response(watched, response);
}

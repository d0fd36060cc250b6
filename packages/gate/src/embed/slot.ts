import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { RequestSlots } from '../gates/quota.ts';

/** One of the requests that a tenant may have under way at once, taken by a request that was let through. */
export interface Slot {
	/** The request is over. Whatever is called after the first time does nothing. */
	release(): void;
	/** The same as `release`. */
	[Symbol.dispose](): void;
}

/**
 * @param slots of which one has just been taken.
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
 * Gives the slot back when the response is over: sent whole, broken off, or never begun because the client has left.
 *
 * @internal
 */
export function releaseAfterResponse(
	slot: Slot,
	req: IncomingMessage | Http2ServerRequest,
	res: ServerResponse | Http2ServerResponse,
): void {
	// It may be over before it is guarded, after a middleware that has waited: then nothing more is heard of it.
	if ('stream' in res && res.stream !== undefined) {
		if (res.stream.destroyed) return slot.release();
	} else {
		const { socket } = req as IncomingMessage;
		if ((res as ServerResponse).destroyed || socket?.destroyed) return slot.release();
		// Pipelined behind others: until it is its turn Node tells it nothing of its connection's end.
		if (res.socket === null) releaseAfterPipeline(slot, res as ServerResponse, socket);
	}
	// Requests that Fastify's `inject` makes up finish, and never close.
	(res as ServerResponse).once('finish', slot.release).once('close', slot.release);
}

/**
 * Gives the slot back when the connection is gone.
 *
 * @internal
 */
export function releaseAfterConnection(slot: Slot, socket: Duplex): void {
	if (socket.destroyed) slot.release();
	else socket.once('close', slot.release);
}

/** By connection, so that it has one listener however many requests wait on it. */
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
 * Gives the slot back when the client of a web-standard request leaves.
 *
 * @internal
 */
export function releaseAfterAbort(slot: Slot, signal: AbortSignal): void {
	// One that has been aborted says so once, and that was before.
	if (signal.aborted) slot.release();
	else signal.addEventListener('abort', slot.release, { once: true });
}

/**
 * The same as `releaseAfterResponse` for a web-standard response, which tells nobody of its end: the slot is given back with the last
 * byte of its body, or when the server cancels it.
 *
 * @returns the response to hand on in its place.
 *
 * @internal
 */
export function releaseAfterBody(slot: Slot, response: Response): Response {
	const { body } = response;
	// A body that somebody else is reading already cannot be watched.
	if (body === null || body.locked) {
		slot.release();
		return response;
	}
	const watched = body.pipeThrough(new TransformStream({ flush: slot.release, cancel: slot.release }));
	return new Response(watched, response);
}

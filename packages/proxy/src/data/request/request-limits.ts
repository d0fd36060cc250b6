import type { Limits, RequestLimitsSeed } from '../../shared/limits.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';

/** How much time and how many bytes a request may take: as its route says, or `[limits]`. Made with the routing table, not per request. */
export interface RequestLimits {
	readonly maxBodyBytes: number;
	/** For the client to send its body (collected mode). */
	readonly body: DeadlineQueue;
	/** What `roundTrip` lasts, ms; 0: there is none. */
	readonly upstreamTimeoutMs: number;
	readonly roundTrip: DeadlineQueue | undefined;
	/** Between two pieces of a response that streams, ms; 0: any time. */
	readonly silenceMs: number;
	readonly silence: DeadlineQueue | undefined;
	/** For a response that streams, from its request on, ms; `undefined`: no limit in all. */
	readonly streamMs: number | undefined;
	/** A response that streams ends when its token expires. */
	readonly endsAtExpiry: boolean;
}

/** @param own what the route sets itself; the rest is that of `[limits]`. */
export function createRequestLimits(
	limits: Limits,
	{ lasting }: Pick<PlaneDeadlines, 'lasting'>,
	own: RequestLimitsSeed = {},
): RequestLimits {
	const upstreamTimeoutMs = own.upstreamTimeoutMs ?? limits.upstreamTimeoutMs;
	const silenceMs = own.idleTimeoutMs ?? upstreamTimeoutMs;
	return {
		maxBodyBytes: own.maxBodyBytes ?? limits.maxRequestBodyBytes,
		body: lasting(own.bodyTimeoutMs ?? limits.requestBodyTimeoutMs),
		upstreamTimeoutMs,
		roundTrip: upstreamTimeoutMs === 0 ? undefined : lasting(upstreamTimeoutMs),
		silenceMs,
		silence: silenceMs === 0 ? undefined : lasting(silenceMs),
		// Where a route says only one of the two, a stream may go on for as long as it moves.
		streamMs: own.idleTimeoutMs === undefined ? undefined : own.upstreamTimeoutMs || undefined,
		endsAtExpiry: own.endsAtExpiry === true,
	};
}

/** Whether the body of some route has limits of its own, which a body mode that reads it first has to know. */
export function limitBodies(routes: readonly { readonly requestLimits?: RequestLimitsSeed | undefined }[]): boolean {
	return routes.some(({ requestLimits: own }) => own?.maxBodyBytes !== undefined || own?.bodyTimeoutMs !== undefined);
}

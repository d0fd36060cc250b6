import type { Limits, RequestLimitsSeed } from '../../shared/limits.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';

/** How much time and how many bytes a request may take: as its route says, or `[limits]`. Made with the routing table, not per request. */
export interface RequestLimits {
	readonly maxBodyBytes: number;
	/** For the client to send its body (collected mode). */
	readonly body: DeadlineQueue;
	/** What `roundTrip` lasts, ms. */
	readonly upstreamTimeoutMs: number;
	readonly roundTrip: DeadlineQueue;
}

/** @param own what the route sets itself; the rest is that of `[limits]`. */
export function createRequestLimits(
	limits: Limits,
	{ lasting }: Pick<PlaneDeadlines, 'lasting'>,
	own: RequestLimitsSeed = {},
): RequestLimits {
	const upstreamTimeoutMs = own.upstreamTimeoutMs ?? limits.upstreamTimeoutMs;
	return {
		maxBodyBytes: own.maxBodyBytes ?? limits.maxRequestBodyBytes,
		body: lasting(own.bodyTimeoutMs ?? limits.requestBodyTimeoutMs),
		upstreamTimeoutMs,
		roundTrip: lasting(upstreamTimeoutMs),
	};
}

/** Whether the body of some route has limits of its own, which a body mode that reads it first has to know. */
export function limitBodies(routes: readonly { readonly requestLimits?: RequestLimitsSeed | undefined }[]): boolean {
	return routes.some(({ requestLimits: own }) => own?.maxBodyBytes !== undefined || own?.bodyTimeoutMs !== undefined);
}

import type { Limits, RequestLimitsSeed } from '../../shared/limits.ts';
import type { DeadlineQueue } from '../loop/deadlines.ts';
import type { PlaneDeadlines } from '../plane/plane-deadlines.ts';

/** Limits on a request's time and bytes, from its route or `[limits]`. Made with the routing table, not per request. */
export interface RequestLimits {
	readonly maxBodyBytes: number;
	/** For the client to send its body (collected mode). */
	readonly body: DeadlineQueue;
	/** Length of `roundTrip`, ms; 0: no limit. */
	readonly upstreamTimeoutMs: number;
	readonly roundTrip: DeadlineQueue | undefined;
	/** Between two pieces of a streamed response, ms; 0: no limit. */
	readonly silenceMs: number;
	readonly silence: DeadlineQueue | undefined;
	/** Total time of a streamed response, counted from its request, ms; `undefined`: no limit. */
	readonly streamMs: number | undefined;
	/** A response that streams ends when its token expires. */
	readonly endsAtExpiry: boolean;
}

/** @param own limits that the route sets; the rest come from `[limits]`. */
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
		// Without an idle timeout of the route, a stream may go on for as long as it moves.
		streamMs: own.idleTimeoutMs === undefined ? undefined : own.upstreamTimeoutMs || undefined,
		endsAtExpiry: own.endsAtExpiry === true,
	};
}

/** Whether any route has body limits of its own. A body mode that reads the body before the route must know. */
export function limitBodies(routes: readonly { readonly requestLimits?: RequestLimitsSeed | undefined }[]): boolean {
	return routes.some(({ requestLimits: own }) => own?.maxBodyBytes !== undefined || own?.bodyTimeoutMs !== undefined);
}

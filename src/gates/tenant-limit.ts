/**
 * The generic cell rate algorithm (specification 8, decisions "Rate limit"): period 1 s / rps, burst rps. A bucket is
 * one number, its theoretical arrival time: the moment at which it will be full again.
 *
 * Time is counted in ticks of 1/1024 of a period, so that the period is a whole number of ticks whatever the rate is
 * and no rounding error can add up to a request too many or too few.
 */

/** Ticks that one request costs: one period. */
export const TICKS_PER_REQUEST = 1024;

/**
 * @param nowMs monotonic milliseconds since the process's own epoch, the same in every thread.
 * @param rps requests per second, at least 1.
 * @returns whole ticks, rounded down: a request is never admitted before its time.
 */
export function ticksAt(nowMs: number, rps: number): number {
	// 1024 / 1000 as 128 / 125: both factors and, wherever it is whole, the quotient are exact in a double.
	return Math.floor((nowMs * rps * 128) / 125);
}

/**
 * @param fullAt the bucket's theoretical arrival time in ticks; anything in the past is a full bucket.
 * @param now in ticks.
 * @param burst requests that a full bucket admits at once.
 * @returns the bucket's next value, or -1 when the request is over the limit (the bucket then stays as it is).
 */
export function admitTenant(fullAt: number, now: number, burst: number): number {
	const next = Math.max(fullAt, now) + TICKS_PER_REQUEST;
	return next - now > burst * TICKS_PER_REQUEST ? -1 : next;
}

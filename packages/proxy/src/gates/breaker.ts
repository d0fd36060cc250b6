/**
 * The circuit breaker of one endpoint: the next state for each state and event. Values in, next state out; `memory/breaker-cell.ts`
 * makes the transitions atomic across threads.
 */

import { UPSTREAM_UNAVAILABLE } from '@mtls-edge-proxy/gate/gates/rejection.ts';

export const CLOSED = 0;
export const OPEN = 1;
export const HALF_OPEN = 2;
export type Circuit = typeof CLOSED | typeof OPEN | typeof HALF_OPEN;

export interface BreakerState {
	readonly circuit: Circuit;
	/** Milliseconds, monotonic: when it opened, or when the probe was let through. Meaningless while closed. */
	readonly since: number;
	/** Number of the last probe that was let through: only the probe of the current half-open state can decide it. */
	readonly probe: number;
	/** The consecutive failures. Meaningless unless closed. */
	readonly streak: Streak;
}

/** Consecutive failures: no request has succeeded since the first of them. */
export interface Streak {
	/** Distinguishes it from earlier streaks. */
	readonly number: number;
	/** Failures of all kinds, up to `MAX_FAILURES`. */
	readonly failures: number;
	/** The part of them that were failures to connect. */
	readonly connects: number;
	/** The number of tenants that had the other failures, up to `MAX_TENANTS`. */
	readonly tenants: number;
}

/** Largest values of `failures` and `tenants` in the configuration; counting stops there. */
export const MAX_FAILURES = 100;
export const MAX_TENANTS = 16;

/** When failures open a closed breaker (`[breaker]`, and the same keys of a route). */
export interface OpeningRule {
	/** Consecutive failures. */
	readonly failures: number;
	/** How many tenants must have had failures among these. */
	readonly tenants: number;
	/** Statuses of gRPC that are failures as well. */
	readonly grpcStatuses?: readonly number[];
}

export const NO_STREAK: Streak = { number: 0, failures: 0, connects: 0, tenants: 0 };

/** Open until the first health probe passes, or until a cooldown has passed and a request may try. */
export const INITIAL: BreakerState = { circuit: OPEN, since: 0, probe: 0, streak: NO_STREAK };

/** Permission to send one request: `NORMAL`, or the number of the probe if it is one. */
export type Admission = number;
export const NORMAL: Admission = 0;
export const REFUSED = -1;
/** The response to a request that is refused. */
export const CIRCUIT_OPEN = UPSTREAM_UNAVAILABLE.because('circuit open');

/**
 * Why a request failed: by its status the upstream cannot serve; no connection was made; no response in time; the response broke off or
 * was not HTTP.
 */
export type FailureReason = 'status' | 'connect' | 'timeout' | 'broken';

/** The result that every admitted request must report. */
export type Outcome = 'success' | 'abandoned' | FailureReason;

/** Statuses with which an upstream says that it cannot serve. 500 is a response. */
export function isFailureStatus(status: number): boolean {
	return status === 502 || status === 503 || status === 504;
}

/**
 * A request asks to pass.
 *
 * @returns the next state when the request becomes the probe; `undefined` when the state stays as it is, which lets
 *   the request pass if it is closed and refuses it otherwise.
 */
export function onRequest(state: BreakerState, now: number, cooldownMs: number): BreakerState | undefined {
	if (state.circuit === CLOSED || now - state.since < cooldownMs) return undefined;
	// Open and cooled down; or half-open, and the probe has had no result for another cooldown.
	return { circuit: HALF_OPEN, since: now, probe: nextProbe(state.probe), streak: NO_STREAK };
}

/**
 * An admitted request has been answered with a status that is not a failure.
 *
 * @param streak number of the next streak, if this one ends.
 */
export function onSuccess(state: BreakerState, admission: Admission, streak: number): BreakerState | undefined {
	// Open: an old request's success says nothing about an upstream that has failed since. Only the probe closes.
	const endsStreak = state.circuit === CLOSED && state.streak.failures > 0;
	return endsStreak || isProbe(state, admission) ? closed(state, streak) : undefined;
}

/**
 * An admitted request has failed.
 *
 * @param counts `connect`: no connection was made, which says nothing about a tenant; otherwise whether this is the tenant's first
 *   failure in this streak.
 */
export function onFailure(
	state: BreakerState,
	admission: Admission,
	counts: 'connect' | 'new tenant' | 'known tenant',
	rule: OpeningRule,
	now: number,
): BreakerState | undefined {
	if (isProbe(state, admission)) return opened(state, now);
	if (state.circuit !== CLOSED) return undefined;
	const { number, failures, connects, tenants } = state.streak;
	const streak = {
		number,
		failures: Math.min(failures + 1, MAX_FAILURES),
		connects: Math.min(connects + Number(counts === 'connect'), MAX_FAILURES),
		tenants: Math.min(tenants + Number(counts === 'new tenant'), MAX_TENANTS),
	};
	return opens(streak, rule) ? opened(state, now) : { ...state, streak };
}

/**
 * Enough consecutive failures of enough tenants; or enough failures to connect, whatever the tenant. A failure to connect counts in
 * the streak, but for no tenant: the failures of one tenant and a lost connection among them do not open a breaker that requires
 * two tenants.
 */
function opens({ failures, connects, tenants }: Streak, rule: OpeningRule): boolean {
	return connects >= rule.failures || (failures >= rule.failures && tenants >= rule.tenants);
}

/** An admitted request has ended without a result. */
export function onAbandoned(state: BreakerState, admission: Admission): BreakerState | undefined {
	// The next request may be the probe at once: the cooldown has already passed.
	return isProbe(state, admission) ? opened(state, LONG_AGO) : undefined;
}

/** The active health check has a verdict. @param streak as in `onSuccess`. */
export function onHealth(state: BreakerState, healthy: boolean, now: number, streak: number): BreakerState | undefined {
	if (healthy) return state.circuit === CLOSED ? undefined : closed(state, streak);
	// Restarting the cooldown keeps an upstream without a 2xx `/health` at 503.
	return opened(state, now);
}

/** The state of a healthy endpoint, before any request to it has failed. */
export function closed({ probe }: BreakerState, streak: number): BreakerState {
	return { circuit: CLOSED, since: 0, probe, streak: { ...NO_STREAK, number: streak } };
}

function opened({ probe }: BreakerState, now: number): BreakerState {
	return { circuit: OPEN, since: now, probe, streak: NO_STREAK };
}

function isProbe(state: BreakerState, admission: Admission): boolean {
	return state.circuit === HALF_OPEN && admission === state.probe;
}

/** So long ago that any cooldown has passed. Zero is too recent: times are milliseconds since the process began. */
const LONG_AGO = -(2 ** 40);

/** Probe numbers fit in the 20 bits of the shared cell, and are never `NORMAL`. */
const PROBES = 2 ** 20;
function nextProbe(probe: number): number {
	return (probe + 1) % PROBES || 1;
}

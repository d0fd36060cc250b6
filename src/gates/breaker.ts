/**
 * The circuit breaker of one upstream (specification 2.5 and 3.1, decisions "Circuit breaker"): what each event makes
 * of each state. Values in, next state out; `shared/breaker-cell.ts` makes the transitions atomic over all threads.
 */

export const CLOSED = 0;
export const OPEN = 1;
export const HALF_OPEN = 2;
export type Circuit = typeof CLOSED | typeof OPEN | typeof HALF_OPEN;

export interface BreakerState {
	readonly circuit: Circuit;
	/** Milliseconds, monotonic: when it opened, or when the probe was let through. Without meaning while closed. */
	readonly since: number;
	/** Counts the probes let through, so that only the probe of this very half-open state can decide it. */
	readonly probe: number;
}

/** Unproven until the first health probe has passed, but any request may try once a cooldown has gone by. */
export const INITIAL: BreakerState = { circuit: OPEN, since: 0, probe: 0 };

/** Permission to send one request: `NORMAL`, or the number of the probe that it is. */
export type Admission = number;
export const NORMAL: Admission = 0;
export const REFUSED = -1;

/** What a request that was let through must report in the end. */
export type Outcome = 'success' | 'failure' | 'abandoned';

/** Statuses by which an upstream says that it cannot serve; 500 is an answer (specification 3.1). */
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
	// Open and cooled down; or half-open with a probe that has been silent for another cooldown and is given up.
	return { circuit: HALF_OPEN, since: now, probe: nextProbe(state.probe) };
}

/** A request that was let through has ended. */
export function onOutcome(
	state: BreakerState,
	admission: Admission,
	outcome: Outcome,
	now: number,
): BreakerState | undefined {
	const isProbe = state.circuit === HALF_OPEN && admission === state.probe;
	switch (outcome) {
		case 'success':
			// Only the probe closes: an old request's success says nothing of an upstream that failed since.
			return isProbe ? { ...state, circuit: CLOSED } : undefined;
		case 'failure':
			return isProbe || state.circuit === CLOSED ? { ...state, circuit: OPEN, since: now } : undefined;
		case 'abandoned':
			// The probe ended without a verdict. Its slot is free at once: the cooldown has already been served.
			return isProbe ? { ...state, circuit: OPEN, since: LONG_AGO } : undefined;
	}
}

/** The active health check has spoken. */
export function onHealth(state: BreakerState, healthy: boolean, now: number): BreakerState | undefined {
	if (healthy) return state.circuit === CLOSED ? undefined : { ...state, circuit: CLOSED };
	// Restarting the cooldown keeps an upstream without a 2xx `/health` at 503 (specification 4.2).
	return { ...state, circuit: OPEN, since: now };
}

/** So far back that any cooldown has passed; times are milliseconds since the process began, so zero would not do. */
const LONG_AGO = -(2 ** 40);

/** Probe numbers fit the 20 bits that the shared cell has for them and are never `NORMAL`. */
const PROBES = 2 ** 20;
function nextProbe(probe: number): number {
	return (probe + 1) % PROBES || 1;
}

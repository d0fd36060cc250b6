import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { CLOSED, OPEN, type Transition, type TransitionObserver } from '../memory/breaker-cell.ts';
import { CIRCUIT_NAMES, type TransitionCounts } from '../memory/transition-counts.ts';
import type { UpstreamLoad } from '../memory/upstream-load.ts';

const TARGET = 'proxy::breaker';

/**
 * Counts and logs the transitions of one endpoint's circuit that this thread makes, and records when the endpoint serves again. The
 * log is rate-limited: clients that leave at the right moment can make a circuit alternate between open and half-open as fast as
 * they send requests.
 *
 * @param names of the endpoint: `host:port`, and the name of its `[[upstreams]]`, if it has one.
 * @param load keeps the time of its recovery.
 * @param log of this endpoint only: one that changes often must not suppress another's lines.
 * @param clock that all breakers use.
 */
export function watchCircuit(
	names: { readonly upstream: string; readonly group: string | undefined },
	counts: TransitionCounts,
	load: Pick<UpstreamLoad, 'servesSince'>,
	log: RateLimitedLog,
	clock: Clock,
): TransitionObserver {
	return ({ from, to, reason, cause }: Transition) => {
		const state = CIRCUIT_NAMES[to];
		const now = clock.now();
		if (to === CLOSED) load.servesSince(now);
		counts.count(state, reason, cause, now, clock.wallSeconds());
		log.write(to === OPEN ? 'warn' : 'info', TARGET, `circuit is ${state}`, `${state} ${reason}`, () => ({
			...names,
			from: CIRCUIT_NAMES[from],
			to: state,
			reason,
			cause,
		}));
	};
}

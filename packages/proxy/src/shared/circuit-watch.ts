import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import { CLOSED, OPEN, type Transition, type TransitionObserver } from '../memory/breaker-cell.ts';
import { CIRCUIT_NAMES, type TransitionCounts } from '../memory/transition-counts.ts';
import type { UpstreamLoad } from '../memory/upstream-load.ts';

const TARGET = 'proxy::breaker';

/**
 * Counts and logs what this thread makes of one upstream's circuit, and notes when it serves again. The log is a limited one, since clients that leave at
 * the right moment can have a circuit open and half-open in turns, as fast as they can ask.
 *
 * @param names of the upstream: `host:port`, and the name of its `[[upstreams]]`, if it has one.
 * @param load where the time of its return is kept.
 * @param log of this upstream only: one that changes often must not hide another's lines.
 * @param clock the scale of all breakers.
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

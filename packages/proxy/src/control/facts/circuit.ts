import type { LastTransition } from '../../memory/transition-counts.ts';
import { UpstreamStats } from '../../memory/upstream-stats.ts';
import { inWords } from '../health/outcome.ts';
import type { Endpoint } from '../routing/table.ts';

/** The latest transition of an upstream's circuit, by any thread; `undefined` if there has been none. */
export function lastTransition({ counters, made }: Pick<Endpoint, 'counters' | 'made'>): LastTransition | undefined {
	const lasts = [counters.transitions, ...counters.stats.map((region) => new UpstreamStats(region).transitions)].map(
		({ last }) => last,
	);
	const last = lasts.reduce((latest, last) => ((last?.at ?? -1) >= (latest?.at ?? -1) ? (last ?? latest) : latest));
	// A transition of an earlier breaker says nothing about this one.
	return last !== undefined && last.at >= made.at ? last : undefined;
}

/** Why the circuit of an upstream without a transition is open, and since when: a circuit starts open. */
export function beginning({
	made,
	lastProbe,
}: Pick<Endpoint, 'made' | 'lastProbe'>): Pick<LastTransition, 'wallSeconds' | 'reason' | 'cause'> {
	const cause = 'no health probe has passed yet';
	return {
		wallSeconds: made.wallSeconds,
		reason: 'health',
		cause: lastProbe === undefined ? cause : `${cause}; ${inWords(lastProbe)}`,
	};
}

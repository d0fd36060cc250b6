import { UpstreamStats } from '../../memory/stats.ts';
import type { LastTransition } from '../../memory/transition-counts.ts';
import { inWords } from '../health/outcome.ts';
import type { Endpoint } from '../routing/table.ts';

/** What some thread has last made of an upstream's circuit; `undefined`: it is as it was at its beginning. */
export function lastTransition({ counters, made }: Pick<Endpoint, 'counters' | 'made'>): LastTransition | undefined {
	const lasts = [counters.transitions, ...counters.stats.map((region) => new UpstreamStats(region).transitions)].map(
		({ last }) => last,
	);
	const last = lasts.reduce((latest, last) => ((last?.at ?? -1) >= (latest?.at ?? -1) ? (last ?? latest) : latest));
	// That of another breaker before this one says nothing of this one.
	return last !== undefined && last.at >= made.at ? last : undefined;
}

/** Why the circuit of an upstream without a transition is open, and since when: it begins so. */
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

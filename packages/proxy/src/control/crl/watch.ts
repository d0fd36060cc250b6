import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { CrlSeed } from '../../identity/client-chain.ts';
import type { Timers } from '../timers.ts';

interface CrlWatchParts {
	readonly timers: Pick<Timers, 'every'>;
	readonly crls: () => readonly CrlSeed[];
	/** Wall-clock seconds since the epoch. */
	readonly wallSeconds: () => number;
	readonly log: Logger;
}

/** Warns once about each CRL that expires while it is in use. Reading has warned about those that had expired before. */
export function watchCrls({ timers, crls, wallSeconds, log }: CrlWatchParts): () => void {
	let before = wallSeconds();
	return timers.every(LOOK_MS, () => {
		const now = wallSeconds();
		const all = crls();
		for (const { caId, issuer, nextUpdate } of all) {
			if (nextUpdate <= before || nextUpdate > now) continue;
			// A newer one of the same CA replaces it.
			if (all.some((other) => other.caId === caId && other.nextUpdate > now)) continue;
			log.warn('proxy::tls', 'CRL is out of date; fetch the next one and reload', {
				issuer,
				next_update: new Date(nextUpdate * 1000).toISOString(),
			});
		}
		before = now;
	});
}

/** CRLs live for hours or days. */
const LOOK_MS = 60_000;

import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { CrlSeed } from '../../identity/client-chain.ts';
import type { Timers } from '../timers.ts';

export interface CrlWatchParts {
	readonly timers: Pick<Timers, 'every'>;
	/** Those in force. */
	readonly crls: () => readonly CrlSeed[];
	/** Wall-clock seconds since the epoch. */
	readonly wallSeconds: () => number;
	readonly log: Logger;
}

/** Warns once of each CRL that goes out of date while it is in force. Reading has warned of those that were out of date before. */
export function watchCrls({ timers, crls, wallSeconds, log }: CrlWatchParts): () => void {
	let before = wallSeconds();
	return timers.every(LOOK_MS, () => {
		const now = wallSeconds();
		const all = crls();
		for (const { authority, issuer, nextUpdate } of all) {
			if (nextUpdate <= before || nextUpdate > now) continue;
			// A newer one of the same CA takes its place.
			if (all.some((other) => other.authority === authority && other.nextUpdate > now)) continue;
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

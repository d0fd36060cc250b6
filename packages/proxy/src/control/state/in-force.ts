import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { VainSetting } from '../../config/start-settings.ts';
import type { TlsMaterial, UpstreamTlsSeed } from '../../shared/messages.ts';

/** What all workers have, and a worker that starts begins with (besides the routing table: `routing/upstreams.ts`); and what reloads have done. */
export interface InForce {
	tls: TlsMaterial;
	identity: IdentitySeed;
	/** Of the routing table, where it has any. */
	upstreamTls?: readonly UpstreamTlsSeed[];
	/** 1 at the start; one more with each reload that took anything over. */
	generation: number;
	/** Reloads that took everything over, and those that kept anything old. */
	readonly reloads: { success: number; failure: number };
	/** Why the last reload has failed, each cause once; none: it has not. */
	failures: readonly string[];
	/** What the file says and only a restart takes over, as the last reload has found it, and since when; `undefined`: nothing. */
	needsRestart: NeedsRestart | undefined;
	/** Whether a reload is running or waits for its turn. */
	reloading: boolean;
}

export interface NeedsRestart {
	/** At least one. */
	readonly settings: readonly VainSetting[];
	/** When a reload found the first of them, seconds since the epoch. */
	readonly sinceSeconds: number;
}

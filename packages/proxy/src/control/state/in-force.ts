import type { IdentitySeed } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { VainSetting } from '../../config/start-settings.ts';
import type { TlsMaterial, UpstreamTlsSeed } from '../../shared/messages.ts';

/** The state of all workers, with which new ones begin (except the routing table: `routing/upstreams.ts`), and the results of reloads. */
export interface InForce {
	tls: TlsMaterial;
	identity: IdentitySeed;
	/** TLS of the routing table, if it has any. */
	upstreamTls?: readonly UpstreamTlsSeed[];
	/** 1 at the start; one more with each reload that took anything over. */
	generation: number;
	/** Reloads that took everything over, and reloads that left some part old. */
	readonly reloads: { success: number; failure: number };
	/** Why the last reload failed, each cause once; empty if it did not. */
	failures: readonly string[];
	/** Changed settings that only a restart takes over, as the last reload found them, and since when; `undefined`: none. */
	needsRestart: NeedsRestart | undefined;
	/** Whether a reload is running or waiting. */
	reloading: boolean;
}

interface NeedsRestart {
	/** At least one. */
	readonly settings: readonly VainSetting[];
	/** When a reload found the first of them, seconds since the epoch. */
	readonly sinceSeconds: number;
}

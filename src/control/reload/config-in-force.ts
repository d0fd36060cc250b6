import type { IdentitySeed } from '../../identity/trust.ts';
import type { TlsMaterial, UpstreamTlsSeed } from '../../shared/messages.ts';

/** What a reload exchanges, besides the routing table (see `upstreams.ts`), and how often it did. */
export interface ConfigInForce {
	tls: TlsMaterial;
	identity: IdentitySeed;
	/** Of the routing table, where it has any. */
	upstreamTls?: readonly UpstreamTlsSeed[];
	/** 1 at the start; one more with each reload that took anything over. */
	generation: number;
	/** Reloads that took everything over, and those that kept anything old. */
	readonly reloads: { success: number; failure: number };
	/** Whether a reload is running or waits for its turn. */
	reloading: boolean;
}

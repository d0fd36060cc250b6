/**
 * The validated configuration: what the rest of the program sees of the TOML file (specification 2.1, decisions
 * "Limits beyond the specification"). Every duration here is in milliseconds, every size in bytes; both are frozen.
 */

import type { Limits } from '../shared/limits.ts';
import type { LogSettings } from '../shared/messages.ts';

export type { Limits };

/** Where an upstream lives. `authority` is `host:port` exactly as it goes into `Host` and into metric labels. */
export interface UpstreamAddress {
	readonly authority: string;
	/** Host name or IP literal as `net.connect` takes it (IPv6 without brackets). */
	readonly host: string;
	readonly port: number;
}

/** One `[[routes]]` table. */
export interface RouteConfig {
	/** Path prefix, begins with `/`, matched on a path-segment boundary. */
	readonly prefix: string;
	readonly upstream: UpstreamAddress;
	/** Breaker cooldown in ms, at least 1000. */
	readonly cooldownMs: number;
}

export interface Config {
	/** The file it was read from, for messages. */
	readonly path: string;
	readonly healthIntervalMs: number;
	/** Requests per second for each `sub`; 0 disables limiting. */
	readonly tenantRps: number;
	readonly tls: { readonly certPath: string; readonly keyPath: string; readonly clientCaPath: string };
	readonly jwt: {
		readonly publicKeyPath: string;
		readonly issuer: string | undefined;
		readonly audience: string | undefined;
	};
	readonly routes: readonly RouteConfig[];
	readonly limits: Limits;
	readonly log: LogSettings;
}

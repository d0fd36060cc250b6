/**
 * The validated configuration: what the rest of the program sees of the TOML file (specification 2.1, decisions
 * "Limits beyond the specification"). Every duration here is in milliseconds, every size in bytes; both are frozen.
 */

import type { OpeningRule } from '../gates/breaker.ts';
import type { RateClaim, RateSeed, TenantSeed } from '../identity/quotas.ts';
import type { Limits } from '../shared/limits.ts';
import type { LogSettings } from '../shared/messages.ts';

export type { Limits, OpeningRule };

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
	/** What opens the breaker. */
	readonly opening: OpeningRule;
	/** How the upstream's health is probed; `undefined`: not at all. The same for all routes to one upstream. */
	readonly health: HealthSettings | undefined;
	/** How long an idle connection to the upstream is kept, ms. The same for all routes to one upstream. */
	readonly idleTimeoutMs: number;
	/** For each tenant, in addition to its own; `undefined`: none. */
	readonly rate: RateSeed | undefined;
}

export interface HealthSettings {
	/** Origin form, begins with `/`. */
	readonly path: string;
	/** For the answer's head, from the look-up of the name on. */
	readonly timeoutMs: number;
	/** So many verdicts in a row make an upstream unhealthy, and healthy again; at least 1. */
	readonly unhealthyAfter: number;
	readonly healthyAfter: number;
}

export interface Config {
	/** The file it was read from, for messages. */
	readonly path: string;
	/** Line of each key that the file has, by the key's full name: `tls.cert_path`, `routes[2].prefix`. */
	readonly lines: Readonly<Record<string, number>>;
	readonly healthIntervalMs: number;
	/** Requests per second for each tenant of which nothing else is said; 0 disables limiting. */
	readonly tenantRps: number;
	/** Whether the files that a reload reads are watched, and a change of theirs is one. */
	readonly reloadOnChange: boolean;
	readonly tls: {
		readonly certPath: string;
		readonly keyPath: string;
		readonly clientCaPath: string;
		/** Default 1.2. */
		readonly minVersion?: '1.2' | '1.3' | undefined;
	};
	readonly jwt: {
		readonly publicKeyPath: string;
		readonly issuer: string | undefined;
		readonly audience: string | undefined;
		/** Whether a reload reads it, too; otherwise it is read at the start alone (specification 5). */
		readonly reload: boolean;
		/** Where tokens say how much their tenant may ask for; `undefined`: nowhere. */
		readonly rateClaim: RateClaim | undefined;
	};
	/** `[[tenants]]`. */
	readonly tenants: readonly TenantSeed[];
	/** Whether a reload takes over whom we believe, and how much each tenant may ask for. */
	readonly reloadsIdentity: boolean;
	readonly routes: readonly RouteConfig[];
	readonly limits: Limits;
	readonly log: LogSettings;
}

/**
 * The files that a configuration names. A configuration has all of them; of one that is wrong elsewhere, those can be looked
 * at all the same that it names.
 */
export interface ConfigFiles {
	readonly path: string;
	readonly lines: Config['lines'];
	readonly tls: { readonly [Key in keyof Config['tls']]?: Config['tls'][Key] | undefined };
	readonly jwt: { readonly publicKeyPath?: string | undefined };
}

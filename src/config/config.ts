/**
 * The validated configuration: what the rest of the program sees of the TOML file (specification 2.1, decisions
 * "Limits beyond the specification"). Every duration here is in milliseconds, every size in bytes; both are frozen.
 */

import type { OpeningRule } from '../gates/breaker.ts';
import type { CertificateBound } from '../identity/bound-token.ts';
import type { CertificateHeadersSeed } from '../identity/certificate-headers.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
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
	/** Who may use it; `undefined`: whoever has a token. */
	readonly access?: RouteAccessSeed | undefined;
	/** What the upstream is told of the client's certificate; `undefined`: nothing. */
	readonly certificateHeaders?: CertificateHeadersSeed | undefined;
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
	/** Requests per second for each `sub`; 0 disables limiting. */
	readonly tenantRps: number;
	/** Whether the files that a reload reads are watched, and a change of theirs is one. */
	readonly reloadOnChange: boolean;
	readonly tls: {
		readonly certPath: string;
		readonly keyPath: string;
		readonly clientCaPath: string;
		/** Default 1.2. */
		readonly minVersion?: '1.2' | '1.3' | undefined;
		/** Files of CRLs; none: nobody asks whether a certificate is revoked, but for `revokedPath`. */
		readonly crlPaths: readonly string[];
		/** Whether clients are refused whose issuer has no fresh CRL. */
		readonly crlRequired: boolean;
		/** Whether a certificate that expires ends the connections that it has opened. */
		readonly endAtExpiry: boolean;
		/** Whether a CA that is gone from the bundle ends the connections of its clients. */
		readonly endAtCaRemoval: boolean;
	};
	/** Revoked certificates, tokens and tenants; reloaded with the files of `[tls]`. */
	readonly revokedPath: string | undefined;
	readonly jwt: {
		readonly publicKeyPath: string;
		readonly issuer: string | undefined;
		readonly audience: string | undefined;
		readonly certificateBound: CertificateBound;
	};
	/** Whether a reload takes over whom we believe, too; otherwise `[jwt]` is read at the start alone (specification 5). */
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
	readonly revokedPath?: string | undefined;
}

/**
 * The validated configuration: what the rest of the program sees of the TOML file (specification 2.1, decisions
 * "Limits beyond the specification"). Every duration here is in milliseconds, every size in bytes; both are frozen.
 */

import type { Algorithm } from '../gates/algorithm.ts';
import type { OpeningRule } from '../gates/breaker.ts';
import type { CertificateBound } from '../identity/bound-token.ts';
import type { CertificateHeadersSeed } from '../identity/certificate-headers.ts';
import type { IssuerRules } from '../identity/issuer.ts';
import type { RateClaim, RateSeed, TenantSeed } from '../identity/quotas.ts';
import type { RouteAccessSeed } from '../identity/route-access.ts';
import type { Limits } from '../shared/limits.ts';
import type { LogSettings, TraceSettings } from '../shared/messages.ts';

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

/** One `[[issuers]]` table. */
export interface IssuerConfig {
	readonly issuer: string;
	readonly rules: IssuerRules;
	readonly keys: KeySource;
}

export type KeySource = FileSource | NetworkSource;

export interface FileSource {
	readonly type: 'file';
	/** Full key of the file (`IssuerFile.key`). */
	readonly key: string;
}

export interface NetworkSource {
	readonly type: 'network';
	/** Full key that asks for it, for messages. */
	readonly key: string;
	/** Of the JWK Set; `undefined`: it stands in the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
	readonly url: string | undefined;
	/** Full key of the CA bundle that takes the place of the system's. */
	readonly caKey: string | undefined;
	readonly refreshMs: number;
	/** How old keys may become while the issuer gives none. */
	readonly maxStaleMs: number;
}

/** A file that an `[[issuers]]` names. */
export interface IssuerFile {
	/** Full key: `issuers[0].jwks_path`. */
	readonly key: string;
	readonly path: string;
	readonly content: 'key' | 'keys' | 'authorities';
	/** Those of the issuer. */
	readonly algorithms: readonly Algorithm[];
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
	/** `undefined` where there are `issuers`. */
	readonly jwt:
		| {
				readonly publicKeyPath: string;
				readonly issuer: string | undefined;
				readonly audience: string | undefined;
				readonly certificateBound: CertificateBound;
				/** Where tokens say how much their tenant may ask for; `undefined`: nowhere. */
				readonly rateClaim: RateClaim | undefined;
				/** Whether a reload reads it, too; otherwise it is read at the start alone (specification 5). */
				readonly reload: boolean;
		  }
		| undefined;
	readonly issuers: readonly IssuerConfig[];
	/** The files that `issuers` name. */
	readonly issuerFiles: readonly IssuerFile[];
	/** Folder for what is to outlive the process, such as the last keys that were fetched; read at the start alone. */
	readonly stateDir: string | undefined;
	/** `[[tenants]]`. */
	readonly tenants: readonly TenantSeed[];
	/** Whether a reload takes over whom we believe, and how much each tenant may ask for. What of it does not change then stays as it was. */
	readonly reloadsIdentity: boolean;
	readonly routes: readonly RouteConfig[];
	readonly limits: Limits;
	readonly log: LogSettings;
	/** Upper bounds of the histograms' buckets, ascending, in seconds as they are shown; read at the start alone. */
	readonly metrics: { readonly buckets: readonly number[]; readonly gateBuckets: readonly number[] };
	/** `undefined`: nothing is traced. Read at the start alone, like the files that it names. */
	readonly trace: TraceConfig | undefined;
	/** `undefined`: this process limits by itself. Read at the start alone, like the files that it names. */
	readonly limiter: LimiterConfig | undefined;
	/** The status page; read at the start alone. */
	readonly status: {
		/** Whether it names tenants. */
		readonly tenants: boolean;
		/** Names that it may be asked for by. */
		readonly hosts: readonly string[];
	};
}

/** `[trace]`. */
export interface TraceConfig extends TraceSettings {
	/** With its path. */
	readonly endpoint: string;
	readonly caPath: string | undefined;
	readonly headersPath: string | undefined;
	readonly serviceName: string;
}

/** Where a server of the store is: the store itself, a Sentinel, or a node of a Cluster. */
export interface StoreAddress {
	/** Host name or IP literal as `net.connect` takes it (IPv6 without brackets). */
	readonly host: string;
	readonly port: number;
	readonly tls: boolean;
	/** Number of the database. */
	readonly database: number;
}

/** What holds while the store is away: `docs/limits.md`. */
export type OnStoreFailure = 'share' | 'local' | 'refuse';

/** `[limiter]`. */
export interface LimiterConfig {
	/** At least one; several only with `sentinelName` or `cluster`. All have the same `tls` and `database`. */
	readonly store: readonly StoreAddress[];
	readonly sentinelName: string | undefined;
	readonly cluster: boolean;
	readonly onStoreFailure: OnStoreFailure;
	/** As long as the store has not said how many there are. */
	readonly replicas: number;
	readonly username: string | undefined;
	readonly passwordPath: string | undefined;
	readonly sentinelUsername: string | undefined;
	readonly sentinelPasswordPath: string | undefined;
	readonly caPath: string | undefined;
	readonly certPath: string | undefined;
	readonly keyPath: string | undefined;
	/** That the store's certificate has to have. */
	readonly serverName: string | undefined;
	readonly secretPath: string | undefined;
	/** Of all keys in the store. */
	readonly prefix: string;
	/** For one answer of the store. */
	readonly timeoutMs: number;
	/** Whether what is revoked in the store holds here. */
	readonly revocations: boolean;
}

/** The files of `[limiter]`. */
export type LimiterFileKey = 'passwordPath' | 'sentinelPasswordPath' | 'caPath' | 'certPath' | 'keyPath' | 'secretPath';

/**
 * The files that a configuration names. A configuration has all of them; of one that is wrong elsewhere, those can be looked
 * at all the same that it names.
 */
export interface ConfigFiles {
	readonly path: string;
	readonly lines: Config['lines'];
	readonly tls: { readonly [Key in keyof Config['tls']]?: Config['tls'][Key] | undefined };
	readonly revokedPath?: string | undefined;
	readonly trace?: { readonly caPath?: string | undefined; readonly headersPath?: string | undefined } | undefined;
	readonly limiter?: { readonly [Key in LimiterFileKey]?: string | undefined } | undefined;
	/** `undefined` where the configuration is wrong. */
	readonly issuers?: Config['issuers'] | undefined;
	readonly jwt: { readonly publicKeyPath?: string | undefined } | undefined;
	readonly issuerFiles: readonly IssuerFile[];
}
